"""Options of every section, from defaults, presets and `--set`, checked against the dataclass that names them.

An option is a field of a frozen dataclass; its default stands there, its meaning in the field's
metadata under "help". A wrong name or value is refused with the nearest that would be right.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from spanloom.errors import InputError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How a model is trained, whatever its head."""

    epochs: int = field(default=5, metadata={"help": "times that all training sentences are seen"})
    batch: int = field(default=16, metadata={"help": "sentences a batch on average; batches carry equal work"})
    accumulate: int = field(default=1, metadata={"help": "batches whose gradients are added up before a step"})
    encoder_lr: float | None = field(
        default=None, metadata={"help": "peak learning rate of the language model; none: the encoder's own"}
    )
    head_lr: float = field(default=1e-3, metadata={"help": "peak learning rate of all that is added to it"})
    warmup: float = field(default=0.1, metadata={"help": "share of the steps in which the rates rise to their peak"})
    decay: float = field(default=0.01, metadata={"help": "weight decay; none on biases and layer norms"})
    clip: float = field(default=1.0, metadata={"help": "largest norm of a gradient"})
    patience: int = field(default=0, metadata={"help": "epochs without a better dev F1 before stopping; 0: never"})
    precision: Literal["auto", "fp32", "bf16"] = field(
        default="auto", metadata={"help": "auto: bf16 where the processor computes in it"}
    )
    seed: int = field(default=1, metadata={"help": "equal seeds, equal weights"})
    limit: int = field(default=0, metadata={"help": "the first so many training sentences; 0: all"})
    tensorboard: bool = field(default=False, metadata={"help": "write events for TensorBoard into the run's folder"})

    def __post_init__(self) -> None:
        at_least(self, "training", 1, "epochs", "batch", "accumulate")
        at_least(self, "training", 0, "patience", "limit", "decay", "seed", "head_lr")
        if not 0 <= self.warmup <= 1:
            raise InputError(f"training.warmup {self.warmup}: a share from 0 to 1 is expected")
        if not self.clip > 0:
            raise InputError(f"training.clip {self.clip}: a number above 0 is expected")
        if self.encoder_lr is not None and not self.encoder_lr >= 0:
            raise InputError(f"training.encoder_lr {self.encoder_lr}: a number from 0 on is expected")


def at_least(options: object, section: str, least: int, *names: str) -> None:
    """Refuses options below a bound."""
    for name in names:
        value = getattr(options, name)
        if not value >= least:
            raise InputError(f"{section}.{name} {value}: a number from {least} on is expected")


def check_prediction(precision: str, batch_words: int, threshold: float) -> None:
    """Refuses what a model cannot predict with, from the command line and from Python alike."""
    if precision not in ("auto", "fp32", "bf16"):
        raise InputError(f"precision {precision}: it is auto, fp32 or bf16")
    if not batch_words >= 1:
        raise InputError(f"batch words {batch_words}: a number from 1 on is expected")
    if not 0 <= threshold <= 1:
        raise InputError(f"threshold {threshold}: a probability from 0 to 1 is expected")


def make(section: str, kind: type[T], values: Mapping[str, Any]) -> T:
    """A section's options: the dataclass's defaults, overridden by values or by texts that spell them."""
    hints = get_type_hints(kind)
    names = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            raise InputError(f"{section}.{name} is no option{nearest(name, names, section)}")
    return kind(**{name: convert(f"{section}.{name}", hints[name], value) for name, value in values.items()})


def nearest(name: str, names: Iterable[str], section: str) -> str:
    """What may have been meant, or everything that there is."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    prefix = f"{section}." if section else ""
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; there are {', '.join(prefix + name for name in names)}" if names else "; there are none"


def convert(name: str, hint: Any, value: Any) -> Any:
    """A value as its option's type wants it; a string may spell any of them, as on the command line."""
    if get_origin(hint) in (Union, UnionType):
        if value is None or (isinstance(value, str) and value.lower() in ("none", "null")):
            if NoneType in get_args(hint):
                return None
            raise InputError(f"{name} cannot be none")
        (hint,) = (inner for inner in get_args(hint) if inner is not NoneType)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise InputError(f"{name} cannot be {value!r}; it is one of {', '.join(map(str, choices))}")
        return value
    if get_origin(hint) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise InputError(f"{name} cannot be {value!r}; values separated by commas are expected")
        return tuple(convert(name, get_args(hint)[0], part) for part in parts if part != "")
    return _plain(name, hint, value)


def _plain(name: str, hint: Any, value: Any) -> Any:
    expected = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[hint]
    wrong = InputError(f"{name} cannot be {value!r}; {expected} is expected")
    if hint is bool:
        spelt = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(spelt, bool):
            raise wrong
        return spelt
    if hint is str:
        if not isinstance(value, str):
            raise wrong
        return value
    if isinstance(value, bool) or (hint is int and isinstance(value, float) and not value.is_integer()):
        raise wrong
    try:
        number = hint(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if number != number or number in (float("inf"), float("-inf")):
        raise wrong
    return number


def parse_sets(assignments: Iterable[str], sections: Iterable[str]) -> dict[str, dict[str, Any]]:
    """`--set section.option=value ...` as values by section."""
    sections = list(sections)
    values: dict[str, dict[str, Any]] = {section: {} for section in sections}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        section, dot, option = name.strip().partition(".")
        if not equals or not dot or not option:
            raise InputError(f"--set {assignment!r}: section.option=value is expected, as in head.crf=true")
        if section not in values:
            raise InputError(f"--set {assignment!r}: {section!r} is no section{nearest(section, sections, '')}")
        values[section][option] = value.strip()
    return values


def read_tables(path: Path) -> dict[str, Any]:
    """A TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", path) from None


def read_toml(path: Path, sections: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A file of options: a table a section."""
    found, sections = read_tables(path), list(sections)
    for section, values in found.items():
        if section not in sections:
            raise InputError(f"[{section}] is no section{nearest(section, sections, '')}", path)
        if not isinstance(values, dict):
            raise InputError(f"{section} must be a table, [{section}]", path)
    return {section: dict(found.get(section, {})) for section in sections}


def decode_options(options: T, values: Mapping[str, Any], section: str = "head") -> T:
    """A trained model's options with those changed that take effect at decoding; the others are refused."""
    free = [option.name for option in fields(options) if option.metadata.get("decode")]  # type: ignore[arg-type]
    known = [option.name for option in fields(options)]  # type: ignore[arg-type]
    for name in values:
        if name in known and name not in free:
            there_are = ", ".join(f"{section}.{name}" for name in free) or "none"
            raise InputError(f"{section}.{name} was fixed in training; at prediction there are: {there_are}")
        if name not in known:
            raise InputError(f"{section}.{name} is no option{nearest(name, free, section)}")
    kept = {name: getattr(options, name) for name in known}
    changed = make(section, type(options), {**kept, **values})
    # "auto" and none leave to training what training has decided by now
    decided = {name: kept[name] for name in values if getattr(changed, name) in ("auto", None)}
    return make(section, type(options), {**kept, **values, **decided}) if decided else changed


def spelt(value: Any) -> str:
    """An option's value as `--set` takes it."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
