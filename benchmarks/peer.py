"""The peer: transformers' AutoModelForTokenClassification, fine-tuned by the usual recipe in plain torch.

    python benchmarks/peer.py CORPUS --encoder minilm --limit 2000 --epochs 3 --lr 1e-4 --seed 1 --split test \\
        --out predictions.jsonl

A word's label stands on its first piece, the other pieces are not looked at (-100). One learning rate; AdamW with
decay .01, none on biases and layer norms; a linear schedule with 10 % warm-up; gradients clipped to norm 1; bf16
where the processor computes in it; batches of 16 sentences in random order, padded to their longest; BIO tags. What
is longer than the encoder is truncated, and told. With a dev split, the best epoch on it is kept. Nothing of
Spanloom's model, batches or training is used: only its reading of corpora, the meaning of its tags, and its metric.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    get_linear_schedule_with_warmup,
)

from spanloom.document import Mention, Sentence
from spanloom.encoder.language_models import locate, position_limit, quiet
from spanloom.errors import Tally
from spanloom.evaluation.metric import Score, Scorer
from spanloom.heads.tags import Tags
from spanloom.predictor import resolve_precision
from spanloom.segment import Segmenter
from spanloom.training import read_split

IGNORED = -100
USUAL_LIMIT = 512


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a fine-tuning depends on, beside its sentences."""

    encoder: str = "minilm"
    lr: float = 1e-4
    epochs: int = 3
    batch: int = 16
    seed: int = 1
    precision: str = "auto"


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence as the model reads it: its pieces, a label each, and where the first piece of each word is."""

    ids: Tensor
    labels: Tensor
    firsts: dict[int, int]


@dataclass(slots=True)
class Peer:
    """A model with its tokenizer and tags."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    tags: Tags
    precision: str
    truncated: int = 0

    def rows(self, sentences: Sequence[Sentence]) -> list[Row]:
        """Sentences as rows, truncated to what the model reads; how many were is added up."""
        limit = min(USUAL_LIMIT, position_limit(self.model, self.tokenizer))
        words = [list(sentence.words) for sentence in sentences]
        encoded = self.tokenizer(words, is_split_into_words=True, truncation=True, max_length=limit)
        rows = []
        for at, sentence in enumerate(sentences):
            self.truncated += bool(encoded.encodings[at].overflowing)
            firsts: dict[int, int] = {}
            for place, word in enumerate(encoded.word_ids(at)):
                if word is not None:
                    firsts.setdefault(word, place)
            ids = torch.tensor(encoded["input_ids"][at])
            labels, tags = torch.full_like(ids, IGNORED), self.tags.encode(sentence, Tally())
            for word, place in firsts.items():
                labels[place] = tags[word]
            rows.append(Row(ids, labels, firsts))
        return rows

    def inputs(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """A padded batch."""
        ids = pad_sequence([row.ids for row in rows], batch_first=True, padding_value=self.tokenizer.pad_token_id)
        lengths = torch.tensor([[len(row.ids)] for row in rows])
        return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths).long()}

    def autocast(self) -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if self.precision == "bf16" else nullcontext()

    @torch.inference_mode()
    def predict(self, sentences: Sequence[Sentence], batch: int = 16) -> Iterator[list[Mention]]:
        """The mentions of each sentence; a word that was truncated, or has no piece, is in none."""
        self.model.eval()
        rows = self.rows(sentences)
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            with self.autocast():
                best = self.model(**self.inputs(some)).logits.argmax(-1)
            for row, tags, sentence in zip(some, best, sentences[start : start + batch], strict=True):
                by_word = torch.zeros(1, len(sentence), dtype=torch.long)
                for word, place in row.firsts.items():
                    by_word[0, word] = tags[place]
                spans = self.tags.decode(by_word.numpy(), torch.ones_like(by_word, dtype=torch.bool).numpy())
                found = zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
                yield [Mention(self.tags.types[type], tuple(range(first, end))) for first, end, type in found]

    def score(self, sentences: Sequence[Sentence]) -> Score:
        """Strict micro scores."""
        scorer = Scorer()
        for sentence, mentions in zip(sentences, self.predict(sentences), strict=True):
            scorer.add(sentence.mentions, mentions)
        return scorer.result().micro


