"""Options of decoding that are chosen on dev: the best is found, told, saved, and none where somebody has decided."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import spanloom
from spanloom.cli import main
from spanloom.heads.diffusion import THRESHOLDS
from spanloom.segment import Segmenter
from spanloom.training import Trainer, read_split, score
from spanloom.tuning import middle, open_options, score_all
from tests import engine

HEAD = {"dropout": 0.0, "layers": 0, "spans": 12, "train_spans": 8, "draws": 4, "steps": 2}
ENCODER = {"lstm": 128, "lstm_layers": 1}
EPOCHS = 10


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def diffusion(folder: Path, head: dict[str, Any] | None = None, **further: Any) -> Any:
    return engine.trained(folder, ENCODER, {**HEAD, **(head or {})}, family="diffusion", head_lr=3e-3, **further)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "run"
    diffusion(folder, epochs=EPOCHS)
    return folder


def head_options(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())["head_options"]
    return found


def test_the_best_threshold_on_dev_is_in_the_folder(trained: Path) -> None:
    curve = [json.loads(line) for line in (trained / "training" / "curve.jsonl").read_text().splitlines()]
    best = max(curve, key=lambda line: line["dev"]["f1"])
    chosen = head_options(trained)["threshold"]
    assert best["chosen"] == {"threshold": chosen}
    assert best["dev"]["f1"] > 0
    assert f"`head.threshold={chosen:g}` gave the best of these scores on dev" in (trained / "README.md").read_text()
    dev = read_split(str(engine.corpus()), "dev", Segmenter()) or []
    scores = {}
    for value in THRESHOLDS:
        ner = spanloom.load(trained, precision="fp32", options={"threshold": value})
        scores[value] = score(ner, dev).micro.f1
    assert scores[chosen] == max(scores.values()) == pytest.approx(best["dev"]["f1"])
    assert score(spanloom.load(trained, precision="fp32"), dev).micro.f1 == scores[chosen]
    equal = [value for value in THRESHOLDS if scores[value] == scores[chosen]]
    assert chosen == equal[len(equal) // 2]


def test_the_run_itself_says_that_nobody_has_decided(trained: Path) -> None:
    run = json.loads((trained / "training" / "run.json").read_text())
    assert run["options"]["head"]["threshold"] is None


def test_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diffusion(tmp_path / "a", epochs=1, limit=8)
    assert "(head.threshold=0." in capsys.readouterr().err
    diffusion(tmp_path / "b", of=engine.only_train(), epochs=1, limit=8)
    assert "no dev split to choose by: head.threshold=0.6" in capsys.readouterr().err
    assert head_options(tmp_path / "b")["threshold"] == 0.6


def test_what_somebody_has_decided_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diffusion(tmp_path / "run", {"threshold": 0.4}, epochs=1, limit=8)
    assert "head.threshold" not in capsys.readouterr().err
    assert head_options(tmp_path / "run")["threshold"] == 0.4
    assert "chosen" not in (tmp_path / "run" / "training" / "curve.jsonl").read_text()


def test_what_is_open() -> None:
    run = engine.run_of(head=HEAD, family="diffusion")
    assert open_options("diffusion", asdict(run.head_options)) == {"threshold": THRESHOLDS}
    assert open_options("tagger", asdict(engine.run_of().head_options)) == {}
    assert middle({"a": (1.0, 2.0, 3.0), "b": (4.0,)}) == {"a": 2.0, "b": 4.0}


def test_encoder_and_head_run_once(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ner = spanloom.load(trained, precision="fp32")
    dev = read_split(str(engine.corpus()), "dev", Segmenter()) or []
    read: list[str] = []
    for part in ("encoder", "head"):
        module = getattr(ner.model, part)
        name = "forward" if part == "encoder" else "scores"
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda of, part=part, real=real: read.append(part) or real(of))
    score_all([ner], [{"threshold": THRESHOLDS}], dev)
    assert read == ["encoder", "head"] * len(list(ner.batches(dev)))


def test_a_resumed_run_ends_with_the_same_weights_and_threshold(trained: Path, tmp_path: Path) -> None:
    run = engine.run_of(ENCODER, HEAD, family="diffusion", epochs=EPOCHS, head_lr=3e-3)
    trainer = Trainer(run, tmp_path / "run", resume=False)
    seen = []
    for epoch in range(3):
        record = trainer._epoch(epoch)
        seen.append(trainer.bare.head.progress)
        trainer.progress.epoch += 1
        trainer._close_epoch(record)
    assert seen == [(trainer.steps * epoch // EPOCHS - 1) / trainer.steps for epoch in (1, 2, 3)]
    diffusion(tmp_path / "run", epochs=EPOCHS, resume=True)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (trained / name).read_bytes()


def test_steps_and_spans_are_swept_with_the_encoder_run_once(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = str(engine.corpus() / "dev.jsonl")
    over = ["--over", "head.steps=1,2", "--over", "head.spans=3,12", "--precision", "fp32"]
    assert main(["sweep", str(trained), dev, *over, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["options"] for line in lines] == [
        {"head.steps": steps, "head.spans": spans} for steps in "12" for spans in ("3", "12")
    ]
    for line in lines:
        sets = [part for name, value in line["options"].items() for part in ("--set", f"{name}={value}")]
        assert main(["evaluate", str(trained), dev, "--json", "--precision", "fp32", *sets]) == 0
        assert json.loads(capsys.readouterr().out)["micro"] == line["micro"]
    assert lines[0]["micro"]["predicted"] < lines[1]["micro"]["predicted"]
