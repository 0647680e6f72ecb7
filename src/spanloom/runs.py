"""A run: everything that was decided before the first step, and where its folder keeps what.

FOLDER/                     the model at its best: config.json, model.safetensors, the tokenizer, README.md
FOLDER/outputs/PARTNER/     of a bundle, the partner at its best: such a folder, too
FOLDER/training/run.json    what was asked for, resolved to the last option
FOLDER/training/curve.jsonl a line an epoch: loss, dev scores, seconds
FOLDER/state/               what --resume goes on from; gone when the run is finished
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanloom.encoder import language_models
from spanloom.encoder.options import EncoderOptions
from spanloom.errors import InputError
from spanloom.options import TrainingOptions, convert, make, nearest, read_toml, spelt

if TYPE_CHECKING:
    from spanloom.heads.base import Family

SECTIONS = ("encoder", "head", "partner", "training")
RUN, CURVE, STATE, OUTPUTS = Path("training/run.json"), Path("training/curve.jsonl"), Path("state"), Path("outputs")
CONFIG, MOST_CONFIG = "config.json", 16 << 20  # bytes, more than any honest one has
ALPHA = 0.1

Values = dict[str, dict[str, Any]]
"""Options by section."""


@dataclass(frozen=True, slots=True)
class Partner:
    """The other head of a bundle. `alpha` weighs the sequence side, whichever of the two it is."""

    head: str
    options: Any
    alpha: float


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be trained, on what, and how; options resolved."""

    corpus: str
    head: str
    preset: str | None
    encoder: EncoderOptions
    head_options: Any
    training: TrainingOptions
    partner: Partner | None = None

    @property
    def weights(self) -> dict[str, float]:
        """The heads that are trained, the host first, with their weights in the loss; one of weight 0 is left out."""
        if self.partner is None:
            return {self.head: 1.0}
        from spanloom.bundle import weights_of
        from spanloom.heads import family_of

        host, partner = self.head, self.partner.head
        weights = weights_of(family_of(host), family_of(partner), self.partner.alpha)
        return {name: weight for name, weight in zip((host, partner), weights, strict=True) if weight}

    def encoder_lr(self) -> float:
        """The language model's peak learning rate: the one given, or the one that suits it."""
        given = self.training.encoder_lr
        return language_models.learning_rate(self.encoder.name) if given is None else given

    def as_dict(self) -> dict[str, Any]:
        partner = self.partner
        return {
            "corpus": self.corpus,
            "head": self.head,
            "preset": self.preset,
            **({"bundle": partner.head, "alpha": partner.alpha} if partner else {}),
            "options": {
                "encoder": asdict(self.encoder),
                "head": asdict(self.head_options),
                **({"partner": asdict(partner.options)} if partner else {}),
                "training": asdict(self.training),
            },
        }


def resolve(
    corpus: str,
    head: str,
    preset: str | None,
    given: Sequence[Mapping[str, Mapping[str, Any]]],
    bundle: str | None = None,
    alpha: float | str | None = None,
) -> Run:
    """Defaults, the family's before the general ones, overridden by the preset, overridden by what is given, the
    last of all strongest. Of encoder and training the host of a bundle decides.
    """
    weight = check_bundle(head, bundle, alpha)

    from spanloom.heads import family_of

    family = family_of(head)
    layers = [_sections(family.defaults), _preset(family.presets, head, preset), *given]
    if bundle is not None:
        layers = [*({"partner": wish["head"]} for wish in _wishes(family_of(bundle), preset)), *layers]
    values = _merged(layers)
    if bundle is None and values["partner"]:
        raise InputError(f"partner.{next(iter(values['partner']))}: there is no partner; --bundle names one")
    encoder = make("encoder", EncoderOptions, values["encoder"])
    # a run is resumed from wherever one likes
    if encoder.name not in language_models.SHORT_NAMES and Path(encoder.name).expanduser().is_dir():
        encoder = replace(encoder, name=str(Path(encoder.name).expanduser().resolve()))
    if encoder.vectors_file:
        encoder = replace(encoder, word_vectors=str(Path(encoder.vectors_file).expanduser().resolve()))
    run = Run(
        corpus=corpus if corpus.startswith("sample:") else str(Path(corpus).resolve()),
        head=head,
        preset=preset,
        encoder=encoder,
        head_options=make("head", family.options, values["head"]),
        training=make("training", TrainingOptions, values["training"]),
        partner=Partner(bundle, _partner_options(bundle, values["partner"]), weight) if bundle is not None else None,
    )
    if head not in run.weights:
        raise InputError(f"alpha {weight:g} leaves {head} untrained; {bundle} alone is --head {bundle}")
    return run


