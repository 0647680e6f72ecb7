"""Runs: how options come together, and how a folder tells what was decided."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from spanloom.errors import InputError
from spanloom.runs import CURVE, RUN, STATE, is_finished, read_run, resolve, save_run


def test_what_is_given_beats_the_preset_and_the_preset_the_defaults() -> None:
    plain = resolve("sample:flat", "tagger", None, [])
    preset = resolve("sample:flat", "tagger", "conllpp", [])
    given = resolve("sample:flat", "tagger", "conllpp", [{"training": {"epochs": "3"}}, {"training": {"epochs": "2"}}])
    assert (plain.training.epochs, preset.training.epochs, given.training.epochs) == (5, 20, 2)
    assert plain.encoder.name == "minilm"
    assert preset.encoder.name == given.encoder.name == "bert-large-cased"
    assert given.training.batch == preset.training.batch == 32


def test_a_file_is_a_preset_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[head]\ncrf = true\n[training]\nbatch = 7\n")
    run = resolve("sample:flat", "tagger", str(file), [{"training": {"batch": 8}}])
    assert run.head_options.crf
    assert run.training.batch == 8


def test_the_learning_rate_comes_with_the_encoder() -> None:
    def rate(name: str, **training: object) -> float:
        return resolve("sample:flat", "tagger", None, [{"encoder": {"name": name}, "training": training}]).encoder_lr()

    assert rate("minilm") == 1e-4
    assert rate("mpnet") == 5e-5
    assert rate("bert-base-cased") == 5e-5
    assert rate("minilm", encoder_lr="3e-5") == 3e-5
    assert rate("minilm", encoder_lr="0") == 0


@pytest.mark.parametrize(
    ("head", "preset", "given", "says"),
    [
        ("taggr", None, {}, "'taggr' is no head; did you mean tagger?"),
        ("../../x", None, {}, "is no head"),
        ("os.system", None, {}, "is no head"),
        ("tagger", "conllp", {}, "tagger has no such preset; did you mean conll"),
        ("tagger", "no.toml", {}, "no.toml: there is no such file"),
        ("tagger", None, {"head": {"crff": "true"}}, "did you mean head.crf?"),
        ("tagger", None, {"encoder": {"lstm": "7"}}, "encoder.lstm 7"),
    ],
)
def test_what_cannot_be_a_run(head: str, preset: str | None, given: dict[str, dict[str, str]], says: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve("sample:flat", head, preset, [given])
    assert says in str(refused.value)


def test_a_run_comes_back_from_its_folder(tmp_path: Path) -> None:
    run = resolve("sample:flat", "tagger", "conllpp", [{"head": {"crf": "true"}, "training": {"encoder_lr": "none"}}])
    save_run(run, tmp_path)
    back = read_run(tmp_path)
    assert asdict(back) == {**asdict(run), "preset": None}  # a preset has become options


def test_paths_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "minilm").mkdir()
    monkeypatch.chdir(tmp_path)

    def name(given: str) -> str:
        return resolve("corpus", "tagger", None, [{"encoder": {"name": given}}]).encoder.name

    assert resolve("corpus", "tagger", None, []).corpus == str(tmp_path / "corpus")
    assert name("encoder") == name("./encoder") == str(tmp_path / "encoder")
    assert name("minilm") == "minilm"
    assert name("./minilm") == str(tmp_path / "minilm")
    assert name("bert-base-cased") == "bert-base-cased"


def test_a_file_of_word_vectors_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def vectors(given: str) -> str:
        return resolve("corpus", "tagger", None, [{"encoder": {"word_vectors": given}}]).encoder.word_vectors

    assert vectors("glove.txt") == vectors("./glove.txt") == str(tmp_path / "glove.txt")
    assert vectors("./learned:7") == str(tmp_path / "learned:7")
    assert vectors("learned:7") == "learned:7"
    assert vectors("") == ""


GOOD = {"corpus": "sample:flat", "head": "tagger", "preset": None, "options": {}}


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", "3", "null", "[" * 100_000, "{}"),
        *(json.dumps({**GOOD, **change}) for change in ({"corpus": 3}, {"head": 3}, {"head": []}, {"options": None})),
        *(json.dumps({**GOOD, "options": options}) for options in ([], {"head": 3}, {"heads": {"crf": True}})),
        *(json.dumps({**GOOD, "options": {"head": head}}) for head in ({"x": 1}, {"crf": "maybe"})),
        json.dumps({**GOOD, "head": "../x"}),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / RUN).write_text(content)
    with pytest.raises(InputError) as refused:
        read_run(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run to resume"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="holds no run to resume"):
        read_run(tmp_path / "nowhere")


def test_a_run_is_finished_when_it_has_a_curve_and_no_state(tmp_path: Path) -> None:
    assert not is_finished(tmp_path)
    (tmp_path / CURVE).parent.mkdir()
    (tmp_path / CURVE).touch()
    assert is_finished(tmp_path)
    for name in (STATE, STATE.with_name("state.old")):
        (tmp_path / name).mkdir()
        assert not is_finished(tmp_path)
        (tmp_path / name).rmdir()
    (tmp_path / STATE.with_name("state.new")).mkdir()  # what is left of a state being written or taken away
    assert is_finished(tmp_path)
