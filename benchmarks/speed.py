"""How much time and memory prediction and training take beside the language model alone, and beside transformers.

    python benchmarks/speed.py --data ../shared/data [--systems softmax span] [--parts inference] [--work FOLDER]

Sentences are the test split of genia (sample:nested where there is none). What is compared takes turns, and each ratio
is that of the best times of one run; the median over the turns of the ratio of neighbours stands beside it.

inference  words to mentions, all of it (pieces, batches, language model, head, decoding; nothing remembered from the
           turn before), over the language model alone on exactly the batches that were used, prepared beforehand
training   a step of the trainer (data, forward, loss, backward, clipping, AdamW) over the language model's own forward
           and backward on the same batches; beside it without the time inside AdamW
pipeline   text to entities, over transformers' pipeline("token-classification") on the model of `peer.py`, at its best
           batch size, both fed the same texts in random order. bf16 is autocast here and bf16 weights there
bundles    a step of two heads on one encoder, over the mean step of the two alone on the same batches; and words to
           mentions with each half of what such a run keeps, over the same head trained alone
memory     the largest resident set, each in a process of its own
products   the head over the bare matrix products of the shapes that it asks for, on the same batches
twin       a head over its plain twin of the tests, scores and training, on batches in random order
lengths    sentences a second and largest resident set, by the words of a sentence; each in a process of its own

Models are trained quickly into --work where they are not there already: decoding costs little where nothing is found,
and much where everything is, so an untrained head would tell nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import peer
import torch
from systems import BUNDLES, SYSTEMS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedModel, pipeline

import spanloom
from spanloom.document import Sentence
from spanloom.encoder.encoder import Encoder
from spanloom.encoder.language_models import quiet
from spanloom.encoder.pieces import PieceBatch
from spanloom.encoder.words import Words
from spanloom.errors import Tally
from spanloom.heads.base import Head, Targets
from spanloom.predictor import Recogniser, autocast
from spanloom.runs import output_folder
from spanloom.segment import Segmenter
from spanloom.training import Trainer, read_split, total_loss

TWIN_BATCH, TWIN_SENTENCES = 16, 128
PIPELINE_TARGET = ">= 1.50"
BATCH_SIZES = (1, 8, 32)
LENGTHS = (32, 64, 128, 256, 512)
WORDS_OF_A_LENGTH = 4096
BUNDLE_STEP = "<= 1.15"
PARTS = ("inference", "training", "bundles", "products", "twin", "pipeline", "memory", "lengths")


@dataclass(frozen=True, slots=True)
class Bench:
    """What is measured, and how often."""

    corpus: str
    work: Path
    sentences: list[Sentence]
    repeats: int
    train_limit: int
    systems: tuple[str, ...]

    def model(self, system: str) -> Path:
        return self.work / system

    def shuffled(self, count: int) -> list[str]:
        """Sentences as texts, in random order."""
        texts = [" ".join(sentence.words) for sentence in self.sentences]
        random.Random(1).shuffle(texts)
        return texts[:count]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    what: str
    precision: str
    ours: str
    theirs: str
    ratio: str
    median: str = ""
    target: str = ""

    def __str__(self) -> str:
        cells = self.what, self.precision, self.ours, self.theirs, self.ratio, self.median, self.target
        return f"| {' | '.join(cells)} |"


def prepare(bench: Bench) -> None:
    """The models of this benchmark."""
    bench.work.mkdir(parents=True, exist_ok=True)
    for name in bench.systems:
        if not (bench.model(name) / "config.json").exists():
            run = SYSTEMS[name].run(bench.corpus, epochs=2, limit=bench.train_limit, encoder_lr=2e-4)
            Trainer(run, bench.model(name), resume=False).train()
    if not (bench.model("peer") / "config.json").exists():
        training = read_split(bench.corpus, "train", Segmenter()) or []
        model, _ = peer.fine_tune(training[: bench.train_limit], None, peer.Recipe(lr=2e-4, epochs=2))
        with quiet():
            model.model.save_pretrained(bench.model("peer"))
            model.tokenizer.save_pretrained(bench.model("peer"))


def turns(repeats: int, *works: Callable[[], float | None]) -> list[list[float]]:
    """The seconds of each work in each turn, after one turn that does not count. A work may tell its own."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(repeats + 1):
        for place, work in enumerate(works):
            start = time.perf_counter()
            told = work()
            if turn:
                seconds[place].append(time.perf_counter() - start if told is None else told)
    return seconds


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> tuple[str, str]:
    """That of the best times, and the median of those turn by turn."""
    by_turn = [a / b for a, b in zip(ours, theirs, strict=True)]
    return f"{min(ours) / min(theirs):.3f}", f"{statistics.median(by_turn):.3f}"


