"""A head from outside the package goes the whole way through the house, and nothing else is touched.

It comes as an installed package does: its file, and an entry point that names it.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests import engine
from tests.conftest import Run
from tests.heads import foreign


@pytest.fixture
def installed(spanloom: Run, tmp_path: Path) -> Run:
    """The command line on a machine that has the foreign package."""
    site = tmp_path / "site"
    (site / "words_head-1.0.dist-info").mkdir(parents=True)
    shutil.copyfile(foreign.__file__, site / "words_head.py")
    (site / "words_head-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: words-head\nVersion: 1.0\n"
    )
    entry = "[spanloom.heads]\nword = words_head:FAMILY\n"
    (site / "words_head-1.0.dist-info" / "entry_points.txt").write_text(entry)
    return partial(spanloom, PYTHONPATH=str(site), OMP_NUM_THREADS="1")


def test_a_foreign_head_trains_saves_loads_predicts_and_inspects(installed: Run, tmp_path: Path) -> None:
    corpus, encoder = engine.only_train(), engine.encoder()
    gold = corpus / "train.jsonl"
    made = installed(
        *("train", corpus, "--head", "word", "--encoder", encoder, "--epochs", "30", "--limit", "20", "--out", "run"),
        *("--set", "head.hidden=8", "--set", "training.encoder_lr=3e-3", "--set", "training.head_lr=1e-2"),
        *("--set", "training.batch=4", "--set", "encoder.dropout=0", "--precision", "fp32"),
    )
    assert made.returncode == 0, made.stderr
    assert "of the gold cannot be learned by this head" in made.stderr
    assert "entities of several words" in made.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["head"], config["head_options"]) == ("word", {"hidden": 8, "bias": 0.0})

    scored = installed("evaluate", "run", gold, "--json")
    assert scored.returncode == 0, scored.stderr
    micro = json.loads(scored.stdout)["micro"]
    print(made.stderr, scored.stdout)
    assert micro["correct"] > 0

    (tmp_path / "text.txt").write_text(engine.TEXT)
    predicted = installed("predict", "run", "text.txt")
    assert json.loads(predicted.stdout)["text"] == engine.TEXT
    silent = installed("predict", "run", "text.txt", "--set", "head.bias=1000")
    assert json.loads(silent.stdout)["entities"] == []

    swept = installed("sweep", "run", gold, "--over", "head.bias=0,1000", "--json")
    by_bias = [json.loads(line)["micro"] for line in swept.stdout.splitlines()]
    assert by_bias[0] == micro
    assert by_bias[1]["predicted"] == 0

    inspected = json.loads(installed("inspect", corpus, "--json").stdout)["splits"]["train"]
    heads = inspected["heads"]
    assert {"tagger", "span", "word"} <= heads.keys()
    assert 0 < heads["word"]["recall"] < heads["tagger"]["recall"]
    several = sum(len(entity.text.split()) > 1 for document in engine.documents() for entity in document.entities)
    assert heads["word"]["lost"] == {"entities of several words": several}

    listed = installed("train", "--head", "word", "--options")
    assert "head.hidden=16" in listed.stdout
    assert "presets of word: small" in listed.stdout


def test_a_foreign_head_takes_part_in_experiments(installed: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(
        f"""
corpora = ["{engine.corpus()}"]
baseline = "tagger"
[options]
encoder = {{ name = "{engine.encoder()}" }}
training = {{ epochs = 1, limit = 12 }}
[systems.tagger]
head = "tagger"
[systems.word]
head = "word"
"""
    )
    ran = installed("experiment", "plan.toml", "--out", "out")
    assert ran.returncode == 0, ran.stderr
    assert "| corpus | word | 1 |" in ran.stdout


def test_a_foreign_head_bundles(installed: Run, tmp_path: Path) -> None:
    made = installed(
        *("train", engine.corpus(), "--encoder", engine.encoder(), "--epochs", "1", "--limit", "8", "--out", "run"),
        *("--head", "span", "--bundle", "word", "--set", "partner.hidden=8"),
    )
    assert made.returncode == 0, made.stderr
    assert "of the gold cannot be learned by word: " in made.stderr
    scored = installed("evaluate", "run", engine.corpus() / "test.jsonl", "--decode", "word", "--json")
    assert scored.returncode == 0, scored.stderr
    config = json.loads((tmp_path / "run" / "outputs" / "word" / "config.json").read_text())
    assert (config["head"], config["head_options"]["hidden"]) == ("word", 8)


def test_without_its_package_the_head_is_refused_by_name(spanloom: Run, installed: Run) -> None:
    arguments = (
        "train",
        engine.corpus(),
        "--head",
        "word",
        "--encoder",
        engine.encoder(),
        "--epochs",
        "1",
        "--limit",
        "4",
    )
    assert installed(*arguments, "--out", "run").returncode == 0
    for command in ((*arguments, "--out", "other"), ("predict", "run", "-")):
        refused = spanloom(*command)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "'word' is no head" in refused.stderr
