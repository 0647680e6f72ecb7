"""Training: one loop for every head, and for two on one encoder.

`accelerate` takes care of devices, precision and processes. The order of work, learning rates,
stages and the best model are ours: an epoch is a plan of batches that depends on the seed and the
epoch alone, so that a run that was killed goes on as if it had not been.
"""

from __future__ import annotations

import importlib.util
import io
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, gather_object
from torch import Tensor

from spanloom import align
from spanloom.batching import plan_epoch
from spanloom.bundle import Bundle
from spanloom.checkpoint import Progress, drop_state, load_state, save_state
from spanloom.console import Progress as Bar
from spanloom.console import say, warn
from spanloom.corpus import find_corpus
from spanloom.document import Sentence
from spanloom.encoder.embeddings import FixedTable
from spanloom.encoder.encoder import Encoder
from spanloom.encoder.features import expect_tags
from spanloom.encoder.language_models import position_limit, quiet
from spanloom.encoder.pieces import Context, PieceBatch, Pieced, Pieces
from spanloom.errors import InputError, Tally, WorkFailed
from spanloom.evaluation.metric import Result
from spanloom.heads.base import Loss, Scheme, Targets
from spanloom.model import SpanloomModel, model_beside, new_model
from spanloom.modelcard import model_card
from spanloom.predictor import Recogniser, resolve_precision
from spanloom.runs import CURVE, OUTPUTS, STATE, Run, check_digests, conflicts, save_run
from spanloom.segment import Segmenter
from spanloom.tuning import Choice, Grid, middle, open_options, score_all, settle, spelt_out

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

UNREACHABLE = 0.01
"""A head that cannot learn more than this share of its gold warns of it."""


