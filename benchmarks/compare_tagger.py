"""The tagger, by softmax and by CRF, beside the usual fine-tuning of a token classifier (`peer.py`).

    python benchmarks/compare_tagger.py --data DATA --results compare.jsonl [--keep FOLDER]

The first 2,000 training sentences of each corpus, 3 epochs, three seeds. The learning rates of the peer and of the
softmax are chosen on dev with the first seed, from the same small grid: the tagger's is its encoder's (its head learns
at 1e-3, as always), the peer has one for all. The CRF takes the softmax's. Every run is a line of the results, its test
predictions a file beside it; runs that are there are not done again, so that a stopped comparison goes on. At the end,
or at any time with --table, one Markdown table: mean and standard deviation over the seeds, and a paired bootstrap
against the peer, over the test sentences, each with its counts of all seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spanloom import align
from spanloom.corpus import find_corpus
from spanloom.document import Mention, Sentence
from spanloom.errors import Tally
from spanloom.evaluation.metric import Counts, Scorer
from spanloom.evaluation.significance import paired_bootstrap
from spanloom.segment import Segmenter

SYSTEMS = ("peer", "softmax", "crf")
RATE_OF = {"crf": "softmax"}
"""Whose learning rate a system takes that has no grid of its own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is compared."""

    data: Path
    results: Path
    corpora: tuple[str, ...]
    systems: tuple[str, ...]
    encoder: str
    limit: int
    epochs: int
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    precision: str
    sets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One training."""

    corpus: str
    system: str
    lr: float
    seed: int


def read(plan: Plan, corpus: str, split: str) -> list[Sentence]:
    """The sentences of a split that have words."""
    documents = find_corpus(str(plan.data / corpus)).documents(split, Tally())
    found = (sentence for document in documents for sentence in align.sentences(document, Tally(), Segmenter()))
    return [sentence for sentence in found if sentence.words]


def done(plan: Plan) -> dict[Job, dict[str, Any]]:
    """The runs that are in the results."""
    found = {}
    if plan.results.exists():
        for line in plan.results.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            asked = (plan.encoder, plan.limit, plan.epochs, plan.precision, list(plan.sets))
            if tuple(record[name] for name in ("encoder", "limit", "epochs", "precision", "sets")) == asked:
                found[Job(record["corpus"], record["system"], record["lr"], record["seed"])] = record
    return found


def best_rate(plan: Plan, corpus: str, system: str, runs: dict[Job, dict[str, Any]]) -> float | None:
    """The learning rate with the highest dev F1 of the first seed; None before all are known."""
    tried = {lr: runs.get(Job(corpus, RATE_OF.get(system, system), lr, plan.seeds[0])) for lr in plan.rates}
    known = {lr: record["dev_f1"] for lr, record in tried.items() if record}
    return max(known, key=lambda lr: known[lr]) if len(known) == len(plan.rates) else None


def jobs(plan: Plan) -> Iterator[Job]:
    """What is to be done, in order: the grid on every corpus, then the other seeds at the chosen rates."""
    for corpus in plan.corpora:
        for system in plan.systems:
            for lr in plan.rates if system not in RATE_OF else ():
                yield Job(corpus, system, lr, plan.seeds[0])
    for seed in plan.seeds:
        for corpus in plan.corpora:
            for system in plan.systems:
                lr = best_rate(plan, corpus, system, done(plan))
                assert lr is not None
                yield Job(corpus, system, lr, seed)


def run(plan: Plan, job: Job) -> tuple[float, list[Sentence], list[list[Mention]]]:
    """Trains one system: its dev F1, the test sentences and what it finds in them."""
    training, dev, test = (read(plan, job.corpus, split) for split in ("train", "dev", "test"))
    if job.system == "peer":
        import peer

        recipe = peer.Recipe(plan.encoder, job.lr, plan.epochs, seed=job.seed, precision=plan.precision)
        model, dev_f1 = peer.fine_tune(training[: plan.limit or None], dev, recipe)
        return dev_f1, test, list(model.predict(test))

    import spanloom
    from spanloom.options import parse_sets
    from spanloom.runs import SECTIONS, resolve
    from spanloom.training import train

    given = {
        "encoder": {"name": plan.encoder},
        "head": {"crf": job.system == "crf"},
        "training": {
            "epochs": plan.epochs,
            "limit": plan.limit,
            "seed": job.seed,
            "encoder_lr": job.lr,
            "precision": plan.precision,
        },
    }
    sets = parse_sets(plan.sets, SECTIONS)
    folder = Path(tempfile.mkdtemp(prefix="compare-"))
    try:
        asked = resolve(str(plan.data / job.corpus), "tagger", None, [given, sets])
        dev_f1 = train(asked, folder / "run").best_f1
        ner = spanloom.load(folder / "run", precision=plan.precision)
        return dev_f1, test, list(ner.sentences(test))
    finally:
        shutil.rmtree(folder)


def file_of(plan: Plan, record: dict[str, Any]) -> Path:
    """The test predictions of a run: a list of [type, words] a sentence, a line a sentence."""
    return plan.results.with_suffix("") / str(record["predictions"])


