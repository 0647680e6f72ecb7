"""What the two stages of a trained locate-label model do: proposals, moved borders, scores by length.

    python benchmarks/proposals.py runs/ll corpus/test.jsonl [--plot proposals.png]

Printed are, absolute and a gold entity: the seeds, what the filter keeps, what the regressor makes void, how many
different spans are left, how many of them the classifier gives a type, and how many Soft-NMS leaves; the gold that
each stage could still lead to; how far the borders of what is found were moved from the seed that the filter liked
best (both borders of each entity); strict scores by the length of entities; and the share of the time that each
stage takes.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

import spanloom
from spanloom import align, formats
from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Words
from spanloom.errors import Tally
from spanloom.evaluation.metric import Score
from spanloom.heads.locate_label import NEAR_ENOUGH, LocateHead, LocateScheme, flattened
from spanloom.heads.seeds import moved, paired
from spanloom.predictor import Recogniser, autocast

FAR = 4
"""Moves of so many words and more are counted together."""
LONG = 20
"""Likewise entities of so many words."""

Spans = list[tuple[int, int]]


@dataclass(slots=True)
class Account:
    """The counts of all sentences, in the order of the stages."""

    stages: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    moves: Counter[int] = field(default_factory=Counter)
    gold: Counter[int] = field(default_factory=Counter)
    found: Counter[int] = field(default_factory=Counter)
    correct: Counter[int] = field(default_factory=Counter)

    def add(self, sentence: Sentence, mentions: Sequence[Mention], stages: Stages) -> None:
        """One sentence: its gold, what was found in it, and the way there."""
        gold = sorted({(each.words[0], each.words[-1] + 1) for each in sentence.mentions if not _has_gap(each)})
        for name, spans in (("seeds", stages.seeds), ("kept", stages.kept), ("distinct", set(stages.adjusted))):
            self.stages[name] += len(spans)
        self.stages["void"] += len(stages.kept) - len(stages.adjusted)
        self.stages["typed"] += stages.typed
        self.stages["found"] += len(mentions)
        self.reached["gold"] += len(gold)
        self.reached["is a seed"] += len(set(gold) & set(stages.seeds))
        self.reached["is near a proposal"] += _near(gold, stages.kept)
        self.reached["is an adjusted span"] += len(set(gold) & set(stages.adjusted))
        best: dict[tuple[int, int], tuple[float, int, int]] = {}
        for (start, end), (seed_start, seed_end), liked in zip(
            stages.adjusted, stages.seed_of, stages.liked, strict=True
        ):
            if liked > best.get((start, end), (-1.0, 0, 0))[0]:
                best[start, end] = liked, abs(start - seed_start), abs(end - seed_end)
        for mention in mentions:
            _, left, right = best[mention.words[0], mention.words[-1] + 1]
            self.moves.update((min(left, FAR), min(right, FAR)))
        wanted, said = frozenset(sentence.mentions), frozenset(mentions)
        for counter, some in ((self.gold, wanted), (self.found, said), (self.correct, wanted & said)):
            counter.update(min(len(each.words), LONG) for each in some)


@dataclass(frozen=True, slots=True)
class Stages:
    """A sentence's spans: all seeds, those that the filter keeps, and what is left of these when borders have moved."""

    seeds: Spans
    kept: Spans
    adjusted: Spans
    seed_of: Spans
    liked: list[float]
    """By the filter, the seed of each adjusted span."""
    typed: int


def _has_gap(mention: Mention) -> bool:
    return mention.words[-1] - mention.words[0] >= len(mention.words)


def _near(gold: Spans, spans: Spans) -> int:
    """How many gold spans are near one of these."""
    if not gold or not spans:
        return 0
    _, overlap = paired(torch.tensor(gold).numpy(), torch.tensor(spans).numpy())
    return int((overlap >= NEAR_ENOUGH - 1e-9).sum())


def stages_of(head: LocateHead, words: Words, scores: dict[str, Tensor]) -> list[Stages]:
    """The stages of each sentence of a batch, gone through once more."""
    flat = flattened(words)
    start, end = head.seeds(flat, words.mask.shape[1])
    liked = torch.ones(len(start)) if head.filter is None else head.filter(flat, start, end)[:, 0].sigmoid()
    kept = (liked >= head.scheme.options.keep) | torch.tensor(head.filter is None)
    sentence = flat.sentence[start]
    new_start, new_end = start, end
    if head.regressor is not None:
        offsets = head.regressor(flat, start, end)
        new_start, new_end = moved(start, end, offsets, flat.first[sentence], flat.end[sentence])
    first = flat.first[sentence]
    rows = torch.stack((sentence, start - first, end - first, new_start - first, new_end - first, kept.long()), 1)
    by_sentence: list[list[tuple[list[int], float]]] = [[] for _ in words.mask]
    for row, how_much in zip(rows.tolist(), liked.tolist(), strict=True):
        by_sentence[row[0]].append((row, how_much))
    typed = Counter(scores["sentence"][scores["classes"] != 0].tolist())
    found = []
    for at, each in enumerate(by_sentence):
        proposals = [(row, how_much) for row, how_much in each if row[5]]
        real = [(row, how_much) for row, how_much in proposals if row[3] < row[4]]
        found.append(
            Stages(
                seeds=[(row[1], row[2]) for row, _ in each],
                kept=[(row[1], row[2]) for row, _ in proposals],
                adjusted=[(row[3], row[4]) for row, _ in real],
                seed_of=[(row[1], row[2]) for row, _ in real],
                liked=[how_much for _, how_much in real],
                typed=typed[at],
            )
        )
    return found


