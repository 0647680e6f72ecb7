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

    [systems.BL-SpanNER]
    head = "span"
    bundle = "tagger"                 # a second head on the same encoder: one training, two systems
    partner_name = "BL-SeqNER"        # what the second is called (else "BL-SpanNER (tagger)")
    options = { partner = { crf = true } }
    grid = { alpha = [0.1, 0.5] }     # or alpha = 0.1

A grid makes a system of each of its points. Where systems have baselines of their own, a table names them:

    [baseline]
    BL-SpanNER = "SpanNER"
    BL-SeqNER = "SeqNER"
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
from spanloom.runs import SECTIONS, Run, Values, resolve

NUMBER, NAMES = (int, float), (str, dict)
KINDS: dict[Any, str] = {list: "a list", str: "a text", dict: "a table", NUMBER: "a number", NAMES: "a text or a table"}
PLAN_KEYS: dict[str, Any] = {
    "corpora": list,
    "seeds": list,
    "score": str,
    "baseline": NAMES,
    "lengths": list,
    "options": dict,
    "systems": dict,
}
SYSTEM_KEYS: dict[str, Any] = {
    "head": str,
    "preset": str,
    "bundle": str,
    "alpha": NUMBER,
    "partner_name": str,
    "options": dict,
    "grid": dict,
}


ALPHA_AXIS = ("", "alpha")
"""A grid's axis that is no option of a section."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One row's share of the plan: what a training gives, and of a bundle's, what one of its heads does."""

    system: str
    corpus: str
    seed: int
    run: Run
    split: str
    data: str
    """A digest of what its corpus holds: another corpus may have the same name."""
    partner_of: str | None = None
    """The system whose training's partner it is, if any."""

    @property
    def decode(self) -> str | None:
        """The head that it decodes with, where that is not the training's own."""
        return self.run.partner.head if self.partner_of is not None and self.run.partner is not None else None

    @property
    def identity(self) -> dict[str, Any]:
        """What makes two of them the same, wherever the corpus lies; names of systems do not count."""
        return {**self._training, **({"decode": self.decode} if self.decode else {})}

    @property
    def _training(self) -> dict[str, Any]:
        """What makes two trainings the same."""
        told: dict[str, Any] = json.loads(json.dumps(self.run.as_dict()))
        decided: dict[str, Any] = {name: told[name] for name in ("head", "bundle", "alpha", "options") if name in told}
        return {"corpus": self.corpus, "score": self.split, **decided}

    @property
    def name(self) -> str:
        """A file's name that no other of them has."""
        return self._named(self.system, self.identity)

    @property
    def training(self) -> str:
        """A folder's name that no other training has."""
        return self._named(self.partner_of or self.system, self._training)

    def _named(self, system: str, identity: dict[str, Any]) -> str:
        digest = blake2b(json.dumps([identity, self.data], sort_keys=True).encode(), digest_size=4).hexdigest()
        readable = "".join(c if c.isalnum() else "-" for c in f"{self.corpus} {system} {self.seed}")
        return f"{readable[:80]}-{digest}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that an experiment trains, resolved, in the order in which it is done."""

    file: Path
    baseline: str | dict[str, str] | None
    """The system that the others are compared with, or that of each that is compared."""
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
            layers = [general, system.options, {"training": {"seed": seed}}]
            given = [_placed(layer, file) for layer in layers]
            run = resolve(place, system.head, system.preset, given, system.bundle, system.alpha)
        except InputError as error:
            raise InputError(f"system {name}: {error}", file) from None
        trials.append(Trial(name, label, seed, run, split, data[label]))
        if len(run.weights) > 1:
            trials.append(replace(trials[-1], system=system.partner_name, partner_of=name))
    _check_names(trials, baseline, file)
    for encoder in {trial.run.encoder.name for trial in trials}:
        locate(encoder)
    for vectors in {trial.run.encoder.vectors_file for trial in trials} - {""}:
        from spanloom.encoder.word_vectors import check_file  # numpy comes along, for the few plans that need it

        check_file(vectors)
    return Plan(file, baseline, tuple(trials), tuple(lengths))


def _check_names(trials: Sequence[Trial], baseline: str | Mapping[str, str] | None, file: Path) -> None:
    """Each row has a name of its own, and baselines name some of them."""
    names = list(dict.fromkeys((trial.system, trial.partner_of) for trial in trials))
    known = [name for name, _ in names]
    for name in known:
        if known.count(name) > 1:
            raise InputError(f"two systems are called {name!r}; partner_name gives a partner another name", file)
    pairs = {} if baseline is None else {baseline: baseline} if isinstance(baseline, str) else baseline
    for name in (each for pair in pairs.items() for each in pair):
        if name not in known:
            raise InputError(f"baseline {name!r} is no system{nearest(str(name), known, '')}", file)


def _check(table: Mapping[str, Any], keys: Mapping[str, Any], file: Path, where: str) -> None:
    for name, value in table.items():
        if name not in keys:
            raise InputError(f"{where}{name} is nothing that a plan has{nearest(name, keys, '')}", file)
        if not isinstance(value, keys[name]):
            raise InputError(f"{where}{name} must be {KINDS[keys[name]]}", file)


@dataclass(frozen=True, slots=True)
class System:
    """What is trained under a name, wherever and with whatever seed."""

    head: str
    preset: str | None
    bundle: str | None
    alpha: float | None
    partner_name: str
    options: Values


def _systems(tables: Mapping[str, Any], file: Path) -> Iterator[tuple[str, System]]:
    """Each system by name; one with a grid is as many as the grid has points."""
    for name, found in tables.items():
        where = f"systems.{name}."
        if not isinstance(found, dict):
            raise InputError(f"systems.{name} must be a table", file)
        _check(found, SYSTEM_KEYS, file, where)
        if "head" not in found:
            raise InputError(f"systems.{name} has no head", file)
        bundle = found.get("bundle")
        if bundle is None and "partner_name" in found:
            raise InputError(f"{where}partner_name: there is no partner; bundle names one", file)
        partner = found.get("partner_name", f"{name} ({bundle})")
        options = _sections(found.get("options", {}), file, f"{where}options")
        axes = dict(_axes(found.get("grid", {}), file, f"{where}grid"))
        for values in product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            told = [f"{option}={spelt(value)}" for (_, option), value in point.items()]
            alpha = point.pop(ALPHA_AXIS, found.get("alpha"))
            own: Values = {section: dict(each) for section, each in options.items()}
            for (section, option), value in point.items():
                own[section][option] = value
            system = System(found["head"], found.get("preset"), bundle, alpha, " ".join([partner, *told]), own)
            yield " ".join([name, *told]), system


def _axes(grid: Mapping[str, Any], file: Path, where: str) -> Iterator[tuple[tuple[str, str], list[Any]]]:
    """Each axis of a grid by its section and option, and its values."""
    sections = _sections({name: each for name, each in grid.items() if name != ALPHA_AXIS[1]}, file, where)
    alone = {ALPHA_AXIS: grid[ALPHA_AXIS[1]]} if ALPHA_AXIS[1] in grid else {}
    of_sections = {(section, option): values for section, each in sections.items() for option, values in each.items()}
    for axis, values in {**alone, **of_sections}.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"{where}.{'.'.join(axis).lstrip('.')} must be a list of values", file)
        yield axis, values


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
