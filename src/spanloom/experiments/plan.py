"""The plan of an experiment: which systems are trained on which corpora with which seeds.

A plan is a TOML file; paths in it start from its own folder:

    corpora = ["data/wnut17", "sample:flat"]
    seeds = [1, 2, 3]
    score = "test"                    # the split that is scored (the default)
    baseline = "tagger"               # what the other systems are compared with, if anything
    lengths = [1, 5, 10]              # F1 also of entities of 1 to 4, 5 to 9, and from 10 words on

    [options]                         # of every run
    training = { epochs = 3, limit = 2000 }

    [systems.tagger]
    head = "tagger"

    [systems.span]
    head = "span"
    preset = "wnut17"
    options = { training = { head_lr = 5e-4 } }
    grid = { head = { representation = ["boundary", "pooling", "hybrid"] } }

A grid makes a system of each of its points.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

from spanloom.corpus import SAMPLE, SPLITS, find_corpus
from spanloom.encoder.language_models import locate
from spanloom.errors import InputError
from spanloom.options import nearest, read_tables, spelt
from spanloom.runs import SECTIONS, Run, resolve

KINDS: dict[type, str] = {list: "a list", str: "a text", dict: "a table"}
PLAN_KEYS: dict[str, type] = {
    "corpora": list,
    "seeds": list,
    "score": str,
    "baseline": str,
    "lengths": list,
    "options": dict,
    "systems": dict,
}
SYSTEM_KEYS: dict[str, type] = {"head": str, "preset": str, "options": dict, "grid": dict}

Values = dict[str, dict[str, Any]]
"""Options by section."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One training of the plan."""

    system: str
    corpus: str
    seed: int
    run: Run
    split: str
    data: str
    """A digest of what its corpus holds: another corpus may have the same name."""

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two trainings the same, wherever the corpus lies; names of systems do not count."""
        options: dict[str, Any] = self.run.as_dict()["options"]
        found: dict[str, Any] = json.loads(json.dumps(options))
        return {"corpus": self.corpus, "head": self.run.head, "score": self.split, "options": found}

    @property
    def name(self) -> str:
        """A file's name that no other training has."""
        digest = blake2b(json.dumps([self.identity, self.data], sort_keys=True).encode(), digest_size=4).hexdigest()
        readable = "".join(c if c.isalnum() else "-" for c in f"{self.corpus} {self.system} {self.seed}")
        return f"{readable[:80]}-{digest}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All trainings of an experiment, resolved, in the order in which they are done."""

    file: Path
    baseline: str | None
    trials: tuple[Trial, ...]
    lengths: tuple[int, ...] = ()
    """Where groups of entities by length begin, in words."""


def read_plan(file: Path) -> Plan:
    """A plan, checked to the last option before anything is trained."""
    found = read_tables(file)
    _check(found, PLAN_KEYS, file, "")
    corpora, seeds = found.get("corpora", []), found.get("seeds", [1])
    if not corpora or not all(isinstance(corpus, str) for corpus in corpora):
        raise InputError('names no corpora: corpora = ["FOLDER", ...] is expected', file)
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise InputError("seeds are whole numbers: seeds = [1, 2, 3]", file)
    split = found.get("score", "test")
    if split not in SPLITS:
        raise InputError(f"score = {split!r}: it is one of {', '.join(SPLITS)}", file)
    systems = dict(_systems(found.get("systems", {}), file))
    if not systems:
        raise InputError("names no systems: a table [systems.NAME] with its head is expected", file)
    baseline = found.get("baseline")
    if baseline is not None and baseline not in systems:
        raise InputError(f"baseline {baseline!r} is no system{nearest(baseline, systems, '')}", file)
    lengths = found.get("lengths", [])
    whole = all(isinstance(length, int) and not isinstance(length, bool) and length >= 1 for length in lengths)
    if not whole or sorted(set(lengths)) != lengths:
        raise InputError("lengths are ascending whole numbers from 1 on: lengths = [1, 5, 10]", file)
    general = _sections(found.get("options", {}), file, "options")
    places = {_label(corpus): _place(corpus, split, file) for corpus in corpora}
    if len(places) < len(corpora):
        raise InputError("two corpora have the same name; the table could not tell them apart", file)
    data = {label: find_corpus(place).digest({"train", "dev", split}) for label, place in places.items()}
    trials = []
    # seed by seed, so that a table of all systems is there as early as can be
    for seed, (label, place), (name, system) in product(seeds, places.items(), systems.items()):
        try:
            layers = [general, system["options"], {"training": {"seed": seed}}]
            run = resolve(place, system["head"], system["preset"], [_placed(layer, file) for layer in layers])
        except InputError as error:
            raise InputError(f"system {name}: {error}", file) from None
        trials.append(Trial(name, label, seed, run, split, data[label]))
    for encoder in {trial.run.encoder.name for trial in trials}:
        locate(encoder)
    for vectors in {trial.run.encoder.vectors_file for trial in trials} - {""}:
        from spanloom.encoder.word_vectors import check_file  # numpy comes along, for the few plans that need it

        check_file(vectors)
    return Plan(file, baseline, tuple(trials), tuple(lengths))