def seed_of(*parts: object) -> int:
    """A seed that depends on all of its parts, the same on every machine."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=7).digest(), "big")


def digest_of(sentences: Sequence[Sentence]) -> str:
    """What is learned from sentences, or scored on them, in a few letters: two equal ones are the same sentences."""
    digest = blake2b(digest_size=16)
    for each in sentences:
        told = (each.document, each.words, [(mention.type, mention.words) for mention in each.mentions], each.pos)
        digest.update(json.dumps(told).encode() + b"\n")
    return digest.hexdigest()


def vectors_digest(encoder: Encoder) -> dict[str, str]:
    """The same of the word vectors that were kept of a file, where there is one."""
    table = encoder.embeddings.words if encoder.embeddings is not None else None
    if not isinstance(table, FixedTable) or encoder.vocabularies is None or encoder.vocabularies.words is None:
        return {}
    digest = blake2b(json.dumps(encoder.vocabularies.words.entries).encode(), digest_size=16)
    digest.update(table.known.numpy(force=True).tobytes())
    return {"word vectors": digest.hexdigest()}


@dataclass(slots=True)
class Examples:
    """The training sentences, cut into pieces once."""

    sentences: list[Sentence]
    pieces: Pieces
    pieced: list[Pieced]
    contexts: list[Context] | None
    costs: list[float]

    @classmethod
    def of(cls, sentences: list[Sentence], pieces: Pieces, schemes: Sequence[Scheme]) -> Examples:
        pieced = pieces.pieces([each.words for each in sentences], [each.pos for each in sentences])
        names = [sentence.document for sentence in sentences]
        contexts = pieces.neighbours(pieced, names) if pieces.options.context else None
        costs = [each.work + sum(scheme.cost(len(each)) for scheme in schemes) for each in pieced]
        return cls(sentences, pieces, pieced, contexts, costs)

    def batch(
        self, which: Sequence[int], schemes: Sequence[Scheme], seed: int, epoch: int, lost: Sequence[Tally]
    ) -> tuple[PieceBatch, list[Targets]]:
        """Some sentences with the targets of each scheme, and what each has lost counted.

        Each sentence draws its own random numbers, whoever is beside it, and each scheme as if it were alone.
        """
        rows = self.pieces.batch(
            [self.pieced[i] for i in which], [self.contexts[i] for i in which] if self.contexts else None
        )
        draw = torch.Generator()
        collated = []
        for scheme, tally in zip(schemes, lost, strict=True):
            targets = []
            for i in which:
                draw.manual_seed(seed_of(seed, epoch, i))
                targets.append(scheme.targets(self.sentences[i], draw, tally))
            collated.append(scheme.collate(targets, rows.mask.shape[1]))
        return rows, collated


def read_split(corpus: str, split: str, segmenter: Segmenter, aloud: bool = True) -> list[Sentence] | None:
    """The sentences of a split with their mentions; None where the corpus has no such split."""
    found = find_corpus(corpus)
    if split not in found.splits:
        return None
    lost = Tally()
    sentences: list[Sentence] = []
    stream = sys.stderr if aloud else io.StringIO()
    with Bar(found.documents(split, lost), f"reading {split}", unit="documents", stream=stream) as documents:
        for number, document in enumerate(documents):
            # as in prediction: two documents may share a name; their sentences are no context for each other
            found_in = align.sentences(document, lost, segmenter)
            sentences.extend(replace(sentence, document=str(number)) for sentence in found_in)
    for line in lost.lines() if aloud else ():
        warn(f"{split}: lost or changed: {line}")
    return sentences


@dataclass(slots=True)
class Output:
    """A head of a run: the model that it is with the encoder, and where that is kept at its best.

    `open` are its options of decoding that are to be chosen on dev.
    """

    name: str
    model: SpanloomModel
    recogniser: Recogniser
    folder: Path
    open: Grid


def train(run: Run, folder: Path, resume: bool = False) -> Progress:
    """Trains a run into a folder, from the start or from where it was stopped."""
    return Trainer(run, folder, resume).train()


class Trainer:
    """A run on its way: outputs, optimizer, plan of work, progress."""

    def __init__(self, run: Run, folder: Path, resume: bool) -> None:
        options = run.training
        if options.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise InputError("training.tensorboard needs a package: pip install 'spanloom[tensorboard]'")
        self.run, self.folder, self.options = run, folder, options
        precision = resolve_precision(options.precision, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        AcceleratorState._reset_state()  # else a second training in one process has the precision of the first
        self.accelerator = Accelerator(
            cpu=not torch.cuda.is_available(),
            mixed_precision="bf16" if precision == "bf16" else "no",
            log_with="tensorboard" if options.tensorboard else None,
            project_dir=str(folder) if options.tensorboard else None,
            # while the language model is frozen, its parameters have no gradient
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=0 < run.encoder.freeze < 1)],
        )
        self.main = self.accelerator.is_main_process
        segmenter = Segmenter()
        training, self.dev, types = self._read(segmenter)
        models = self._models(training, types, segmenter)
        encoder = models[run.head].encoder
        digests = {"train": digest_of(training), "dev": digest_of(self.dev or ()), **vectors_digest(encoder)}
        if resume:
            check_digests(folder, digests)
        limit = position_limit(encoder.language_model, self.tokenizer)
        pieces = Pieces(self.tokenizer, run.encoder, limit, encoder.vocabularies)
        self.outputs = [
            Output(
                *(name, model, Recogniser(model, pieces, segmenter, precision), folder / OUTPUTS / name),
                open_options(name, model.config.head_options),
            )
            for name, model in models.items()
        ]
        self.outputs[0].folder = folder  # the host's is the run's own
        for output in self.outputs:
            if output.open and not self.dev:
                settle(output.model, middle(output.open))
        self.examples = Examples.of(training, pieces, self.schemes)
        self.bare = Bundle(encoder, {name: model.head for name, model in models.items()}, run.weights)
        self.group = self.accelerator.num_processes * options.accumulate
        self.plans = [
            plan_epoch(self.examples.costs, options.batch, f"{options.seed}/{epoch}", self.group)
            for epoch in range(options.epochs)
        ]
        self.steps = sum(map(len, self.plans)) // self.group
        optimizer = make_optimizer(self.bare, run)
        if run.encoder.freeze == 1:  # before distributed training notes down whose gradients it waits for
            self.bare.encoder.freeze(True)
        self.progress = (load_state(folder / STATE, self.bare, optimizer) if resume else None) or Progress()
        if self.main:
            self._tell(training, resume)
            if run.encoder.vectors_file and encoder.vocabularies is not None:
                say(f"{encoder.vocabularies.covered(training):.1%} of the words in training have a vector in the file")
            if not resume:
                save_run(run, folder, digests)
        if options.tensorboard:
            self.accelerator.init_trackers("tensorboard")
        self.model, self.optimizer = self.accelerator.prepare(self.bare, optimizer)

    def _read(self, segmenter: Segmenter) -> tuple[list[Sentence], list[Sentence] | None, list[str]]:
        """The training sentences, those of dev if there is one, and the types in the order of their names."""
        training = read_split(self.run.corpus, "train", segmenter, aloud=self.main)
        if training is None:
            raise InputError("has no train split", self.run.corpus)
        training = training[: self.options.limit or None]
        empty = sum(not sentence.words for sentence in training)
        if empty and self.main:
            warn(f"{empty:,} sentences without words are left out")
        training = [sentence for sentence in training if sentence.words]
        types = sorted({mention.type for sentence in training for mention in sentence.mentions})
        if not types:
            raise InputError("train holds no entities; there is nothing to learn", self.run.corpus)
        dev = read_split(self.run.corpus, "dev", segmenter, aloud=self.main)
        if not any(sentence.mentions for sentence in dev or ()):
            if self.main:
                which = "no dev split" if dev is None else "dev holds no entities"
                say(f"{which}: the model of the last epoch is kept, and nothing stops early")
            dev = None
        unknown = Counter(m.type for sentence in dev or () for m in sentence.mentions if m.type not in types)
        if unknown and self.main:
            told = ", ".join(f"{type} ({count:,})" for type, count in unknown.most_common())
            warn(f"dev has types that train has not, and each of their entities counts as missed: {told}")
        if self.run.encoder.pos:  # dev's would be missed at the end of the first epoch
            expect_tags(dev or (), "dev")
        return training, dev, types

    def _further_words(self, segmenter: Segmenter) -> set[str]:
        """The words of dev and test, and nothing else of these, where a file has vectors for them."""
        if not self.run.encoder.vectors_file:
            return set()
        test = read_split(self.run.corpus, "test", segmenter, aloud=False)
        return {word for sentence in (*(self.dev or ()), *(test or ())) for word in sentence.words}

    def _models(self, training: list[Sentence], types: list[str], segmenter: Segmenter) -> dict[str, SpanloomModel]:
        """The models of the heads that are trained, the host first, around one encoder."""
        run, words = self.run, self._further_words(segmenter)
        host, self.tokenizer = new_model(
            *(run.head, run.head_options, run.encoder, types, training, segmenter),
            *(seed_of(self.options.seed, run.head), words),
        )
        models = {run.head: host}
        if run.partner is not None and run.partner.head in run.weights:
            seed = seed_of(self.options.seed, run.partner.head)
            models[run.partner.head] = model_beside(host, run.partner.head, run.partner.options, training, seed)
        return models

    @property
    def schemes(self) -> list[Scheme]:
        return [output.model.scheme for output in self.outputs]

    def _tell(self, training: list[Sentence], resume: bool) -> None:
        """What a head cannot learn, and what a partner has to do without; of the latter a resumed run knows no more."""
        several = len(self.outputs) > 1
        for output in self.outputs:
            tell_unreachable(training, output.model.scheme, output.name if several else "this head")
        partner = self.run.partner
        if partner is not None and not resume:
            for line in conflicts(self.run):
                say(line)
        if partner is not None and not several:
            say(f"{partner.head} weighs nothing with alpha {partner.alpha:g}, and is not trained")
        for output in self.outputs:
            if output.open and not self.dev:
                say(f"no dev split to choose by: {spelt_out(middle(output.open))}")

    def train(self) -> Progress:
        """Epoch after epoch until the last, or until dev gets no better."""
        while self.progress.epoch < self.options.epochs and not self._is_stopping():
            record = self._epoch(self.progress.epoch)
            self.progress.epoch += 1
            if self.main:
                self._close_epoch(record)
        # what spreads the model goes before the group of processes: as its last owner it could wait for ever
        self.model = self.bare
        self.accelerator.free_memory()
        self.accelerator.end_training()
        if self.main:
            self._write_curve()  # a run that was killed behind its last state has not got to it
            drop_state(self.folder / STATE)
        return self.progress

    def _epoch(self, epoch: int) -> dict[str, Any]:
        """Every training sentence once, in groups of batches; each group is one step."""
        torch.manual_seed(seed_of(self.options.seed, epoch, self.accelerator.process_index))
        self.model.train()
        plan, lost = self.plans[epoch], [Tally() for _ in self.outputs]
        title = f"epoch {epoch + 1}/{self.options.epochs}"
        began, losses = time.perf_counter(), 0.0
        # a bar for the main process only: an endless patience for the others
        with Bar(
            None, title, total=len(plan), unit="batches", stream=sys.stderr if self.main else io.StringIO()
        ) as bar:
            for start in range(0, len(plan), self.group):
                losses += self._step(plan[start : start + self.group], epoch, lost)
                bar.what = f"{title}, loss {losses * self.group / (start + self.group):.3f}"
                bar.advance(self.group)
        seconds = time.perf_counter() - began
        shares = gather_object([(losses, [tally.counts for tally in lost])])
        host, *partners = (
            dict(sum(counts, Counter())) for counts in zip(*(counts for _, counts in shares), strict=True)
        )
        return {
            "epoch": epoch + 1,
            "step": self.progress.step,
            "loss": sum(loss for loss, _ in shares) * self.group / len(plan) / len(shares),
            "seconds": round(seconds, 2),
            "sentences_per_second": round(len(self.examples.sentences) / seconds, 1),
            "processes": len(shares),
            "lost": host,
            **self._of_partners([{"lost": each} for each in partners]),
        }

    def _of_partners(self, told: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What a record of the curve tells of further outputs, if there are any."""
        names = [output.name for output in self.outputs[1:]]
        return {"outputs": dict(zip(names, told, strict=True))} if names else {}

    def _step(self, batches: list[list[int]], epoch: int, lost: Sequence[Tally]) -> float:
        """One step on a group of batches; each process takes its own of them, one after the other."""
        frozen = self.progress.step < self.run.encoder.freeze * self.steps
        if frozen != self.bare.encoder.frozen:
            self.bare.encoder.freeze(frozen)
        set_rates(self.optimizer, self.progress.step, self.steps, self.options.warmup)
        for head in self.bare.heads:
            head.progress = self.progress.step / self.steps
        mine = batches[self.accelerator.process_index :: self.accelerator.num_processes]
        spent = 0.0
        for place, which in enumerate(mine):
            batch, targets = self.examples.batch(which, self.schemes, self.options.seed, epoch, lost)
            device = self.accelerator.device
            on_device = [{name: tensor.to(device) for name, tensor in each.items()} for each in targets]
            # gradients are exchanged with the last batch of a group only
            waiting = place + 1 < len(mine)
            with self.accelerator.no_sync(self.model) if waiting else nullcontext():
                parts = self.model(batch.to(device), on_device)
                loss = total_loss(parts) / len(mine)
                if not torch.isfinite(loss):
                    raise WorkFailed(not_finite(parts, self.progress.step, which))
                self.accelerator.backward(loss)
            spent += float(loss.detach())
        self.accelerator.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.progress.step += 1
        return spent

    def _close_epoch(self, record: dict[str, Any]) -> None:
        """Scores dev, keeps each model that is the best of its output so far, and leaves a state to resume from."""
        progress = self.progress
        recognisers, grids = [each.recogniser for each in self.outputs], [each.open for each in self.outputs]
        scored: list[tuple[Choice, Result | None]] = [({}, None)] * len(recognisers)
        if self.dev:
            scored = list(score_all(recognisers, grids, self.dev))
        better = []
        for output, best, (chosen, result) in zip(self.outputs, progress.bests, scored, strict=False):
            # of epochs in which nothing is found yet the last is kept
            if result is None or result.micro.f1 > best.best_f1 or result.micro.f1 == best.best_f1 == 0:
                better.append(output)
                best.best_f1, best.best_epoch = result.micro.f1 if result else -1.0, record["epoch"]
            told = record if output is self.outputs[0] else record["outputs"][output.name]
            told["dev"] = result.micro.as_dict() if result else None
            if chosen:
                told["chosen"] = chosen
        progress.curve.append(record)
        for output in better:
            save_model(output.model, self.tokenizer, output.folder)
        save_state(self.folder / STATE, self.bare, self.optimizer.optimizer, progress)
        self._write_curve()  # behind the state: a curve without a state means that a run is finished
        self._tell_epoch(record, scored, better)

    def _tell_epoch(
        self, record: dict[str, Any], scored: Sequence[tuple[Choice, Result | None]], better: Sequence[Output]
    ) -> None:
        """An epoch for people, on one line, and for trackers. Where there are two outputs, each has its name."""
        several = len(self.outputs) > 1
        figures, dev = {}, []
        for output, (chosen, result) in zip(self.outputs, scored, strict=True):
            if result is not None:
                micro, name = result.micro, output.name if several else ""
                figures[f"dev F1 {name}".rstrip()] = micro.f1
                told = f"dev P {micro.precision:.2f} R {micro.recall:.2f} F1 {micro.f1:.2f}"
                dev.append(f"{name} {told}".lstrip() + (f" ({spelt_out(chosen)})" if chosen else ""))
        self.accelerator.log({"loss": record["loss"], **figures}, self.progress.step)
        best = "  best so far" if dev and better else ""
        if best and several:
            best += f": {', '.join(output.name for output in better)}"
        say(
            f"epoch {record['epoch']}/{self.options.epochs}  loss {record['loss']:.4f}  {'  '.join(dev)}  "
            f"{record['sentences_per_second']:.0f} sentences/s{best}"
        )

    def _write_curve(self) -> None:
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in self.progress.curve)
        (self.folder / CURVE).write_text(lines, encoding="utf-8")
        for output in self.outputs:
            card = model_card(self.run, output.model, self.progress, output.name)
            (output.folder / "README.md").write_text(card, encoding="utf-8")

    def _is_stopping(self) -> bool:
        """Whether dev has not got better for `patience` epochs; all processes agree with the main one."""
        late = self.progress.epoch - max(best.best_epoch for best in self.progress.bests)
        stopping = bool(self.dev and self.options.patience and late >= self.options.patience)
        answer = torch.tensor([int(stopping and self.main)], device=self.accelerator.device)
        stopping = bool(self.accelerator.reduce(answer, reduction="sum").item())
        if stopping and self.main:
            say(f"no better dev F1 for {late} epochs: stopped")
        return stopping


