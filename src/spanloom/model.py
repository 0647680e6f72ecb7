"""A model: an encoder and a head, as a `transformers` model, and its folder on disk.

`save_pretrained`, `from_pretrained` and `push_to_hub` are the ecosystem's own. `load_model` is for
folders that somebody else made: it looks at everything before it trusts it, and says in one line
what is wrong. A folder holds all that prediction needs:

    config.json          types, options, segmenting, the language model's architecture
    model.safetensors    the weights
    tokenizer*.json      the language model's tokenizer
    features.json        the words, characters and tags that have vectors of their own, where any have
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from safetensors import safe_open
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils.hub import cached_file

from spanloom import __version__
from spanloom.document import Sentence
from spanloom.encoder import language_models
from spanloom.encoder.encoder import Encoder
from spanloom.encoder.features import Vocabularies, fit
from spanloom.encoder.options import EncoderOptions
from spanloom.encoder.pieces import PieceBatch
from spanloom.errors import InputError, shorten
from spanloom.heads import family_of
from spanloom.heads.base import Family, Head, Loss, Scheme, Scores, Targets
from spanloom.options import make
from spanloom.runs import CONFIG, MOST_CONFIG
from spanloom.segment import Segmenter

WEIGHTS, TOKENIZER, TOKENIZER_CONFIG = "model.safetensors", "tokenizer.json", "tokenizer_config.json"
FEATURES = "features.json"
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

# What no honest model comes near, and what somebody else's config.json may not ask of this machine.
MOST_TYPES = 10_000
MOST_FEATURES = 64 << 20  # bytes
LARGEST_NUMBER = 100_000_000
PARTS_PER_TENSOR = 20
REACHES_OUT = ("auto_map", "attn_implementation", "experts_implementation", "backbone", "use_kernels", "timm")
"""What is in the names of a language model's options that make the libraries fetch or run something else."""


PLACES = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")
"""What `from_pretrained` may be told about where files are."""


class SpanloomConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Everything about a model but its weights; plain JSON. `features` can be large, and has a file of its own."""

    model_type = "spanloom"

    def __init__(
        self,
        head: str = "tagger",
        types: Sequence[str] = (),
        head_options: dict[str, Any] | None = None,
        encoder_options: dict[str, Any] | None = None,
        language_model: dict[str, Any] | None = None,
        segmenter: dict[str, str] | None = None,
        versions: dict[str, str] | None = None,
        features: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.head = head
        self.types = list(types)
        self.head_options = head_options or {}
        self.encoder_options = encoder_options or {}
        self.language_model = language_model or {}
        self.segmenter = segmenter or Segmenter().to_dict()
        self.versions = versions or versions_here()
        self.features = features
        super().__init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = super().to_dict()
        found.pop("features", None)
        return found

    def save_pretrained(self, save_directory: str | os.PathLike[str], push_to_hub: bool = False, **kwargs: Any) -> None:
        if self.features is not None:
            file = Path(save_directory) / FEATURES
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(self.features) + "\n", encoding="utf-8")
        super().save_pretrained(save_directory, push_to_hub, **kwargs)

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `from_pretrained` builds a config from: config.json, and the file of features if there should be one."""
        found, unused = super().get_config_dict(*args, **kwargs)
        if make("encoder", EncoderOptions, found.get("encoder_options", {})).has_features:
            where = {name: kwargs[name] for name in PLACES if kwargs.get(name) is not None}
            file = Path(str(cached_file(args[0], FEATURES, **where)))
            found["features"] = _read_json(file, MOST_FEATURES)
        return found, unused


def versions_here() -> dict[str, str]:
    """The versions a model was made with."""
    return {"spanloom": __version__, "torch": torch.__version__, "transformers": transformers.__version__}


class SpanloomModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Words in, losses or scores out. `scheme` turns the scores into mentions."""

    config_class = SpanloomConfig
    base_model_prefix = "encoder"
    main_input_name = "batch"
    _supports_sdpa = True

    def __init__(self, config: SpanloomConfig, encoder: Encoder | None = None) -> None:
        super().__init__(config)
        family: Family = family_of(config.head)
        options = make("head", family.options, config.head_options)
        self.scheme: Scheme = family.scheme(options, config.types, None)
        self.encoder = encoder or _described(config)
        self.head: Head = family.head(options, self.scheme, self.encoder.width)
        self.post_init()  # type: ignore[no-untyped-call]

    def _init_weights(self, module: torch.nn.Module) -> None:
        """Every part has initialised itself."""

    def forward(self, batch: PieceBatch, targets: Targets) -> Loss:
        """The parts of the loss."""
        return self.head.loss(self.encoder(batch), targets)

    def scores(self, batch: PieceBatch) -> Scores:
        return self.head.scores(self.encoder(batch))

    def use(self, scheme: Scheme) -> None:
        """Decodes by another scheme, one with other options of decoding."""
        self.scheme = self.head.scheme = scheme


def _described(config: SpanloomConfig) -> Encoder:
    """An encoder as a config describes it, its weights still to come."""
    options = make("encoder", EncoderOptions, config.encoder_options)
    vocabularies = Vocabularies.from_dict(config.features, options)
    return Encoder(language_models.from_config(config.language_model), options, vocabularies)


def new_model(
    head: str,
    head_options: Any,
    encoder_options: EncoderOptions,
    types: Sequence[str],
    training: Sequence[Sentence],
    segmenter: Segmenter,
    seed: int,
    words: Iterable[str] = (),
) -> tuple[SpanloomModel, PreTrainedTokenizerFast]:
    """A model to be trained: a pretrained language model, and a head that fits the training sentences.

    `words` are further ones whose vectors are to be kept, where a file has vectors of words.
    """
    vocabularies, vectors = fit(encoder_options, training, words)
    language_model, tokenizer = language_models.load(encoder_options.name)
    family = family_of(head)
    scheme = family.scheme(head_options, types, training)
    config = SpanloomConfig(
        head=head,
        types=types,
        head_options=asdict(scheme.options),
        encoder_options=asdict(encoder_options),
        language_model=language_model.config.to_dict(),
        segmenter=segmenter.to_dict(),
        features=vocabularies.to_dict() if vocabularies else None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SpanloomModel(config, Encoder(language_model, encoder_options, vocabularies))
    if vectors is not None:
        model.encoder.fill(torch.from_numpy(vectors))
    return model, tokenizer


def model_beside(
    other: SpanloomModel, head: str, head_options: Any, training: Sequence[Sentence], seed: int
) -> SpanloomModel:
    """A model with a head of its own and the very encoder of another one, to be trained together."""
    scheme = family_of(head).scheme(head_options, other.config.types, training)
    config = SpanloomConfig(
        head=head,
        types=other.config.types,
        head_options=asdict(scheme.options),
        encoder_options=other.config.encoder_options,
        language_model=other.config.language_model,
        segmenter=other.config.segmenter,
        features=other.config.features,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SpanloomModel(config, other.encoder)


def load_model(folder: str | Path) -> tuple[SpanloomModel, PreTrainedTokenizerFast]:
    """A trained model and its tokenizer; whatever is wrong with the folder is one line."""
    path = Path(folder)
    config = read_config(path)
    file, weights = path / CONFIG, _inside(path, WEIGHTS)
    with _telling(weights, "is damaged or cut short"), safe_open(weights, framework="pt") as stored:
        shapes = {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118 - no mapping
        _check_numbers(config.language_model, "language_model", len(shapes), file)
        # first without memory: what config.json describes may be of any size
        with _building(file, len(shapes)), torch.device("meta"):
            sketch = SpanloomModel(config)
        _check_shapes({name: list(tensor.shape) for name, tensor in sketch.state_dict().items()}, shapes, weights)
        with _building(file, len(shapes)):
            model = SpanloomModel(config)
        for name, tensor in model.state_dict().items():
            tensor.copy_(stored.get_tensor(name))
    tokenizer = _load_tokenizer(path, getattr(model.encoder.language_model.config, "vocab_size", None))
    model.train(False)
    return model, tokenizer


def read_config(path: Path) -> SpanloomConfig:
    """A model folder's config.json, field by field."""
    if not path.is_dir():
        raise InputError("there is no such model folder", path)
    file = _inside(path, CONFIG)
    found = _read_json(file)
    if not isinstance(found, dict) or found.get("model_type") != SpanloomConfig.model_type:
        raise InputError("is not the config of a Spanloom model; name the folder that `spanloom train` wrote", file)
    kinds = {
        "head": str,
        "types": list,
        "head_options": dict,
        "encoder_options": dict,
        "language_model": dict,
        "segmenter": dict,
    }
    for name, kind in kinds.items():
        if not isinstance(found.get(name), kind):
            raise InputError(f'"{name}" is missing or damaged', file)
    types = found["types"]
    if not types or not all(isinstance(type, str) and type.strip() for type in types) or len(set(types)) < len(types):
        raise InputError('"types" must be names, each once', file)
    if len(types) > MOST_TYPES:
        raise InputError(f'"types" has {len(types):,} names; {MOST_TYPES:,} is the most', file)
    try:
        Segmenter.from_dict(found["segmenter"])
        family_of(found["head"])
        options = make("encoder", EncoderOptions, found["encoder_options"])
    except InputError as error:
        raise InputError(error.message, file) from None
    language_model = found["language_model"]
    found["language_model"] = {
        name: value for name, value in language_model.items() if not any(part in name for part in REACHES_OUT)
    }
    versions = found.get("versions")
    features = _read_features(path, options)
    with _telling(file, "describes no model that can be built"):
        return SpanloomConfig(
            **{name: found[name] for name in kinds},
            versions=versions if isinstance(versions, dict) else None,
            features=features,
        )