def do(plan: Plan, job: Job) -> None:
    """One run, to its line in the results."""
    began = time.perf_counter()
    dev_f1, test, predicted = run(plan, job)
    scorer = Scorer()
    for sentence, mentions in zip(test, predicted, strict=True):
        scorer.add(sentence.mentions, mentions)
    asked = {name: getattr(plan, name) for name in ("encoder", "limit", "epochs", "precision", "sets")}
    record: dict[str, Any] = {name: getattr(job, name) for name in Job.__slots__} | asked
    changed = "".join(f"-{change.replace('/', '_')}" for change in plan.sets)
    encoder = plan.encoder.replace("/", "_")
    name = f"{job.corpus}-{job.system}-{encoder}-{plan.limit}x{plan.epochs}-{job.lr:g}-{job.seed}{changed}.jsonl"
    record |= {"dev_f1": dev_f1, "test": scorer.result().micro.as_dict(), "predictions": name}
    record["seconds"] = round(time.perf_counter() - began, 1)
    file = file_of(plan, record)
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps([[mention.type, mention.words] for mention in mentions]) for mentions in predicted]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with plan.results.open("a", encoding="utf-8") as results:
        results.write(json.dumps(record) + "\n")
        results.flush()
        os.fsync(results.fileno())
    print(json.dumps(record), flush=True)


def counts(plan: Plan, test: Sequence[Sentence], records: Sequence[dict[str, Any]]) -> list[Counts]:
    """The counts of each test sentence, summed over runs with different seeds.

    Sentences are what is drawn in the bootstrap: a sentence that three seeds have read is still one sentence.
    """
    rows = [Counts(0, 0, 0)] * len(test)
    for record in records:
        scorer = Scorer(keep_sentences=True)
        for sentence, line in zip(test, file_of(plan, record).read_text(encoding="utf-8").splitlines(), strict=True):
            scorer.add(sentence.mentions, [Mention(type, tuple(words)) for type, words in json.loads(line)])
        rows = [
            Counts(*(one + other for one, other in zip(*pair, strict=True)))
            for pair in zip(rows, scorer.rows, strict=True)
        ]
    return rows


def table(plan: Plan) -> str:
    """What is known so far, in Markdown."""
    runs = done(plan)
    lines = [
        "| corpus | system | lr | seeds | dev F1 | P | R | F1 | to peer | 95 % | p |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for corpus in plan.corpora:
        test = read(plan, corpus, "test")
        chosen: dict[str, dict[int, dict[str, Any]]] = {}
        for system in plan.systems:
            lr = best_rate(plan, corpus, system, runs)
            if lr is not None:
                found = {seed: runs.get(Job(corpus, system, lr, seed)) for seed in plan.seeds}
                chosen[system] = {seed: record for seed, record in found.items() if record}
        for system, by_seed in chosen.items():
            records = list(by_seed.values())
            cells = [spread([record["dev_f1"] for record in records])]
            cells += [spread([record["test"][name] for record in records]) for name in ("precision", "recall", "f1")]
            shared = sorted(by_seed.keys() & chosen.get("peer", {}).keys())
            if system == "peer" or not shared:
                cells += ["", "", ""]
            else:
                ours, theirs = (
                    counts(plan, test, [chosen[name][seed] for seed in shared]) for name in (system, "peer")
                )
                found = paired_bootstrap(ours, theirs)
                mean = statistics.mean(by_seed[s]["test"]["f1"] - chosen["peer"][s]["test"]["f1"] for s in shared)
                cells += [f"{mean:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}", f"{found.p_value:.3f}"]
            seeds = " ".join(map(str, by_seed))
            lines.append(f"| {corpus} | {system} | {records[0]['lr']:g} | {seeds} | {' | '.join(cells)} |")
    lines += ["", "| grid, first seed | " + " | ".join(f"{lr:g}" for lr in plan.rates) + " |"]
    lines.append("|---|" + "---|" * len(plan.rates))
    for corpus in plan.corpora:
        for system in (each for each in plan.systems if each not in RATE_OF):
            tried = [runs.get(Job(corpus, system, lr, plan.seeds[0])) for lr in plan.rates]
            shown = [f"dev {one['dev_f1']:.2f}, test {one['test']['f1']:.2f}" if one else "" for one in tried]
            lines.append(f"| {corpus} {system} | {' | '.join(shown)} |")
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="a folder of corpora")
    parser.add_argument(
        "--results", type=Path, default=Path("compare.jsonl"), help="a line a run; predictions beside it"
    )
    parser.add_argument("--corpora", nargs="+", default=["wnut17", "ncbi_disease"])
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--set", metavar="S.O=V", action="append", default=[], help="an option of the tagger's runs")
    parser.add_argument("--table", action="store_true", help="no runs, only the table of what is there")
    options = parser.parse_args()
    plan = Plan(
        options.data,
        options.results,
        tuple(options.corpora),
        tuple(options.systems),
        options.encoder,
        options.limit,
        options.epochs,
        tuple(options.rates),
        tuple(options.seeds),
        options.precision,
        tuple(options.set),
    )
    if not options.table:
        for job in jobs(plan):
            if job not in done(plan):
                do(plan, job)
    print(table(plan))


if __name__ == "__main__":
    main()