def total_loss(parts: Loss) -> Tensor:
    """The sum over parts of weight * sum / count.

    A step takes the mean over its batches, which carry equal work, so that it is the same whether they
    are accumulated by one process or shared by several.
    """
    means = [part.weight * part.sum / part.count.detach().clamp(min=1) for part in parts.values()]
    return torch.stack(means).sum()


def not_finite(parts: Loss, step: int, which: Sequence[int]) -> str:
    said = ", ".join(f"{name} {part.sum.item():g}/{part.count.item():g}" for name, part in parts.items())
    where = f"at step {step}, training sentences {', '.join(map(str, which))}"
    return f"the loss is not finite ({said}) {where}; lower training.encoder_lr and training.head_lr"


def make_optimizer(model: Bundle, run: Run) -> torch.optim.Optimizer:
    """AdamW with two learning rates; biases and layer norms do not decay."""
    groups = []
    for named, rate in zip(model.parameter_groups(), (run.encoder_lr(), run.training.head_lr), strict=True):
        for decays in (True, False):
            parameters = [weight for _, weight in named if (weight.dim() > 1) == decays]
            decay = run.training.decay if decays else 0.0
            if parameters:
                groups.append({"params": parameters, "lr": rate, "peak": rate, "weight_decay": decay})
    return torch.optim.AdamW(groups, fused=True)


