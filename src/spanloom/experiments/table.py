"""The table of an experiment: means over seeds, and whether a difference is more than luck."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spanloom.document import Document
from spanloom.evaluation.compare import compare
from spanloom.evaluation.lengths import by_length, grouped
from spanloom.evaluation.metric import Counts, Scorer
from spanloom.evaluation.shapes import SHAPES
from spanloom.evaluation.significance import paired_bootstrap, pooled

Record = dict[str, Any]
"""A run: a line of an experiment's runs.jsonl."""

MEANING = (
    "Strict micro scores in percent, mean ± standard deviation over the seeds; of each shape recall / F1. "
    "Sentences a second are those of training."
)
GROUPED = "Columns of lengths: recall / F1 of entities of so many words, predictions by their own length."
ON_DEV = "Scored on dev, which also chose each run's epoch, and its threshold where it had one to choose."
COMPARED = (
    "Against {baseline}: the mean difference in F1 over the seeds that both have, its 95 % interval, and p, by a "
    "paired bootstrap over what is scored, each sentence with its counts of all these seeds."
)


def table(
    records: Sequence[Record],
    baseline: str | Mapping[str, str] | None,
    gold: Callable[[str], Iterable[Document]],
    found: Callable[[Record], Iterable[Document]],
    lengths: Sequence[int] = (),
) -> str:
    """A Markdown table, a row for each corpus and system.

    `baseline` is what all other systems are compared with, or what each is. `gold` reads a corpus's gold again, `found`
    what a run has predicted; `lengths` are where groups of entities begin.
    """
    told = baseline if isinstance(baseline, str) else "its baseline"
    shapes = [shape for shape in SHAPES if any(record["scores"]["shapes"][shape]["gold"] for record in records)]
    shown = shapes if len(shapes) > 1 else []
    groups = list(grouped({}, lengths))
    heading = ["corpus", "system", "seeds", "dev F1", "P", "R", "F1", *shown, *groups, "sentences/s"]
    if baseline is not None:
        heading += [f"to {told}", "95 %", "p"]
    rows = [heading, ["---"] * len(heading)]
    for corpus, systems in _grouped(records).items():
        for name, runs in systems.items():
            row = [corpus, name, " ".join(map(str, runs)), _of(runs, "dev_f1")]
            row += [_of(runs, "scores", "micro", figure) for figure in ("precision", "recall", "f1")]
            for shape in shown:
                recall, f1 = (_of(runs, "scores", "shapes", shape, figure) for figure in ("recall", "f1"))
                row.append(f"{recall} / {f1}")
            by_group = [grouped(by_length(gold(corpus), found(record)), lengths) for record in runs.values() if lengths]
            for group in groups:
                recall, f1 = (
                    spread([getattr(scores[group], name) for scores in by_group]) for name in ("recall", "f1")
                )
                row.append(f"{recall} / {f1}")
            row.append(f"{statistics.mean(map(_speed, runs.values())):.0f}")
            if baseline is not None:
                other = baseline if isinstance(baseline, str) else baseline.get(name, name)
                compared = _against(runs, systems.get(other, {}) if name != other else {}, corpus, gold, found)
                if compared[0] and not isinstance(baseline, str):
                    compared[0] += f" ({other})"
                row += compared
            rows.append(row)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    on_dev = [ON_DEV] if any(record.get("score") == "dev" for record in records) else []
    meaning = [
        MEANING,
        *on_dev,
        *([GROUPED] if groups else []),
        *([COMPARED.format(baseline=told)] if baseline else []),
    ]
    return "\n".join([*lines, "", " ".join(meaning), ""])


def _grouped(records: Sequence[Record]) -> dict[str, dict[str, dict[int, Record]]]:
    """Runs by corpus, system and seed, in the order of the plan."""
    groups: dict[str, dict[str, dict[int, Record]]] = {}
    for record in records:
        groups.setdefault(record["corpus"], {}).setdefault(record["system"], {})[record["seed"]] = record
    return groups


def _of(runs: Mapping[int, Record], *path: str) -> str:
    """Mean and standard deviation of a figure."""
    values = []
    for record in runs.values():
        value: Any = record
        for key in path:
            value = value[key]
        values.append(value)
    return "-" if None in values else spread(values)


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation, the latter where there is one."""
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def _speed(record: Record) -> float:
    """Training sentences a second, the mean over the epochs."""
    return float(statistics.mean(record["sentences_per_second"]))


def _against(
    ours: Mapping[int, Record],
    theirs: Mapping[int, Record],
    corpus: str,
    gold: Callable[[str], Iterable[Document]],
    found: Callable[[Record], Iterable[Document]],
) -> list[str]:
    """The difference to the baseline, its interval and p; blank where no seed is shared."""
    seeds = [seed for seed in ours if seed in theirs]
    if not seeds:
        return ["", "", ""]

    def counts(record: Record) -> list[Counts]:
        scorer = Scorer(keep_sentences=True)
        compare(gold(corpus), found(record), corpus, record["predictions"], scorer)
        return scorer.rows

    one, other = (pooled([counts(runs[seed]) for seed in seeds]) for runs in (ours, theirs))
    seen = paired_bootstrap(one, other)
    mean = statistics.mean(
        ours[seed]["scores"]["micro"]["f1"] - theirs[seed]["scores"]["micro"]["f1"] for seed in seeds
    )
    return [f"{mean:+.2f}", f"{seen.low:+.2f} to {seen.high:+.2f}", f"{seen.p_value:.3f}"]
