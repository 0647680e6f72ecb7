"""The README of a model: what it tells, and what it keeps to itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from spanloom.checkpoint import Progress
from spanloom.modelcard import model_card
from spanloom.runs import resolve


def card(corpus: Path, types: list[str], **encoder: Any) -> str:
    run = resolve(str(corpus), "tagger", None, [{"encoder": encoder}])
    config = SimpleNamespace(types=types, versions={"torch": "2"})
    scheme = SimpleNamespace(shapes={"flat"})
    model: Any = SimpleNamespace(config=config, scheme=scheme, parameters=lambda: [torch.zeros(2)])
    return model_card(run, model, Progress())


def test_no_path_of_the_machine_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret" / "bert").mkdir(parents=True)
    files = {"name": str(tmp_path / "secret" / "bert"), "word_vectors": str(tmp_path / "secret" / "glove.txt")}
    told = card(tmp_path / "secret" / "corpus", ["X"], **files)
    assert "secret" not in told
    assert "# tagger on corpus\n" in told
    assert "    spanloom train corpus --head tagger --encoder bert --set " in told
    assert "encoder.word_vectors=glove.txt" in told
    assert "Encoder: `bert` (" in told
    assert "--encoder some/model --set" in card(tmp_path, ["X"], name="some/model")


def test_no_type_breaks_a_line_or_the_markdown(tmp_path: Path) -> None:
    told = card(tmp_path, ["Drug", "Name of a place", "a\nb", "c`d", "北京"])
    assert 'of 5 types: Drug, Name of a place, "a\\nb", "c\\`d", 北京.\n' in told


def test_what_needs_tags_is_not_shown_with_raw_text(tmp_path: Path) -> None:
    assert "ner(" in card(tmp_path, ["X"])
    told = card(tmp_path, ["X"], pos=8)
    assert "ner(" not in told
    assert '"pos"' in told