def fine_tune(training: Sequence[Sentence], dev: Sequence[Sentence] | None, recipe: Recipe) -> tuple[Peer, float]:
    """A peer trained on sentences, and its dev F1 (-1 without dev): that of the epoch that is kept."""
    torch.manual_seed(recipe.seed)
    tags = Tags("bio", sorted({mention.type for sentence in training for mention in sentence.mentions}))
    source = locate(recipe.encoder)
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(source)
        model = AutoModelForTokenClassification.from_pretrained(source, num_labels=len(tags), dtype=torch.float32)
    model.config.id2label = dict(enumerate(tags.names))
    model.config.label2id = {name: at for at, name in enumerate(tags.names)}
    peer = Peer(model, tokenizer, tags, resolve_precision(recipe.precision, model.device))
    rows = peer.rows([sentence for sentence in training if sentence.words])
    if peer.truncated:
        tell(f"{peer.truncated} training sentences truncated")
    decaying = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    groups = [{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=recipe.lr, fused=True)
    steps = recipe.epochs * -(-len(rows) // recipe.batch)
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
    best, kept = -1.0, None
    for epoch in range(recipe.epochs):
        model.train()
        began, total = time.perf_counter(), 0.0
        for which in torch.randperm(len(rows)).split(recipe.batch):
            some = [rows[i] for i in which.tolist()]
            labels = pad_sequence([row.labels for row in some], batch_first=True, padding_value=IGNORED)
            with peer.autocast():
                loss = model(**peer.inputs(some), labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += float(loss.detach())
        seconds = time.perf_counter() - began
        f1 = peer.score(dev).f1 if dev else -1.0
        if f1 > best:
            best, kept = f1, {name: weight.clone() for name, weight in model.state_dict().items()}
        tell(
            f"peer, epoch {epoch + 1}/{recipe.epochs}  loss {total * recipe.epochs / steps:.4f}  dev F1 {f1:.2f}  "
            f"{len(rows) / seconds:.0f} sentences/s"
        )
    if kept is not None:
        model.load_state_dict(kept)
    peer.truncated = 0
    return peer, best


def write(path: Path, sentences: Sequence[Sentence], predicted: Sequence[Sequence[Mention]]) -> None:
    """Predictions as word JSONL."""
    with path.open("w", encoding="utf-8") as file:
        for sentence, mentions in zip(sentences, predicted, strict=True):
            entities = [{"type": mention.type, "indices": mention.words} for mention in mentions]
            file.write(json.dumps({"tokens": sentence.words, "entities": entities}, ensure_ascii=False) + "\n")


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="a folder with train.*, test.* and perhaps dev.*")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--limit", type=int, default=0, help="the first N training sentences; 0: all")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    parser.add_argument("--split", default="test", help="what to predict")
    parser.add_argument("--out", type=Path, help="predictions as word JSONL")
    parser.add_argument("--save", type=Path, help="keep the model in this folder")
    options = parser.parse_args()
    segmenter = Segmenter()
    training, test = (read_split(options.corpus, split, segmenter) for split in ("train", options.split))
    if training is None or test is None:
        sys.exit(f"{options.corpus}: train and {options.split} are needed")
    recipe = Recipe(options.encoder, options.lr, options.epochs, options.batch, options.seed, options.precision)
    peer, _ = fine_tune(training[: options.limit or None], read_split(options.corpus, "dev", segmenter), recipe)
    predicted = list(peer.predict(test))
    if options.out:
        write(options.out, test, predicted)
    if options.save:
        peer.model.save_pretrained(options.save)
        peer.tokenizer.save_pretrained(options.save)
    scorer = Scorer()
    for sentence, mentions in zip(test, predicted, strict=True):
        scorer.add(sentence.mentions, mentions)
    micro = scorer.result().micro
    said = f"precision {micro.precision:.2f}  recall {micro.recall:.2f}  F1 {micro.f1:.2f}"
    print(f"{options.split}  {said}  ({peer.truncated} of {len(test):,} sentences truncated)")


if __name__ == "__main__":
    main()