def _check(table: Mapping[str, Any], keys: Mapping[str, type], file: Path, where: str) -> None:
    for name, value in table.items():
        if name not in keys:
            raise InputError(f"{where}{name} is nothing that a plan has{nearest(name, keys, '')}", file)
        if not isinstance(value, keys[name]):
            raise InputError(f"{where}{name} must be {KINDS[keys[name]]}", file)


def _systems(tables: Mapping[str, Any], file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each system by name; one with a grid is as many as the grid has points."""
    for name, found in tables.items():
        where = f"systems.{name}."
        if not isinstance(found, dict):
            raise InputError(f"systems.{name} must be a table", file)
        _check(found, SYSTEM_KEYS, file, where)
        if "head" not in found:
            raise InputError(f"systems.{name} has no head", file)
        options, grid = (_sections(found.get(key, {}), file, where + key) for key in ("options", "grid"))
        axes = [(section, option, values) for section, each in grid.items() for option, values in each.items()]
        for section, option, values in axes:
            if not isinstance(values, list) or not values:
                raise InputError(f"{where}grid.{section}.{option} must be a list of values", file)
        for point in product(*(values for *_, values in axes)):
            own: Values = {section: dict(each) for section, each in options.items()}
            told = []
            for (section, option, _), value in zip(axes, point, strict=True):
                own[section][option] = value
                told.append(f"{option}={spelt(value)}")
            system = {"head": found["head"], "preset": found.get("preset"), "options": own}
            yield " ".join([name, *told]), system


def _sections(found: Mapping[str, Any], file: Path, where: str) -> Values:
    """Options by section, every section there."""
    _check(found, dict.fromkeys(SECTIONS, dict), file, f"{where}.")
    if "seed" in found.get("training", {}):
        raise InputError(f"{where}.training.seed would have no effect; a plan's seeds are in seeds = [...]", file)
    return {section: dict(found.get(section, {})) for section in SECTIONS}


def _placed(values: Values, file: Path) -> Values:
    """Options in which an encoder's folder and a file of word vectors start from the plan's folder."""
    encoder = dict(values.get("encoder", {}))
    name, vectors = encoder.get("name"), encoder.get("word_vectors")
    if isinstance(name, str) and (file.parent / name).is_dir():
        encoder["name"] = str((file.parent / name).resolve())
    if isinstance(vectors, str) and (file.parent / vectors).is_file():
        encoder["word_vectors"] = str((file.parent / vectors).resolve())
    return {**values, "encoder": encoder}


def _label(corpus: str) -> str:
    return corpus if corpus.startswith(SAMPLE) else Path(corpus).name.split(".")[0]


def _place(corpus: str, split: str, file: Path) -> str:
    """Where a corpus lies that a plan names."""
    place = corpus if corpus.startswith(SAMPLE) else str(file.parent / corpus)
    there = find_corpus(place).splits
    for needed in ("train", split):
        if needed not in there:
            raise InputError(f"has no {needed} split", place)
    return place


def only(plan: Plan, systems: Sequence[str]) -> Plan:
    """The plan with some of its systems."""
    known = dict.fromkeys(trial.system for trial in plan.trials)
    for name in systems:
        if name not in known:
            raise InputError(f"--only {name}: the plan has no such system{nearest(name, known, '')}", plan.file)
    return replace(plan, trials=tuple(trial for trial in plan.trials if trial.system in systems))