@torch.inference_mode()
def account(ner: Recogniser, sentences: Sequence[Sentence]) -> Account:
    """Everything about these sentences."""
    counts = Account()
    head, scheme = ner.model.head, ner.model.scheme
    if not isinstance(head, LocateHead) or not isinstance(scheme, LocateScheme):
        raise SystemExit("the model has another head; a locate-label model is expected")
    for which, rows in ner.batches(sentences):
        with autocast(ner.model.device, ner.precision):
            words = ner.model.encoder(rows)
            scores = head.scores(words)
            stages = stages_of(head, words, scores)
        for i, mentions, its_stages in zip(which, scheme.decode(scores, Tally()), stages, strict=True):
            counts.add(sentences[i], mentions, its_stages)
    return counts


def shares(ner: Recogniser, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Seconds in each stage of prediction; `the rest` are pieces, batches, seeds and borders."""
    spent: Counter[str] = Counter()
    model = ner.model
    stages = {"encoder": model.encoder, "filter": model.head.filter, "regressor": model.head.regressor}
    stages |= {"classifier": model.head.classifier}

    def timed(name: str, stage: nn.Module) -> list[RemovableHandle]:
        began = 0.0

        def start(*_: object) -> None:
            nonlocal began
            began = time.perf_counter()

        def stop(*_: object) -> None:
            spent[name] += time.perf_counter() - began

        return [stage.register_forward_pre_hook(start), stage.register_forward_hook(stop)]

    handles = [handle for name, stage in stages.items() if stage is not None for handle in timed(name, stage)]
    began = time.perf_counter()
    with torch.inference_mode():
        for _, rows in ner.batches(sentences):
            with autocast(model.device, ner.precision):
                scores = model.scores(rows)
            decoding = time.perf_counter()
            model.scheme.decode(scores, Tally())
            spent["decoding"] += time.perf_counter() - decoding
    spent["the rest"] = time.perf_counter() - began - spent.total()
    for handle in handles:
        handle.remove()
    return dict(spent)


def report(counts: Account, lengths: Sequence[int]) -> str:
    """All of it as Markdown."""
    gold = max(1, counts.reached["gold"])
    lines = ["| stage | spans | a gold entity |", "|---|---|---|"]
    names = {"seeds": "seeds", "kept": "kept by the filter", "void": "void", "distinct": "different spans"}
    for key, name in (names | {"typed": "with a type", "found": "after Soft-NMS"}).items():
        lines.append(f"| {name} | {counts.stages[key]:,} | {counts.stages[key] / gold:.2f} |")
    lines += ["", "| gold that ... | share |", "|---|---|"]
    for name in ("is a seed", "is near a proposal", "is an adjusted span"):
        lines.append(f"| {name} | {100 * counts.reached[name] / gold:.2f} % |")
    lines += ["", "| words that a border moved | borders |", "|---|---|"]
    lines += [f"| {_from(move, FAR)} | {counts.moves[move]:,} |" for move in range(FAR + 1)]
    lines += ["", "| words | P | R | F1 | gold | found |", "|---|---|---|---|---|---|"]
    for length in sorted(counts.gold | counts.found):
        score = Score(counts.gold[length], counts.found[length], counts.correct[length])
        mark = "" if length in lengths else " (no seed in training)"
        figures = f"{score.precision:.2f} | {score.recall:.2f} | {score.f1:.2f} | {score.gold:,} | {score.predicted:,}"
        lines.append(f"| {_from(length, LONG)}{mark} | {figures} |")
    return "\n".join(lines)


def _from(number: int, last: int) -> str:
    return f"{number}+" if number == last else str(number)


def plot(counts: Account, file: Path) -> None:
    """Spans left after each stage, how far borders were moved, and F1 by length, side by side."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, (stages, moves, lengths) = pyplot.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    gold = max(1, counts.reached["gold"])
    names = ["seeds", "kept", "distinct", "typed", "found"]
    bars = stages.bar(names, [counts.stages[name] / gold for name in names], color="#4878a8")
    stages.bar_label(bars, fmt="%.1f")
    stages.set(title="spans a gold entity", yscale="log")
    bars = moves.bar([_from(move, FAR) for move in range(FAR + 1)], [counts.moves[move] for move in range(FAR + 1)])
    moves.bar_label(bars)
    moves.set(title="words that a border moved", ylabel="borders")
    shown = sorted(counts.gold)
    scores = [Score(counts.gold[each], counts.found[each], counts.correct[each]).f1 for each in shown]
    lengths.plot(shown, scores, marker="o")
    lengths.set(title="F1 by words of an entity", ylim=(0, 100))
    figure.savefig(file, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a trained locate-label model")
    parser.add_argument("file", type=Path, help="sentences with gold")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the same as a picture (needs matplotlib)")
    parser.add_argument("--precision", default="auto")
    options = parser.parse_args()
    ner = spanloom.load(options.folder, precision=options.precision)
    documents = formats.read(options.file, Tally())
    sentences = [each for document in documents for each in align.sentences(document, Tally(), ner.segmenter)]
    counts = account(ner, sentences)
    print(report(counts, ner.model.scheme.lengths))
    shares(ner, sentences)  # what is done once is done
    spent = shares(ner, sentences)
    print("\n| stage | share of the time |\n|---|---|")
    for name, seconds in spent.items():
        print(f"| {name} | {100 * seconds / sum(spent.values()):.1f} % |")
    if options.plot:
        plot(counts, options.plot)


if __name__ == "__main__":
    main()