def forget(ner: Recogniser) -> None:
    """As if it had seen no word yet."""
    ner.pieces._known.clear()


@contextmanager
def recorded(encoder: Encoder) -> Iterator[list[PieceBatch]]:
    """The batches that an encoder gets to read."""
    batches: list[PieceBatch] = []
    hook = encoder.register_forward_pre_hook(lambda _, arguments: batches.append(arguments[0]))
    try:
        yield batches
    finally:
        hook.remove()


def read_by(language_model: PreTrainedModel, batch: PieceBatch) -> torch.Tensor:
    """What the language model says of a batch, and nothing else."""
    said: torch.Tensor = language_model(input_ids=batch.ids, attention_mask=batch.attention).last_hidden_state
    return said


def inference(bench: Bench, precision: str) -> Iterator[Row]:
    """Words to mentions, over the language model alone."""
    gold = sum(len(sentence.mentions) for sentence in bench.sentences)
    rates, works = {}, []
    for name in bench.systems:
        ner = spanloom.load(bench.model(name), precision=precision)
        with recorded(ner.model.encoder) as batches:
            found = sum(map(len, ner.sentences(bench.sentences)))
        rates[name] = f"{found / len(bench.sentences):.1f} of {gold / len(bench.sentences):.1f} mentions a sentence"

        def whole(ner: Recogniser = ner) -> None:
            forget(ner)
            for _ in ner.sentences(bench.sentences):
                pass

        def alone(ner: Recogniser = ner, batches: Sequence[PieceBatch] = tuple(batches)) -> None:
            with torch.inference_mode():
                for batch in batches:
                    with autocast(ner.model.device, precision):
                        read_by(ner.model.encoder.language_model, batch)

        works += [whole, alone]
    seconds = turns(bench.repeats, *works)
    for place, system in enumerate(bench.systems):
        ours, theirs = seconds[2 * place], seconds[2 * place + 1]
        speed = f"{min(ours):.2f} s, {len(bench.sentences) / min(ours):.0f} sentences/s"
        name = f"words to mentions, {system} ({rates[system]}), over the language model"
        yield Row(name, precision, speed, f"{min(theirs):.2f} s", *ratios(ours, theirs), SYSTEMS[system].whole)


def training(bench: Bench, precision: str) -> Iterator[Row]:
    """A training step, over the language model's forward and backward."""
    for system in bench.systems:
        run = SYSTEMS[system].run(bench.corpus, epochs=1, limit=160, precision=precision)
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(run, Path(folder), resume=False)
        language_model = trainer.bare.encoder.language_model
        trainer.model.train()
        plan, inside = trainer.plans[0], [0.0]
        update = trainer.optimizer.step

        def timed(update: Callable[..., Any] = update, inside: list[float] = inside) -> None:
            start = time.perf_counter()
            update()
            inside[0] += time.perf_counter() - start

        trainer.optimizer.step = timed
        with recorded(trainer.bare.encoder) as batches:
            epoch(trainer, plan)
        kept, without = tuple(batches), []

        def steps(
            trainer: Trainer = trainer, plan: list[list[int]] = plan, inside: list[float] = inside, out: Any = without
        ) -> None:
            inside[0] = 0.0
            start = time.perf_counter()
            epoch(trainer, plan)
            out.append(time.perf_counter() - start - inside[0])

        def alone(language_model: PreTrainedModel = language_model, batches: Sequence[PieceBatch] = kept) -> None:
            for batch in batches:
                with autocast(torch.device("cpu"), precision):
                    said = read_by(language_model, batch)
                said.backward(torch.ones_like(said))
                language_model.zero_grad()

        ours, theirs = turns(bench.repeats, steps, alone)
        per, name = 1000 / len(plan), f"training step, {system}, over the language model's forward and backward"
        for what, own in ((name, ours), (f"{name}, without the time in AdamW", without[1:])):
            told = f"{min(own) * per:.0f} ms a step", f"{min(theirs) * per:.0f} ms"
            yield Row(what, precision, *told, *ratios(own, theirs), SYSTEMS[system].step)


