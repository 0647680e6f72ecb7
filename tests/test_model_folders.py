"""Model folders as bad input: one clear line, exit code 2, nothing run, nothing read outside the folder."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

import spanloom
from spanloom.cli import main
from tests import engine
from tests.conftest import Run

MARK = "was-run"


class Case(NamedTuple):
    """What is done to a good model folder, and what the one line has to say."""

    name: str
    spoil: Callable[[Path], object]
    says: list[str]


def config(name: str, change: Callable[[dict[str, Any]], object], *says: str) -> Case:
    """Something else in config.json."""

    def spoil(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        change(found)
        (folder / "config.json").write_text(json.dumps(found))

    return Case(name, spoil, ["config.json", *says])


def language(name: str, value: object, *says: str) -> Case:
    return config(f"{name} is {str(value)[:20]}", lambda found: found["language_model"].update({name: value}), *says)


def content(file: str, text: str | bytes, *says: str, name: str = "") -> Case:
    """Something else in a file."""
    raw = text if isinstance(text, bytes) else text.encode()
    return Case(name or f"{file} is {raw[:12]!r}", lambda folder: (folder / file).write_bytes(raw), [file, *says])


def weights(name: str, change: Callable[[dict[str, torch.Tensor]], object], *says: str) -> Case:
    """Other tensors."""

    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return Case(name, spoil, ["model.safetensors", *says])


def tokenizer(name: str, change: Callable[[dict[str, Any]], object], *says: str) -> Case:
    def spoil(folder: Path) -> None:
        found = json.loads((folder / "tokenizer.json").read_text())
        change(found)
        (folder / "tokenizer.json").write_text(json.dumps(found))

    return Case(name, spoil, list(says))


def cut(file: str, keep: float) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        raw = (folder / file).read_bytes()
        (folder / file).write_bytes(raw[: int(len(raw) * keep)])

    return spoil


def link(file: str, target: str) -> Callable[[Path], object]:
    """A file that is a link; what it leads to is a good one."""

    def spoil(folder: Path) -> None:
        (folder / file).rename(folder.parent / "outside")
        (folder / file).symlink_to(target)

    return spoil


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.folder / MARK),)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(folder)))


def pickled_in_place(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Payload(folder)))


def replaced_by_folder(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()


def pipe(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")


LOGITS, WORDS = "head.logits.weight", "encoder.language_model.embeddings.word_embeddings.weight"
HUGE = 10**12

CASES = [
    # weights
    *(Case(f"weights cut to {keep}", cut("model.safetensors", keep), ["model.safetensors", "damaged or cut short"]) for keep in (0, 0.001, 0.5, 0.99)),
    content("model.safetensors", b"\xff" * 64, "damaged or cut short", name="weights with a huge header"),
    content("model.safetensors", (1 << 40).to_bytes(8, "little") + b"{}", "damaged or cut short", name="weights with a header beyond the file"),
    content("model.safetensors", (2).to_bytes(8, "little") + b"{}", "lacks", name="weights without tensors"),
    Case("weights missing", lambda folder: (folder / "model.safetensors").unlink(), ["model.safetensors is missing"]),
    Case("weights are a folder", replaced_by_folder, ["model.safetensors", "is not a file"]),
    Case("weights are a pipe", pipe, ["model.safetensors", "is not a file"]),
    Case("weights are a pickle", pickled, ["model.safetensors is missing"]),
    Case("a pickle under the name", pickled_in_place, ["model.safetensors", "damaged or cut short"]),
    weights("a tensor too few", lambda found: found.pop(LOGITS), "does not belong to config.json", f"lacks {LOGITS}"),
    weights("a tensor too many", lambda found: found.update(more=torch.zeros(2)), "does not belong", "in excess more"),
    weights("many too many", lambda found: found.update({f"x{i}": torch.zeros(2) for i in range(9)}), "x0, x1, x2 ..."),
    weights("a name with a line break", lambda found: found.update({"a\nb\x1b[31m": torch.zeros(2)}), "in excess"),
    weights("another shape", lambda found: found.update({LOGITS: torch.zeros(2, 32)}), LOGITS, "[2, 32]"),
    weights("another number of dimensions", lambda found: found.update({LOGITS: torch.zeros(32)}), LOGITS, "[32]"),
    weights("a shape turned round", lambda found: found.update({WORDS: found[WORDS].T.contiguous()}), WORDS),
    # config.json
    Case("config missing", lambda folder: (folder / "config.json").unlink(), ["config.json is missing"]),
    content("config.json", "", "not JSON"),
    content("config.json", "{", "not JSON"),
    content("config.json", b"\xff\xfe{}", "not JSON"),
    content("config.json", "[" * 200_000, "nested too deeply"),
    content("config.json", '{"a":' * 200_000, "nested too deeply"),
    content("config.json", "[]", "not the config of a Spanloom model"),
    content("config.json", "null", "not the config of a Spanloom model"),
    content("config.json", " " * (17 << 20), "larger than 16 MB", name="config of 17 MB"),
    content("config.json", '{"model_type": "bert"}', "not the config of a Spanloom model", "spanloom train"),
    config("model type is a list", lambda found: found.update(model_type=["spanloom"]), "not the config"),
    *(config(f"no {name}", lambda found, name=name: found.pop(name), f'"{name}" is missing or damaged') for name in ("head", "types", "head_options", "encoder_options", "language_model", "segmenter")),
    config("head unknown", lambda found: found.update(head="taggr"), "'taggr' is no head; did you mean tagger?"),
    config("head is a path", lambda found: found.update(head="../../x"), "'../../x' is no head"),
    config("head is a module", lambda found: found.update(head="os.system"), "'os.system' is no head"),
    config("head options unknown", lambda found: found.update(head_options={"crff": True}), "did you mean head.crf?"),
    config("head options of another type", lambda found: found.update(head_options={"crf": 7}), "head.crf cannot be 7"),
    config("types are empty", lambda found: found.update(types=[]), '"types" must be names'),
    config("a type twice", lambda found: found.update(types=["A", "A"]), '"types" must be names, each once'),
    config("a type is a number", lambda found: found.update(types=["A", 3]), '"types" must be names'),
    config("a type is blank", lambda found: found.update(types=["A", " "]), '"types" must be names'),
    config("types are a string", lambda found: found.update(types="AB"), '"types" is missing or damaged'),
    config("far too many types", lambda found: found.update(types=[str(i) for i in range(20_000)]), "20,000 names"),
    config("one type more", lambda found: found["types"].append("Another"), "head.logits")._replace(says=["model.safetensors", "does not belong", "head.logits"]),
    config("segmenter unknown", lambda found: found.update(segmenter={"words": "regex"}), "regex"),
    config("segmenter with a pattern", lambda found: found.update(segmenter={"pattern": "(a+)+"}), "pattern"),
    config("encoder options unknown", lambda found: found["encoder_options"].update(lstms=3), "encoder.lstms is no option; did you mean encoder.lstm"),
    config("encoder options wrong", lambda found: found["encoder_options"].update(lstm=7), "encoder.lstm 7"),
    config("an LSTM of any width", lambda found: found["encoder_options"].update(lstm=HUGE))._replace(says=["error: "]),
    config("an LSTM of any depth", lambda found: found["encoder_options"].update(lstm=2, lstm_layers=HUGE), "far more parts than"),
    # the language model inside
    language("model_type", "skynet", "describes no model that can be built"),
    language("model_type", None, "describes no model that can be built"),
    language("model_type", ["bert"], "describes no model that can be built"),
    language("model_type", "t5", "describes no model")._replace(says=["error: "]),
    config("no language model", lambda found: found.update(language_model={}), "describes no model that can be built"),
    language("hidden_size", -32, "describes no model that can be built"),
    language("hidden_size", HUGE, "hidden_size is 1000000000000"),
    language("hidden_size", 40_000_000)._replace(says=["model.safetensors", "does not belong to config.json"]),
    language("hidden_size", "32", "describes no model that can be built"),
    language("vocab_size", 90_000_000)._replace(says=["does not belong to config.json", "word_embeddings"]),
    language("num_hidden_layers", HUGE, "num_hidden_layers is 1000000000000"),
    language("num_hidden_layers", 3)._replace(says=["does not belong to config.json", "layer.2"]),
    language("num_hidden_layers", 0)._replace(says=["does not belong to config.json", "in excess"]),
    language("num_attention_heads", 5, "describes no model that can be built"),
    language("num_attention_heads", 0, "describes no model that can be built"),
    language("hidden_act", "os.system", "describes no model that can be built"),
    language("hidden_dropout_prob", 7, "describes no model that can be built"),
    language("pad_token_id", 99_999, "describes no model that can be built"),
    language("layer_norm_eps", "much")._replace(says=["error: "]),
    language("max_position_embeddings", 2)._replace(says=["does not belong to config.json", "position"]),
    language("chunk_size_feed_forward", 7)._replace(says=["does not run"]),
    # tokenizer
    Case("tokenizer missing", lambda folder: (folder / "tokenizer.json").unlink(), ["tokenizer.json is missing"]),
    Case("tokenizer cut short", cut("tokenizer.json", 0.5), ["tokenizer.json", "damaged"]),
    content("tokenizer.json", "", "damaged"),
    content("tokenizer.json", "{}", "damaged"),
    content("tokenizer.json", b"\xff", "damaged"),
    content("tokenizer.json", "[" * 100_000, "damaged"),
    content("tokenizer_config.json", "{", "tokenizer_config.json", "not JSON"),
    content("tokenizer_config.json", "[]", "tokenizer_config.json", "is not the config of a tokenizer"),
    tokenizer("more pieces than vectors", lambda found: found["model"]["vocab"].update(zzz=5000), "tokenizer.json", "do not belong together"),
    tokenizer("model unknown", lambda found: found["model"].update(type="Magic"), "tokenizer.json", "damaged"),
    tokenizer("specials beyond the vectors", lambda found: found["post_processor"]["special_tokens"]["[CLS]"].update(ids=[70_000]), "does not run"),
    # links
    Case("weights elsewhere", link("model.safetensors", "../outside"), ["model.safetensors", "link that leaves the folder"]),
    Case("config elsewhere", link("config.json", "../outside"), ["config.json", "link that leaves the folder"]),
    Case("tokenizer elsewhere", link("tokenizer.json", "../outside"), ["tokenizer.json", "link that leaves the folder"]),
    Case("tokenizer config elsewhere", link("tokenizer_config.json", "../outside"), ["tokenizer_config.json", "link that leaves"]),
    Case("config is /dev/zero", link("config.json", "/dev/zero"), ["config.json"]),
    Case("a link to itself", link("model.safetensors", "model.safetensors"), ["model.safetensors is missing"]),
    Case("a link to nothing", link("model.safetensors", "nowhere"), ["model.safetensors is missing"]),
]  # fmt: skip


def features(name: str, change: Callable[[dict[str, Any]], object], *says: str) -> Case:
    """Something else in features.json."""

    def spoil(folder: Path) -> None:
        found = json.loads((folder / "features.json").read_text())
        change(found)
        (folder / "features.json").write_text(json.dumps(found))

    return Case(name, spoil, list(says))


def other_options(name: str, change: dict[str, Any], *says: str) -> Case:
    return config(name, lambda found: found["encoder_options"].update(change))._replace(says=list(says))


FEATURE_CASES = [
    Case("features missing", lambda folder: (folder / "features.json").unlink(), ["features.json is missing"]),
    Case("features cut short", cut("features.json", 0.5), ["features.json", "not JSON"]),
    Case("features elsewhere", link("features.json", "../outside"), ["features.json", "link that leaves the folder"]),
    Case("features are /dev/zero", link("features.json", "/dev/zero"), ["features.json"]),
    content("features.json", "", "not JSON"),
    content("features.json", "[]", "is not the vocabulary of a model"),
    content("features.json", "null", "is not the vocabulary of a model"),
    content("features.json", b"\xff\xfe{}", "not JSON"),
    content("features.json", "[" * 200_000, "nested too deeply"),
    content("features.json", " " * (65 << 20), "larger than 64 MB", name="features of 65 MB"),
    *(features(f"no {name}", lambda found, name=name: found.pop(name), "features.json", f'"{name}"') for name in ("words", "characters", "pos", "word_width")),
    *(features(f"{name} is a number", lambda found, name=name: found.update({name: 7}), "features.json", f'"{name}" is missing or damaged') for name in ("words", "characters", "pos")),
    features("a word is a number", lambda found: found["words"].append(3), "features.json", '"words" is missing or damaged'),
    features("a word twice", lambda found: found["words"].append(found["words"][0]), "features.json", '"words" must be a list of texts, each once'),
    features("no tags", lambda found: found.update(pos=[]), "features.json", '"pos" must be a list of texts'),
    features("a word more", lambda found: found["words"].append("one more"), "model.safetensors", "does not belong", "encoder.embeddings.words.known"),
    features("a character less", lambda found: found["characters"].pop(), "model.safetensors", "does not belong", "encoder.embeddings.characters.table.weight"),
    features("a tag more", lambda found: found["pos"].append("one more"), "model.safetensors", "does not belong", "encoder.embeddings.pos.weight"),
    features("another width", lambda found: found.update(word_width=8), "model.safetensors", "does not belong", "7], and [", "8] by it"),
    *(features(f"width is {width}", lambda found, width=width: found.update(word_width=width), "features.json", '"word_width" must be a whole number') for width in (0, -1, True, 1.5, "7", None, [7])),
    *(features(f"width is {str(width)[:9]}", lambda found, width=width: found.update(word_width=width), "error: ") for width in (HUGE, 10**30)),
    other_options("learned, says the config", {"word_vectors": "learned:7"}, "does not belong to config.json", "encoder.embeddings.words.weight"),
    other_options("learned of any width", {"word_vectors": f"learned:{HUGE}"}, "config.json", "encoder.word_vectors"),
    other_options("no words, says the config", {"word_vectors": ""}, "does not belong to config.json", "in excess"),
    other_options("other tags", {"pos": 9}, "does not belong to config.json", "encoder.embeddings.pos.weight"),
    other_options("characters of any width", {"char_lstm": HUGE}, "error: "),
    other_options("characters of odd width", {"char_lstm": 7}, "config.json", "encoder.char_lstm 7"),
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good model folder, to be spoilt."""
    shutil.copytree(engine.model_folder(), tmp_path / "model")
    (tmp_path / "a.txt").write_text(engine.TEXT)
    return tmp_path / "model"