def _read_features(path: Path, options: EncoderOptions) -> dict[str, Any] | None:
    """The vocabularies of a model folder, where the encoder's options ask for any; else whatever is there is let be."""
    if not options.has_features:
        return None
    file = _inside(path, FEATURES)
    found = _read_json(file, MOST_FEATURES)
    try:
        Vocabularies.from_dict(found, options)
    except InputError as error:
        raise InputError(error.message, file) from None
    kept: dict[str, Any] = found
    return kept


def _inside(folder: Path, name: str) -> Path:
    """A file of a model folder, and not one that a link puts somewhere else on the machine.

    The hub's cache keeps the files of a snapshot as links into the `blobs` beside it; those are fine.
    """
    file = folder / name
    if not file.exists():
        raise InputError(f"{name} is missing; a model folder holds it", folder)
    if not file.is_file():
        raise InputError("is not a file", file)
    home, target = folder.resolve(), file.resolve()
    # a further output of a model lies two folders deeper than the model
    snapshots = [place for place in home.parents[:3:2] if place.name == "snapshots"]
    homes = [home, *(place.parent / "blobs" for place in snapshots)]
    if not any(target.is_relative_to(place) for place in homes):
        raise InputError("is a link that leaves the folder; put the file itself there", file)
    return file


def _read_json(file: Path, most: int = MOST_CONFIG) -> Any:
    if file.stat().st_size > most:
        raise InputError(f"is larger than {most >> 20} MB", file)
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except RecursionError:
        raise InputError("not JSON: nested too deeply", file) from None
    except ValueError as error:
        raise InputError(f"not JSON: {error}", file) from None


@contextmanager
def _telling(file: Path, what: str) -> Iterator[None]:
    """Whatever a library makes of a file that is not as it should be, as one line."""
    try:
        yield
    except InputError as error:
        raise InputError(error.message, error.file or file) from None
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic in Rust is no Exception
        raise InputError(f"{what}: {shorten(str(error) or type(error).__name__, 200)}", file) from None


@contextmanager
def _building(file: Path, tensors: int) -> Iterator[None]:
    """Stops the building of a model that has far more parts than its weights have tensors."""
    left = 100 + PARTS_PER_TENSOR * tensors

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise InputError(f"describes a model with far more parts than the {tensors} tensors of {WEIGHTS}", file)

    hooks = [register_module_module_registration_hook(count), register_module_parameter_registration_hook(count)]
    try:
        with _telling(file, "describes no model that can be built"), language_models.quiet():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_numbers(value: Any, name: str, tensors: int, file: Path) -> None:
    """Refuses sizes that nobody means, before a library makes a list of that length."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _check_numbers(inner, f"{name}.{key}", tensors, file)
    elif isinstance(value, int) and value > (100 + tensors if name.endswith("layers") else LARGEST_NUMBER):
        raise InputError(f"describes no model that can be built: {name} is {value}", file)


def _check_shapes(wanted: dict[str, list[int]], stored: dict[str, list[int]], file: Path) -> None:
    """The weights must be those of this very model: no name more or less, every shape the same."""
    for problem, which in (("lacks", wanted.keys() - stored.keys()), ("has in excess", stored.keys() - wanted.keys())):
        if which:
            some = ", ".join(sorted(which)[:3]) + (" ..." if len(which) > 3 else "")
            raise InputError(f"does not belong to config.json: it {problem} {some}", file)
    for name, shape in wanted.items():
        if shape != stored[name]:
            raise InputError(f"does not belong to config.json: {name} is {stored[name]}, and {shape} by it", file)


def _load_tokenizer(folder: Path, known: int | None) -> PreTrainedTokenizerFast:
    """The tokenizer as its file describes it, whichever class tokenizer_config.json would like to run.

    It may have no more pieces than are `known` to the language model.
    """
    file, beside = _inside(folder, TOKENIZER), folder / TOKENIZER_CONFIG
    roles: dict[str, Any] = {}
    if beside.exists() or beside.is_symlink():
        found = _read_json(_inside(folder, TOKENIZER_CONFIG))
        if not isinstance(found, dict):
            raise InputError("is not the config of a tokenizer", beside)
        for role in SPECIAL_TOKENS:
            token = found.get(role)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                roles[role] = token
        if isinstance(found.get("model_max_length"), int):
            roles["model_max_length"] = found["model_max_length"]
    with _telling(file, "is damaged"):
        backend = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
        backend.no_truncation()
        backend.no_padding()
        vocabulary = backend.get_vocab()
        pieces = max(vocabulary.values(), default=0) + 1
        if known is not None and pieces > known:
            said = f"knows {pieces:,} pieces, the language model only {known:,}; they do not belong together"
            raise InputError(said, file)
        for role in [role for role in SPECIAL_TOKENS if roles.get(role, "") not in vocabulary]:
            roles.pop(role, None)
        return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)  # type: ignore[no-untyped-call]