def epoch(trainer: Trainer, plan: list[list[int]]) -> None:
    """The steps of an epoch, at the first one's learning rate."""
    for batch in plan:
        trainer.progress.step = 0
        trainer._step([batch], 0, [Tally() for _ in trainer.outputs])


def bundles(bench: Bench, precision: str) -> Iterator[Row]:
    """Two heads on one encoder: their training beside that of each alone, and prediction with what is kept."""
    for host, partner in BUNDLES:
        if not {host, partner} <= set(bench.systems):
            continue
        yield bundled_step(bench, precision, host, partner)
        kept = bench.model(f"{host}-with-{partner}")
        if not (kept / "config.json").exists():
            trained = {"epochs": 2, "limit": bench.train_limit, "encoder_lr": 2e-4}
            run = SYSTEMS[host].run(bench.corpus, SYSTEMS[partner], **trained)
            Trainer(run, kept, resume=False).train()
        for system in (host, partner):
            folders = {"bundled": output_folder(kept, SYSTEMS[system].head), "plain": bench.model(system)}
            ners = [spanloom.load(folder, precision=precision) for folder in folders.values()]

            def whole(ner: Recogniser) -> None:
                forget(ner)
                for _ in ner.sentences(bench.sentences):
                    pass

            ours, theirs = turns(bench.repeats, *(lambda ner=ner: whole(ner) for ner in ners))
            name = f"words to mentions, {system} of a run with {host} and {partner}, over {system} alone"
            yield Row(name, precision, f"{min(ours):.2f} s", f"{min(theirs):.2f} s", *ratios(ours, theirs))


def bundled_step(bench: Bench, precision: str, host: str, partner: str) -> Row:
    """A step of both over the mean of their steps alone, all on the batches of both."""
    one, other = SYSTEMS[host], SYSTEMS[partner]
    options = {"epochs": 1, "limit": 160, "precision": precision}
    runs = (
        one.run(bench.corpus, other, **options),
        one.run(bench.corpus, **options),
        other.run(bench.corpus, **options),
    )
    trainers = []
    for run in runs:
        with tempfile.TemporaryDirectory() as folder:
            trainers.append(Trainer(run, Path(folder), resume=False))
        trainers[-1].model.train()
    plan = trainers[0].plans[0]
    both, *alone = turns(bench.repeats, *(lambda trainer=trainer: epoch(trainer, plan) for trainer in trainers))
    mean = [sum(each) / 2 for each in zip(*alone, strict=True)]
    per = 1000 / len(plan)
    told = f"{min(both) * per:.0f} ms a step", f"{' and '.join(f'{min(each) * per:.0f}' for each in alone)} ms"
    ratio, median = min(both) / (sum(map(min, alone)) / 2), ratios(both, mean)[1]
    name = f"training step, {host} with {partner}, over the mean of each alone"
    return Row(name, precision, *told, f"{ratio:.3f}", median, BUNDLE_STEP)


def piped(folder: Path, precision: str) -> Any:
    """The peer's model as a pipeline."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    with quiet():
        return pipeline(
            "token-classification", model=str(folder), dtype=dtype, aggregation_strategy="simple", device="cpu"
        )


class Products(TorchDispatchMode):
    """Notes the matrix products that are asked for, by their shapes: (matrices, rows, inner, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, int, int, int]] = []

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        if "scaled_dot_product" in function._schema.name:
            queries, keys = arguments[:2]  # [B, heads, L, d]
            many, (rows, inner), columns = queries.shape[:2].numel(), queries.shape[2:], keys.shape[2]
            self.shapes += [(many, rows, inner, columns), (many, rows, columns, inner)]
        if function._schema.name == "aten::mv":
            self.shapes.append((1, *arguments[0].shape, 1))
        if function._schema.name in ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm"):
            one, other = [each for each in arguments if isinstance(each, Tensor) and each.dim() > 1][-2:]
            self.shapes.append((*((1,) if one.dim() == 2 else one.shape[:1]), *one.shape[-2:], other.shape[-1]))
        return function(*arguments, **(named or {}))