def set_rates(optimizer: torch.optim.Optimizer, step: int, steps: int, warmup: float) -> None:
    """Linear from 0 to the peak in the share `warmup` of the steps, then linear down to 0."""
    rising = warmup * steps
    factor = (step + 1) / (rising + 1) if step < rising else (steps - step) / max(1.0, steps - rising)
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def score(recogniser: Recogniser, sentences: Sequence[Sentence]) -> Result:
    """The scores of a model on sentences with gold mentions."""
    ((_, result),) = score_all([recogniser], [{}], sentences)
    return result


def tell_unreachable(training: Sequence[Sentence], scheme: Scheme, head: str) -> None:
    """Says how much of the gold a head can never learn, and why; more aloud where it is much."""
    lost = Tally()
    draw = torch.Generator().manual_seed(0)
    for sentence in training:
        if sentence.mentions:
            scheme.targets(sentence, draw, lost)
    gold = sum(len(sentence.mentions) for sentence in training)
    if lost.total():
        tell = warn if lost.total() > UNREACHABLE * gold else say
        tell(f"{lost.total() / gold:.1%} of the gold cannot be learned by {head}: {'; '.join(lost.lines())}")


def save_model(model: SpanloomModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Puts a model folder in place file by file, each whole."""
    beside = folder / "model.part"
    shutil.rmtree(beside, ignore_errors=True)
    with quiet():
        model.save_pretrained(beside)
        tokenizer.save_pretrained(beside)
    for file in beside.iterdir():
        file.replace(folder / file.name)
    beside.rmdir()
