"""`spanloom sweep`, as a user runs it: each setting scores as it would alone, and the encoder runs once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import spanloom as package
from spanloom import formats
from spanloom.cli import main
from spanloom.errors import Tally
from spanloom.sweeping import Setting, Sweep
from tests import engine
from tests.conftest import Run

TEST = engine.corpus() / "test.jsonl"


def swept(capsys: pytest.CaptureFixture[str], *over: str) -> list[dict[str, Any]]:
    arguments = [part for each in over for part in ("--over", each)]
    folder = engine.model_folder()
    assert main(["sweep", str(folder), str(TEST), *arguments, "--precision", "fp32", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_setting_scores_as_it_would_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = swept(capsys, "head.legal=true,false", "threshold=0,0.6,1")
    assert [line["options"] for line in found] == [
        {"head.legal": legal, "threshold": threshold} for legal in ("true", "false") for threshold in ("0", "0.6", "1")
    ]
    for legal, line in (("true", found[0]), ("false", found[3])):
        command = ["evaluate", str(engine.model_folder()), str(TEST), "--set", f"head.legal={legal}"]
        assert main([*command, "--precision", "fp32", "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        for part in ("micro", "macro", "types", "shapes", "sentences", "lost"):
            assert line[part] == alone[part]
    counts = [line["micro"]["predicted"] for line in found[:3]]
    assert counts[0] > counts[1] > counts[2]


def test_what_is_set_holds_in_every_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Setting] = []
    monkeypatch.setattr("spanloom.sweeping.Sweep.read", lambda sweep, *_: made.extend(sweep.settings) or [])
    command = ["sweep", str(engine.model_folder()), str(TEST), "--set", "head.legal=true"]
    assert main([*command, "--over", "threshold=0,0.5", "--json"]) == 0
    assert [setting.options for setting in made] == [{"legal": "true"}] * 2
    capsys.readouterr()


def test_the_encoder_reads_each_sentence_once() -> None:
    ner = package.load(engine.model_folder(), precision="fp32")
    rows = []
    ner.model.encoder.register_forward_pre_hook(lambda _, arguments: rows.append(len(arguments[0].mask)))
    settings = [Setting({"legal": legal}, threshold) for legal in (True, False) for threshold in (0.0, 0.5)]
    documents = list(engine.documents("test"))
    sweep = Sweep(ner, settings)
    read = list(sweep.read(formats.read(TEST, Tally())))
    assert [document.text for document in read] == [document.text for document in documents]
    assert sum(rows) == sum(len(document.words or ()) for document in documents)
    assert torch.is_inference_mode_enabled() is False


def test_the_table_is_for_people(spanloom: Run) -> None:
    ran = spanloom("sweep", engine.model_folder(), TEST, "--over", "threshold=0,0.99")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0].split() == ["threshold", "precision", "recall", "F1", "predicted", "head", "s"]
    assert "once for all" in ran.stdout


@pytest.mark.parametrize(
    ("over", "says"),
    [
        (["threshold"], "head.option=value,value,... or threshold=value,... is expected"),
        (["threshold="], "is expected"),
        (["threshold=0,,1"], "is expected"),
        (["threshold=2"], "a probability from 0 to 1 is expected"),
        (["threshold=x"], "a probability from 0 to 1 is expected"),
        (["training.epochs=1,2"], "is expected"),
        (["head.legal=true", "head.legal=false"], "names head.legal twice"),
        (["head.crf=true,false"], "head.crf was fixed in training"),
        (["head.leegal=true"], "did you mean head.legal?"),
        (["head.legal=perhaps"], "true or false is expected"),
        (["threshold=" + ",".join(f"0.{n}" for n in range(1, 1200))], "settings; 1,000 is the most"),
    ],
    ids=str,
)
def test_what_cannot_be_swept(over: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [part for each in over for part in ("--over", each)]
    assert main(["sweep", str(engine.model_folder()), str(TEST), *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


def test_a_model_that_is_none_and_a_file_that_is_none(spanloom: Run, tmp_path: Path) -> None:
    for folder, file in ((tmp_path, TEST), (engine.model_folder(), tmp_path / "none.jsonl")):
        ran = spanloom("sweep", folder, file, "--over", "threshold=0")
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