def check_bundle(head: str, bundle: str | None, alpha: float | str | None) -> float:
    """Alpha, if two heads make a bundle with it; all that can be refused without a library."""
    if bundle is None:
        if alpha is not None:
            raise InputError(f"alpha {alpha} weighs two heads against each other; --bundle names the second")
        return ALPHA
    if bundle == head:
        raise InputError(f"--bundle {bundle}: two different heads make a bundle, and the first is {head} already")
    from spanloom.heads import expect

    expect(bundle)
    if Path(bundle).name != bundle:
        raise InputError(f"--bundle {bundle}: such a name can be no folder's, and its output needs one")
    weight: float = convert("alpha", float, ALPHA if alpha is None else alpha)
    if not 0 <= weight <= 1:
        raise InputError(f"alpha {weight:g}: a share from 0 to 1 is expected")
    return weight


def _partner_options(head: str, values: Mapping[str, Any]) -> Any:
    from spanloom.heads import family_of

    try:
        return make("partner", family_of(head).options, values)
    except InputError as error:  # a head that refuses a value takes itself for the only one
        raise InputError(error.message.replace("head.", "partner.", 1)) from None


def conflicts(run: Run) -> list[str]:
    """What the partner would have otherwise, by its defaults or its preset, than its host has decided, in lines."""
    if run.partner is None:
        return []
    from spanloom.heads import family_of

    host, partner = (_merged(_wishes(family_of(name), run.preset)) for name in (run.head, run.partner.head))
    found = []
    for section, kind, decided in (
        ("encoder", EncoderOptions, run.encoder),
        ("training", TrainingOptions, run.training),
    ):
        ours, theirs = (make(section, kind, wishes[section]) for wishes in (host, partner))
        for name in partner[section]:
            wish, now = getattr(theirs, name), getattr(decided, name)
            if wish not in (getattr(ours, name), now):  # where host and partner agree, somebody else has decided
                found.append(f"{section}.{name}={spelt(wish)} instead of {spelt(now)}")
    bundled = run.partner.head
    told = []
    if found:
        told.append(f"{run.head} decides on encoder and training; {bundled} by itself would have {', '.join(found)}")
    if run.preset in family_of(run.head).presets and run.preset not in family_of(bundled).presets:
        told.append(f"{bundled} has no preset {run.preset}; its options are its own defaults")
    return told


def _merged(layers: Iterable[Mapping[str, Mapping[str, Any]]]) -> Values:
    """Options by section, every section there, the last layer strongest."""
    values: Values = {section: {} for section in SECTIONS}
    for layer in layers:
        for section, options in layer.items():
            values[section] |= options
    return values


def _wishes(family: Family, preset: str | None) -> list[Values]:
    """A family's defaults, and its preset of that name if it has one."""
    return [_sections(family.defaults), _sections(family.presets.get(preset or "", {}))]


def _preset(presets: Mapping[str, Mapping[str, Any]], head: str, name: str | None) -> Values:
    """A paper's values by name, or a TOML file of one's own."""
    if name is None:
        return {}
    if name.endswith(".toml"):
        return read_toml(Path(name), SECTIONS)
    if name not in presets:
        raise InputError(f"--preset {name}: {head} has no such preset{nearest(name, presets, '')}")
    return _sections(presets[name])


def _sections(options: Mapping[str, Any]) -> Values:
    """{"section.option": value} as options by section."""
    values: Values = {section: {} for section in SECTIONS}
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
        bundle = found.get("bundle"), found.get("alpha")
        return resolve(found["corpus"], found["head"], None, [found["options"]], *bundle)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"is damaged: {error}", file) from None


def is_finished(folder: Path) -> bool:
    """Whether a run has nothing left to do: a curve, and no state to go on from."""
    states = [folder / STATE, (folder / STATE).with_name(STATE.name + ".old")]
    return (folder / CURVE).exists() and not any(state.exists() for state in states)


def output_folder(folder: Path, decode: str | None) -> Path:
    """The folder of an output of a model: the model's own for its head's name or none, that of a partner for its."""
    if decode is None:
        return folder
    outputs = _outputs(folder)
    if decode not in outputs:
        raise InputError(f"has no output {decode!r}{nearest(decode, outputs, '')}", folder)
    return outputs[decode]


def _outputs(folder: Path) -> dict[str, Path]:
    """The outputs of a model folder by name, its own first. Nothing that a link puts somewhere else is one."""
    found, file = {}, folder / CONFIG
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):  # reading the model tells what is wrong
        if file.stat().st_size <= MOST_CONFIG:
            found[str(json.loads(file.read_text(encoding="utf-8"))["head"])] = folder
    for config in sorted((folder / OUTPUTS).glob(f"*/{CONFIG}")):
        if config.parent.resolve() == folder.resolve() / OUTPUTS / config.parent.name:
            found.setdefault(config.parent.name, config.parent)
    return found