def products(bench: Bench, precision: str) -> Iterator[Row]:
    """A head's scores, over nothing but the matrix products that they take."""
    for system in bench.systems:
        ner = spanloom.load(bench.model(system), precision=precision)
        # in inference mode the products would not be seen, but the layers that ask for them
        with torch.no_grad(), autocast(ner.model.device, precision):
            batches = [ner.model.encoder(rows) for _, rows in ner.batches(bench.sentences)]
            with Products() as noted:
                for words in batches:
                    ner.model.head.scores(words)
        with torch.inference_mode():
            dtype = torch.bfloat16 if precision == "bf16" else torch.float32
            made = {shape: (torch.randn(*shape[:3]), torch.randn(shape[0], *shape[2:])) for shape in set(noted.shapes)}
            operands = [[each.to(dtype) for each in made[shape]] for shape in noted.shapes]

            def head(ner: Recogniser = ner, batches: Sequence[Words] = batches) -> None:
                with autocast(ner.model.device, precision):
                    for words in batches:
                        ner.model.head.scores(words)

            def bare(operands: Sequence[Sequence[Tensor]] = operands) -> None:
                for one, other in operands:
                    torch.bmm(one, other)

            ours, theirs = turns(bench.repeats, head, bare)
        told = f"{min(ours):.2f} s", f"{min(theirs):.2f} s"
        yield Row(f"scores of {system}, over its bare matrix products", precision, *told, *ratios(ours, theirs))


