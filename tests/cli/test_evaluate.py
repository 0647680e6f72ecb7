"""`spanloom evaluate GOLD PRED`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spanloom.cli import main
from spanloom.document import Mention
from spanloom.errors import Tally
from spanloom.heads.base import Scores
from spanloom.heads.tagger import TaggerScheme
from tests import engine
from tests.conftest import Run

GOLD = [
    {
        "tokens": ["left", "knee", "pain", "and", "swelling"],
        "entities": [
            {"type": "Finding", "indices": [0, 1, 2]},
            {"type": "Anatomy", "indices": [0, 1]},
            {"type": "Finding", "indices": [0, 1, 4]},
        ],
    },
    {"tokens": ["no", "fever"], "entities": [{"type": "Finding", "indices": [1]}]},
]


def lines(path: Path, records: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path.name


def test_json_has_what_scripts_rely_on(spanloom: Run, tmp_path: Path) -> None:
    predicted = [
        {**GOLD[0], "entities": [GOLD[0]["entities"][2], GOLD[0]["entities"][0], {"type": "Drug", "indices": [3]}]},  # type: ignore[index]
        {**GOLD[1], "entities": []},
    ]
    ran = spanloom("evaluate", lines(tmp_path / "g.jsonl", GOLD), lines(tmp_path / "p.jsonl", predicted), "--json")
    assert ran.returncode == 0, ran.stderr
    scores = json.loads(ran.stdout)
    assert {"micro", "macro", "types", "shapes", "lost", "sentences", "seconds"} <= scores.keys()
    micro = scores["micro"]
    assert (micro["gold"], micro["predicted"], micro["correct"]) == (4, 3, 2)
    assert round(micro["precision"], 2) == 66.67
    assert micro["recall"] == 50
    assert scores["types"]["Drug"]["predicted"] == 1
    assert scores["shapes"]["discontinuous"]["recall"] == 100
    assert scores["sentences"] == 2


def test_the_table_says_the_same(spanloom: Run, tmp_path: Path) -> None:
    name = lines(tmp_path / "g.jsonl", GOLD)
    ran = spanloom("evaluate", name, name)
    assert ran.returncode == 0
    assert "micro" in ran.stdout
    assert "100.00" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_files_of_different_formats_and_cuts_are_compared_by_their_text(spanloom: Run, tmp_path: Path) -> None:
    """Gold as words, predictions as running text with other blanks, cut at other places."""
    text = "left knee  pain and\nswelling no"
    found = [{"type": "Finding", "fragments": [[0, 9], [20, 28]]}]
    predicted = [
        {"text": text, "entities": found},
        {"text": " fever", "entities": [{"type": "Finding", "fragments": [[1, 6]]}]},
    ]
    ran = spanloom("evaluate", lines(tmp_path / "g.jsonl", GOLD), lines(tmp_path / "p.jsonl", predicted), "--json")
    assert ran.returncode == 0, ran.stderr
    micro = json.loads(ran.stdout)["micro"]
    assert (micro["gold"], micro["predicted"], micro["correct"]) == (4, 2, 2)


def test_what_decoding_leaves_out_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    decode = TaggerScheme.decode

    def losing(scheme: TaggerScheme, scores: Scores, lost: Tally) -> list[list[Mention]]:
        lost.add("sentences cut short")
        return decode(scheme, scores, lost)

    monkeypatch.setattr(TaggerScheme, "decode", losing)
    assert main(["evaluate", str(engine.model_folder()), str(engine.corpus() / "test.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lost"]["sentences cut short"] > 0
