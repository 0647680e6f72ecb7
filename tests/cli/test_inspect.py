"""`spanloom inspect`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run


def corpus(folder: Path) -> None:
    sentence = {"tokens": ["left", "knee", "pain"], "entities": [{"type": "Finding", "indices": [0, 1, 2]}]}
    other = {"tokens": ["left", "knee", "pain"], "entities": [{"type": "Anatomy", "indices": [0, 1]}]}
    gap = {"tokens": ["joint", "and", "muscle", "pain"], "entities": [{"type": "Finding", "indices": [0, 3]}]}
    nothing = {"tokens": ["well", "."]}
    for split, records in {"train": [sentence, other, nothing], "test": [sentence, gap]}.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_json_has_what_scripts_rely_on(spanloom: Run, tmp_path: Path) -> None:
    corpus(tmp_path)
    ran = spanloom("inspect", ".", "--json")
    assert ran.returncode == 0, ran.stderr
    splits = json.loads(ran.stdout)["splits"]
    assert list(splits) == ["train", "test"]
    train, test = splits["train"], splits["test"]
    assert (train["sentences"], train["entities"], train["types"]) == (3, 2, {"Anatomy": 1, "Finding": 1})
    assert train["duplicates"] == {"within": 1, "with_other_entities": 1}
    assert train["sentences_without_entities"] == 1
    assert test["duplicates"] == {"within": 0, "with_other_entities": 0, "also_in_train": 1}
    assert test["shapes"] == {"flat": 1, "nested": 0, "overlapping": 0, "discontinuous": 1}
    assert test["names"] == {"distinct": 2, "also_in_train": 1}
    assert test["entity_lengths"] == {"mean": 2.5, "median": 2, "p99": 3, "max": 3}
    assert "heads" in test


def test_the_table_names_what_to_look_at(spanloom: Run, tmp_path: Path) -> None:
    corpus(tmp_path)
    ran = spanloom("inspect", ".", "--examples", "1")
    assert ran.returncode == 0, ran.stderr
    assert "(discontinuous)" in ran.stdout
    assert "test: 1 of 2 sentences (50.0 %) also stand in train" in ran.stdout
    assert "train: 1 sentences stand there before, with other entities" in ran.stdout
    assert "joint and muscle pain" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_what_is_off_the_word_borders_is_told(spanloom: Run, tmp_path: Path) -> None:
    record = {"text": "unhappy man", "entities": [{"type": "Mood", "fragments": [[2, 7]]}]}
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    ran = spanloom("inspect", "in.jsonl")
    assert "train: lost or changed: 1 entities off the word borders: un[happy]" in ran.stdout
    figures = json.loads(spanloom("inspect", "in.jsonl", "--json").stdout)["splits"]["train"]
    assert (figures["entities"], figures["lost"]) == (1, {"entities off the word borders": 1})


@pytest.mark.parametrize("name", ["flat", "nested", "mixed"])
def test_samples_come_with_the_package(name: str, spanloom: Run) -> None:
    splits = json.loads(spanloom("inspect", f"sample:{name}", "--json").stdout)["splits"]
    assert list(splits) == ["train", "dev", "test"]
    assert splits["test"]["names"]["also_in_train"] == 0


COUNTS = {
    "wnut17": [(3394, 1975), (1009, 836), (1287, 1079)],
    "genia": [(8472, 27740), (1669, 4337), (1854, 5474)],
    "craft": [(18814, 60250), (2769, 9710), (8996, 29529)],
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_real_corpora(name: str, corpora: Path, spanloom: Run) -> None:
    splits = json.loads(spanloom("inspect", corpora / name, "--json").stdout)["splits"]
    assert [(split["sentences"], split["entities"]) for split in splits.values()] == COUNTS[name]
    assert sum(splits["train"]["shapes"].values()) == splits["train"]["entities"]
