"""A run: everything that was decided before the first step, and where its folder keeps what.

FOLDER/                     the model at its best: config.json, model.safetensors, the tokenizer, README.md
FOLDER/training/run.json    what was asked for, resolved to the last option
FOLDER/training/curve.jsonl a line an epoch: loss, dev scores, seconds
FOLDER/state/               what --resume goes on from; gone when the run is finished
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spanloom.encoder import language_models
from spanloom.encoder.options import EncoderOptions
from spanloom.errors import InputError
from spanloom.options import TrainingOptions, make, nearest, read_toml

SECTIONS = ("encoder", "head", "training")
RUN, CURVE, STATE = Path("training/run.json"), Path("training/curve.jsonl"), Path("state")


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be trained, on what, and how; options resolved."""

    corpus: str
    head: str
    preset: str | None
    encoder: EncoderOptions
    head_options: Any
    training: TrainingOptions

    def encoder_lr(self) -> float:
        """The language model's peak learning rate: the one given, or the one that suits it."""
        given = self.training.encoder_lr
        return language_models.learning_rate(self.encoder.name) if given is None else given

    def as_dict(self) -> dict[str, Any]:
        return {
            "corpus": self.corpus,
            "head": self.head,
            "preset": self.preset,
            "options": {
                "encoder": asdict(self.encoder),
                "head": asdict(self.head_options),
                "training": asdict(self.training),
            },
        }


def resolve(corpus: str, head: str, preset: str | None, given: Sequence[Mapping[str, Mapping[str, Any]]]) -> Run:
    """Defaults, the family's before the general ones, overridden by the preset, overridden by what is given, the
    last of all strongest.
    """
    from spanloom.heads import family_of

    family = family_of(head)
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for layer in (_sections(family.defaults), _preset(family.presets, head, preset), *given):
        for section, options in layer.items():
            values[section] |= options
    encoder = make("encoder", EncoderOptions, values["encoder"])
    # a run is resumed from wherever one likes
    if encoder.name not in language_models.SHORT_NAMES and Path(encoder.name).expanduser().is_dir():
        encoder = replace(encoder, name=str(Path(encoder.name).expanduser().resolve()))
    if encoder.vectors_file:
        encoder = replace(encoder, word_vectors=str(Path(encoder.vectors_file).expanduser().resolve()))
    return Run(
        corpus=corpus if corpus.startswith("sample:") else str(Path(corpus).resolve()),
        head=head,
        preset=preset,
        encoder=encoder,
        head_options=make("head", family.options, values["head"]),
        training=make("training", TrainingOptions, values["training"]),
    )


def _preset(presets: Mapping[str, Mapping[str, Any]], head: str, name: str | None) -> dict[str, dict[str, Any]]:
    """A paper's values by name, or a TOML file of one's own."""
    if name is None:
        return {}
    if name.endswith(".toml"):
        return read_toml(Path(name), SECTIONS)
    if name not in presets:
        raise InputError(f"--preset {name}: {head} has no such preset{nearest(name, presets, '')}")
    return _sections(presets[name])


def _sections(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{"section.option": value} as options by section."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for name, value in options.items():
        section, _, option = name.partition(".")
        values[section][option] = value
    return values


def save_run(run: Run, folder: Path, digests: Mapping[str, str] | None = None) -> None:
    """`digests` tell by name what the run was given to read."""
    file = folder / RUN
    file.parent.mkdir(parents=True, exist_ok=True)
    told = run.as_dict() | ({"digests": dict(digests)} if digests is not None else {})
    beside = file.with_name(file.name + ".part")
    beside.write_text(json.dumps(told, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    beside.replace(file)  # killed at any moment, there is a whole run or none


def check_digests(folder: Path, digests: Mapping[str, str]) -> None:
    """Refuses to go on with what is not what the run began with. Folders of earlier versions tell nothing of it."""
    found = json.loads((folder / RUN).read_text(encoding="utf-8"))
    kept: dict[str, str] = found.get("digests") or {}
    changed = [name for name, digest in digests.items() if kept.get(name, digest) != digest]
    if changed:
        raise InputError(
            f"cannot be resumed: {' and '.join(changed)} changed since the run began; put back what was "
            "there, or train anew into another folder",
            folder,
        )


def read_run(folder: Path) -> Run:
    """The run of a folder, to be resumed."""
    file = folder / RUN
    if not file.is_file():
        raise InputError(f"holds no run to resume: {RUN} is missing", folder)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return resolve(found["corpus"], found["head"], None, [found["options"]])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"is damaged: {error}", file) from None


def is_finished(folder: Path) -> bool:
    """Whether a run has nothing left to do: a curve, and no state to go on from."""
    states = [folder / STATE, (folder / STATE).with_name(STATE.name + ".old")]
    return (folder / CURVE).exists() and not any(state.exists() for state in states)
