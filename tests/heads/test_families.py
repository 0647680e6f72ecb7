"""What holds for every family of heads, whatever it is: they are all asked the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import spanloom
from spanloom.document import Entity
from spanloom.heads import MODULES, family_of
from spanloom.model import load_model
from spanloom.options import make
from spanloom.predictor import Recogniser
from spanloom.runs import resolve
from spanloom.segment import Segmenter
from spanloom.training import read_split, score
from tests import engine

SMALL: dict[str, dict[str, Any]] = {"span": {"max_length": 4}, "diffusion": {"threshold": 0.0}}
"""Options that keep a family small, where its defaults are large, or let an untrained one find something."""

LEARNS: dict[str, dict[str, Any]] = {
    "span": {"negatives": 30},
    "w2ner": {"dropout": 0.0, "channel_dropout": 0.0},
    "locate-label": {"dropout": 0.0},
    "diffusion": {"dropout": 0.0, "train_spans": 8, "draws": 4, "layers": 1},
}
WIDER: dict[str, dict[str, Any]] = {"diffusion": {"lstm": 256, "lstm_layers": 1}}
"""A head that is as wide as its words wants more than the tiny language model's 32."""
HEAD_LR = {"w2ner": 5e-3, "locate-label": 1e-2, "diffusion": 1e-3}
"""Deeper heads learn at lower rates; the others at 3e-2."""
EPOCHS = {"locate-label": 80, "diffusion": 60}
"""Heads that draw few examples want more visits; the others 40."""

TEXTS = [engine.TEXT, "IL-2 . Nothing else", "Zoë!", *(document.text for document in engine.documents()[:6])]

every_family = pytest.mark.parametrize("family", MODULES)


def found(ner: Recogniser, texts: list[str]) -> list[list[tuple[Entity, float | None]]]:
    return [[(entity, entity.score) for entity in document.entities] for document in ner.pipe(texts)]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@every_family
def test_what_was_saved_predicts_what_the_original_does(family: str, tmp_path: Path) -> None:
    made = engine.untrained(tmp_path, "bert", SMALL.get(family), family)
    ner = spanloom.load(tmp_path, precision="fp32")
    original = Recogniser(made, ner.pieces, Segmenter(), "fp32")
    expected = found(original, TEXTS)
    assert sum(map(len, expected)) > 10
    assert found(ner, TEXTS) == expected
    again, _ = load_model(tmp_path)
    options = family_of(family).options
    assert make("head", options, again.config.head_options) == make("head", options, made.config.head_options)


@every_family
def test_what_shares_the_batch_changes_no_decision(family: str, tmp_path: Path) -> None:
    engine.untrained(tmp_path, "roberta", SMALL.get(family), family)
    alone, together = (spanloom.load(tmp_path, precision="fp32", batch_words=words) for words in (1, 100_000))
    texts = [*TEXTS, " ".join(TEXTS)]
    for one, other in zip(found(alone, texts), found(together, texts), strict=True):
        assert [entity for entity, _ in one] == [entity for entity, _ in other]
        assert [s for _, s in one] == pytest.approx([s for _, s in other], abs=1e-4)


@every_family
def test_scores_are_probabilities(family: str, tmp_path: Path) -> None:
    engine.untrained(tmp_path, "bert", SMALL.get(family), family)
    for document in found(spanloom.load(tmp_path, precision="fp32"), TEXTS):
        assert all(score is not None and 0 <= score <= 1 for _, score in document)


@every_family
def test_it_learns_twenty_sentences(family: str, tmp_path: Path) -> None:
    visits = {"epochs": EPOCHS.get(family, 40), "head_lr": HEAD_LR.get(family, 3e-2)}
    engine.trained(tmp_path, WIDER.get(family), LEARNS.get(family), engine.only_train(), family, limit=20, **visits)
    gold = read_split(str(engine.only_train()), "train", Segmenter())
    assert gold is not None
    assert score(spanloom.load(tmp_path, precision="fp32"), gold[:20]).micro.f1 > 95


@every_family
def test_its_presets_are_whole(family: str) -> None:
    found = family_of(family)
    assert found.presets
    for preset in found.presets:
        assert resolve("sample:flat", family, preset, []).preset == preset