@pytest.fixture(scope="module")
def with_features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good model folder with all features. Not to be changed."""
    options = {"word_vectors": str(engine.vectors()), "char_lstm": 6, "pos": 4}
    folder = tmp_path_factory.mktemp("features")
    engine.untrained(folder, "bert", **options)
    return folder


def predict(folder: Path) -> int:
    return main(["predict", str(folder), str(folder.parent / "a.txt")])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bad_model_folder_is_refused_in_one_clear_line(
    case: Case, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    is_refused(case, folder, capfd)


@pytest.mark.parametrize("case", FEATURE_CASES, ids=lambda case: case.name)
def test_bad_features_are_refused_in_one_clear_line(
    case: Case, with_features: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(with_features, tmp_path / "model")
    (tmp_path / "a.txt").write_text(engine.TEXT)
    is_refused(case, tmp_path / "model", capfd)


def is_refused(case: Case, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    case.spoil(folder)
    before = sorted(folder.parent.rglob("*"))
    capfd.readouterr()
    began = time.process_time()

    code = predict(folder)

    out, err = capfd.readouterr()
    assert code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    assert "\x1b" not in err
    assert len(err) < 600
    for said in case.says:
        assert said in err
    assert sorted(folder.parent.rglob("*")) == before  # nothing was run or written
    assert time.process_time() - began < 5


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 20
    assert len({case.name for case in CASES}) == len(CASES)


PROCESSES = ("weights cut to 0.5", "weights are a pickle", "hidden_size is 40000000", "tokenizer cut short")


@pytest.mark.parametrize("case", [case for case in CASES if case.name in PROCESSES], ids=lambda case: case.name)
def test_a_bad_model_folder_as_a_user_sees_it(case: Case, folder: Path, spanloom: Run) -> None:
    case.spoil(folder)
    refused = spanloom("predict", folder, folder.parent / "a.txt")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1, refused.stderr
    for said in case.says:
        assert said in refused.stderr
    assert not list(folder.glob(MARK))


def test_what_is_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("knee")
    for name in ("a.txt", "nowhere", "", "\0"):
        assert main(["predict", str(tmp_path / name) if name != "\0" else name, str(tmp_path / "a.txt")]) == 2
        out, err = capfd.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("error: ")


CODE = f"import os\nos.mkdir({MARK!r})\n"


def features_beside(folder: Path) -> None:
    (folder / "features.json").write_text("[" * 100_000)


def local_code(folder: Path) -> None:
    """Code beside the weights, and every way to ask for it."""
    for file in ("modeling.py", "configuration.py", "tokenization.py"):
        (folder / file).write_text(CODE)
    auto = {"AutoConfig": "configuration.C", "AutoModel": "modeling.M", "AutoTokenizer": ["tokenization.T", None]}
    for file in ("config.json", "tokenizer_config.json"):
        found = json.loads((folder / file).read_text())
        found["auto_map"] = auto
        if "language_model" in found:
            found["language_model"] |= {"auto_map": auto, "attn_implementation": "someone/kernel", "backbone": "x"}
            found["language_model"]["_attn_implementation"] = "someone/kernel"
        else:
            found["tokenizer_class"] = "tokenization.T"
        (folder / file).write_text(json.dumps(found))


def index(folder: Path) -> None:
    shards = dict.fromkeys(load_file(folder / "model.safetensors"), "../../../etc/passwd")
    text = json.dumps({"metadata": {}, "weight_map": shards})
    (folder / "model.safetensors.index.json").write_text(text)


def paths_in_tokenizer_config(folder: Path) -> None:
    found = json.loads((folder / "tokenizer_config.json").read_text())
    places = ("vocab_file", "tokenizer_file", "merges_file", "name_or_path", "gguf_file", "special_tokens_map_file")
    found |= dict.fromkeys(places, "/etc/passwd") | {
        "tokenizer_class": "BertJapaneseTokenizer",
        "extra_special_tokens": 3,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(found))


def pickles_beside(folder: Path) -> None:
    for file in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "adapter_model.bin"):
        (folder / file).write_bytes(pickle.dumps(Payload(folder)))
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')


def link_inside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights")
    (folder / "model.safetensors").symlink_to("weights")


@pytest.mark.parametrize(
    "add",
    [local_code, features_beside, index, paths_in_tokenizer_config, pickles_beside, link_inside],
    ids=lambda add: add.__name__,
)
def test_what_else_a_folder_holds_is_neither_run_nor_read(
    add: Callable[[Path], object], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = spanloom.load(folder, precision="fp32")(engine.TEXT)
    monkeypatch.chdir(folder)
    add(folder)
    before = sorted(folder.rglob("*"))
    capfd.readouterr()
    assert spanloom.load(folder, precision="fp32")(engine.TEXT) == expected
    assert sorted(folder.rglob("*")) == before
    assert capfd.readouterr().err == ""


def test_a_snapshot_in_the_cache_of_the_hub_is_made_of_links(folder: Path) -> None:
    home = folder.parent / "models--somebody--ner"
    snapshot = home / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (home / "blobs").mkdir()
    for number, file in enumerate(file for file in folder.iterdir() if file.is_file()):
        file.rename(home / "blobs" / str(number))
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert spanloom.load(snapshot)(engine.TEXT).text == engine.TEXT
    (folder.parent / "latest").symlink_to(snapshot)
    assert spanloom.load(folder.parent / "latest")(engine.TEXT).text == engine.TEXT