def twin(bench: Bench, precision: str) -> Iterator[Row]:
    """The plain twin over the head, on the same words: batches of so many sentences in random order."""
    sentences = list(bench.sentences)
    random.Random(1).shuffle(sentences)
    sentences = sentences[:TWIN_SENTENCES]
    for system in bench.systems:
        make = SYSTEMS[system].twin
        if make is None:
            continue
        ner = spanloom.load(bench.model(system), precision=precision)
        scheme, heads, batches = ner.model.scheme, (ner.model.head, make(ner.model.head)), []
        for at in range(0, len(sentences), TWIN_BATCH):
            some = sentences[at : at + TWIN_BATCH]
            rows = ner.pieces.batch(ner.pieces.pieces([sentence.words for sentence in some]))
            with torch.no_grad(), autocast(ner.model.device, precision):
                words = ner.model.encoder(rows)
            each = [scheme.targets(sentence, torch.Generator(), Tally()) for sentence in some]
            batches.append((words, scheme.collate(each, words.mask.shape[1])))

        def scores(head: Head, batches: Sequence[tuple[Words, Targets]] = batches) -> None:
            with torch.inference_mode(), autocast(torch.device("cpu"), precision):
                for words, _ in batches:
                    head.scores(words)

        def learn(head: Head, batches: Sequence[tuple[Words, Targets]] = batches) -> None:
            head.train()
            for words, targets in batches:
                with autocast(torch.device("cpu"), precision):
                    parts = head.loss(replace(words, vectors=words.vectors.detach().requires_grad_()), targets)
                total_loss(parts).backward()
                head.zero_grad()
            head.train(False)

        works = ("scores", scores), ("loss and gradients", learn)
        for (name, work), target in zip(works, SYSTEMS[system].twin_targets, strict=False):
            ours, theirs = turns(
                max(1, bench.repeats // 2), *(lambda head=head, work=work: work(head) for head in heads)
            )
            what = f"{name} of the plain twin, over {system}, {TWIN_BATCH} sentences a batch in random order"
            told = f"{min(ours):.2f} s", f"{min(theirs):.2f} s"
            yield Row(what, precision, *told, *ratios(theirs, ours), target)


def against_pipeline(bench: Bench, precision: str) -> Iterator[Row]:
    """Texts to entities, over transformers' pipeline."""
    texts = bench.shuffled(1000)
    ner = spanloom.load(bench.model("softmax"), precision=precision)
    pipe = piped(bench.model("peer"), precision)

    def ours() -> None:
        forget(ner)
        for _ in ner.pipe(texts):
            pass

    works = [lambda size=size: drain(pipe(texts, batch_size=size)) for size in BATCH_SIZES]
    own, *theirs = turns(max(1, bench.repeats // 2), ours, *works)
    for size, seconds in zip(BATCH_SIZES, theirs, strict=True):
        best = min(seconds) == min(map(min, theirs))
        name = f"text to entities, over pipeline, batch {size}{' (its best)' if best else ''}"
        speeds = [f"{len(texts) / min(each):.0f} sentences/s" for each in (own, seconds)]
        yield Row(name, precision, *speeds, *ratios(seconds, own), PIPELINE_TARGET if best else "")


def drain(results: Sequence[object]) -> None:
    for _ in results:
        pass


def memory(bench: Bench, precision: str) -> Iterator[Row]:
    """The largest resident set of a process that predicts, beside one that only runs the peer's pipeline."""
    peaks = {what: alone(bench, what, precision)[1] for what in (*bench.systems, "pipeline", "nothing")}
    for system in bench.systems:
        told = f"{peaks[system]:.0f} MB", f"{peaks['pipeline']:.0f} MB"
        ratio = f"{peaks[system] / peaks['pipeline']:.2f}"
        name = f"peak memory, {system}, over pipeline, batch 8 (libraries alone {peaks['nothing']:.0f} MB)"
        yield Row(name, precision, *told, ratio)


def lengths(bench: Bench, precision: str) -> Iterator[Row]:
    """The same words in shorter and in longer sentences."""
    for system in bench.systems:
        shortest = 0.0
        for length in LENGTHS:
            seconds, peak = alone(bench, system, precision, length)
            shortest = shortest or seconds
            name = f"{WORDS_OF_A_LENGTH:,} words in sentences of {length}, {system}, over those of {LENGTHS[0]}"
            yield Row(
                name, precision, f"{seconds:.2f} s, {peak:.0f} MB", f"{shortest:.2f} s", f"{seconds / shortest:.2f}"
            )


def alone(bench: Bench, what: str, precision: str, length: int = 0) -> tuple[float, float]:
    """Seconds and megabytes at most of a prediction in a process of its own."""
    arguments = [sys.executable, __file__, "--peak", what, "--precision", precision, "--work", str(bench.work)]
    arguments += ["--corpus", bench.corpus, "--sentences", str(len(bench.sentences)), "--length", str(length)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, done.stdout.split()[-2:])
    return seconds, megabytes


def of_length(sentences: Sequence[Sentence], length: int) -> list[Sentence]:
    """Sentences of so many words each, one after the other cut from what they say."""
    words = [word for sentence in sentences for word in sentence.words][:WORDS_OF_A_LENGTH]
    spans = tuple((i, i + 1) for i in range(length))
    return [Sentence(tuple(words[at : at + length]), spans) for at in range(0, len(words) - length + 1, length)]


def peak(bench: Bench, what: str, precision: str, length: int) -> tuple[float, float]:
    """Seconds, and megabytes at most, of predicting everything in this process."""
    sentences = of_length(bench.sentences, length) if length else bench.sentences
    seconds = 0.0
    if what == "pipeline":
        drain(piped(bench.model("peer"), precision)(bench.shuffled(len(bench.sentences)), batch_size=8))
    elif what in SYSTEMS:
        ner = spanloom.load(bench.model(what), precision=precision)
        start = time.perf_counter()
        for _ in ner.sentences(sentences):
            pass
        seconds = time.perf_counter() - start
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child begins with what its parent had
        lines = status.read_text().splitlines()
        return seconds, next(int(line.split()[1]) for line in lines if line[:6] == "VmHWM:") / 1024
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="a folder of corpora")
    parser.add_argument("--corpus", help="instead of genia, or sample:nested where there is no genia")
    parser.add_argument("--work", type=Path, default=Path("/tmp/spanloom-speed"), help="where the models lie")
    parser.add_argument("--sentences", type=int, default=0, help="the first N test sentences; 0: all")
    parser.add_argument("--repeats", type=int, default=5, help="turns that count")
    parser.add_argument("--train-limit", type=int, default=300, help="sentences that the models are trained on")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--json", type=Path, help="the rows as JSON lines too")
    parser.add_argument("--peak", help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    genia = options.data / "genia"
    corpus = options.corpus or (str(genia) if genia.is_dir() else "sample:nested")
    test = (read_split(corpus, "test", Segmenter()) or [])[: options.sentences or None]
    bench = Bench(corpus, options.work, test, options.repeats, options.train_limit, tuple(options.systems))
    if options.peak:
        print(*peak(bench, options.peak, options.precision, options.length))
        return
    prepare(bench)
    print(f"{corpus}: {len(test):,} sentences, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| what | precision | ours | theirs | ratio | median of turns | target |\n|---|---|---|---|---|---|---|")
    measures = {
        "inference": inference,
        "training": training,
        "bundles": bundles,
        "products": products,
        "twin": twin,
        "pipeline": against_pipeline,
        "memory": memory,
        "lengths": lengths,
    }
    for part in options.parts:
        for precision in options.precisions:
            for row in measures[part](bench, precision):
                print(row, flush=True)
                if options.json:
                    with options.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({name: getattr(row, name) for name in Row.__slots__}) + "\n")


if __name__ == "__main__":
    main()
