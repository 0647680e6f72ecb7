"""A model and its folder: what was saved is what is loaded, and prediction is the same however it is batched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import spanloom
from spanloom.document import Document, Entity
from spanloom.encoder.language_models import load, position_limit
from spanloom.encoder.pieces import Pieces
from spanloom.errors import InputError
from spanloom.model import SpanloomModel, load_model
from spanloom.predictor import LOOKAHEAD, Recogniser
from spanloom.segment import Segmenter
from tests import engine
from tests.encoder import tiny

TEXTS = [
    engine.TEXT,
    "IL-2 . Nothing else",
    "北京 unbelievably uncharacteristic, Zoë!",
    *(d.text for d in engine.documents()[:4]),
]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recogniser(model: SpanloomModel, kind: str, batch_words: int = 1024) -> Recogniser:
    """As it stands in memory, without a folder between; the tokenizer is the language model's own."""
    _, tokenizer = load(str(engine.encoder(kind)))
    limit = position_limit(model.encoder.language_model, tokenizer)
    pieces = Pieces(tokenizer, model.encoder.options, limit, model.encoder.vocabularies)
    return Recogniser(model, pieces, Segmenter(), "fp32", batch_words)


def found(ner: Recogniser, texts: list[str]) -> list[list[tuple[Entity, float | None, str]]]:
    return [[(entity, entity.score, entity.text) for entity in document.entities] for document in ner.pipe(texts)]


def decisions(ner: Recogniser, texts: list[str]) -> list[tuple[Entity, ...]]:
    return [document.entities for document in ner.pipe(texts)]


@pytest.mark.parametrize(
    ("kind", "head", "encoder"),
    [
        *((kind, {}, {}) for kind in tiny.KINDS),
        ("bert", {"crf": True}, {}),
        ("roberta", {"crf": True, "tags": "bilou", "legal": True}, {"layers": "last4", "pooling": "mean"}),
        ("mpnet", {"tags": "bilou"}, {"lstm": 12, "lstm_layers": 2, "pooling": "first"}),
        ("modernbert", {"crf": True}, {"lstm": 8, "context": 1}),
        ("deberta-v2", {"legal": True}, {"context": 2, "dropout": 0.3}),
        ("bert", {}, {"word_vectors": "learned:6", "char_lstm": 8}),
        ("roberta", {"crf": True}, {"char_lstm": 6, "lstm": 12}),
    ],
    ids=str,
)
def test_what_was_saved_is_what_is_loaded(
    kind: str, head: dict[str, object], encoder: dict[str, object], tmp_path: Path
) -> None:
    made = engine.untrained(tmp_path, kind, head, **encoder)
    weights = made.state_dict()
    expected = found(recogniser(made, kind), TEXTS)
    assert sum(map(len, expected)) > 10

    ner = spanloom.load(tmp_path, precision="fp32")
    assert {name: tensor.tolist() for name, tensor in ner.model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in weights.items()
    }
    assert found(ner, TEXTS) == expected

    theirs = SpanloomModel.from_pretrained(tmp_path)  # builds on the meta device
    assert not theirs.training
    assert theirs.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in theirs.state_dict().items())
    assert found(recogniser(theirs, kind), TEXTS) == expected

    theirs.save_pretrained(tmp_path / "again")
    again = SpanloomModel.from_pretrained(tmp_path / "again")
    assert found(recogniser(again, kind), TEXTS) == expected


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_tokenizer_of_the_folder_is_that_of_the_language_model(kind: str, tmp_path: Path) -> None:
    model = engine.untrained(tmp_path, kind)
    _, ours = load_model(tmp_path)
    _, own = load(str(engine.encoder(kind)))
    first, second = (Pieces(tokenizer, model.encoder.options, 64) for tokenizer in (ours, own))
    assert first.frame == second.frame
    assert (first.blank, first.padding, first.unknown, first.room) == (
        *(second.blank, second.padding, second.unknown, second.room),
    )
    words = [["[CLS]", "<s>", "</s>", "<mask>", "[UNK]", "ﬁ", "☃", "\u200b", "Ångström", "knee", "ın", "##s", "▁"]]
    assert first.pieces(words)[0].ids.tolist() == second.pieces(words)[0].ids.tolist()
    assert position_limit(model.encoder.language_model, ours) == position_limit(model.encoder.language_model, own)


def test_the_folder_holds_all_that_prediction_needs(tmp_path: Path) -> None:
    engine.untrained(tmp_path / "a", "bert")
    assert {file.name for file in (tmp_path / "a").iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    }
    text = (tmp_path / "a" / "config.json").read_text()
    for said in (
        '"model_type": "spanloom"',
        '"head": "tagger"',
        '"Name of a place"',
        '"words": "unicode"',
        '"versions"',
    ):
        assert said in text
    expected = found(spanloom.load(tmp_path / "a"), TEXTS)
    (tmp_path / "a").rename(tmp_path / "b")  # it knows of no other place
    assert found(spanloom.load(tmp_path / "b"), TEXTS) == expected


@pytest.fixture(scope="module")
def ner() -> Recogniser:
    return spanloom.load(engine.model_folder(), precision="fp32")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    """Its weights are random, and it finds something nearly everywhere."""
    folder = tmp_path_factory.mktemp("busy")
    engine.untrained(folder, "bert", {"crf": True})
    return spanloom.load(folder, precision="fp32")


def test_a_call_gives_a_document_with_entities(ner: Recogniser) -> None:
    trained_on = engine.documents()[0]
    document = ner(trained_on.text)
    assert isinstance(document, Document)
    assert document.text == trained_on.text
    assert document.entities
    for entity in document.entities:
        assert entity.type in ner.model.config.types
        (start, end), *_ = entity.fragments
        assert entity.text == trained_on.text[start:end]
        assert entity.score is not None
        assert 0 < entity.score <= 1


def test_the_order_is_kept(busy: Recogniser) -> None:
    texts = [" ".join(["knee", "pain", "北京", "IL-2"][: i % 5] * (i % 7)) for i in range(60)]
    documents = list(busy.pipe(texts))
    assert [document.text for document in documents] == texts
    assert [document.id for document in documents] == [str(number) for number in range(1, 61)]
    for text, document in zip(texts, documents, strict=True):
        assert busy(text).entities == document.entities


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\n", "\u200b", "\x00\x01"])
def test_a_text_without_words_has_no_entities(text: str, busy: Recogniser) -> None:
    assert busy(text) == Document("1", text)
    assert [document.entities for document in busy.pipe([text, text])] == [(), ()]
    among = decisions(busy, ["left knee", text, "left knee"])
    assert among[1] == ()
    assert among[0] == among[2]


def test_nothing_at_all(busy: Recogniser) -> None:
    assert list(busy.pipe([])) == []


@pytest.mark.parametrize(
    "text", ["\ud83d knee", "e\u0301 " * 30, "a" * 5000, "\u202eknee", "👩‍👩‍👧 knee 🇩🇪", "knee\x85pain"]
)
def test_odd_texts_keep_their_offsets(text: str, busy: Recogniser) -> None:
    for entity in busy(text).entities:
        assert entity.text == text[entity.start : entity.end]
        assert entity.text.strip()


@pytest.mark.parametrize("kind", ["bert", "roberta", "deberta-v2"])
def test_a_long_text_is_read_to_its_end(kind: str, tmp_path: Path) -> None:
    """3,000 words, sentences of up to 512 of them, through a model that reads 64 pieces."""
    engine.untrained(tmp_path, kind)
    ner = spanloom.load(tmp_path, precision="fp32")
    text = " ".join(["knee", "severe", "pain", "patient"][i * i % 4] + ("ful" if i % 3 else "") for i in range(3000))
    starts = [entity.start for entity in ner(text).entities]
    assert len(starts) > 200
    tenths = {start * 10 // len(text) for start in starts}
    assert tenths == set(range(10))
    assert not ner.lost.counts


@pytest.mark.parametrize(
    ("kind", "head", "encoder"),
    [
        ("bert", {}, {}),
        ("roberta", {"crf": True}, {"lstm": 8}),
        ("modernbert", {"crf": True, "legal": True}, {}),
        ("deberta-v2", {}, {"context": 1}),
        ("xlm-roberta", {}, {"layers": "last4", "pooling": "mean"}),
        ("bert", {}, {"word_vectors": "learned:6", "char_lstm": 8}),
    ],
    ids=str,
)
def test_what_shares_the_batch_changes_nothing(
    kind: str, head: dict[str, object], encoder: dict[str, object], tmp_path: Path
) -> None:
    engine.untrained(tmp_path, kind, head, **encoder)
    texts = [document.text for document in engine.documents()] + [" ".join(["knee"] * 200), ""]
    small, large = (spanloom.load(tmp_path, precision="fp32", batch_words=size) for size in (1, 4096))
    expected = decisions(large, texts)
    assert decisions(small, texts) == expected
    assert decisions(large, texts[::-1])[::-1] == expected
    for one, other in zip(small.pipe(texts), large.pipe(texts), strict=True):
        assert [entity.score for entity in one.entities] == pytest.approx(
            [entity.score for entity in other.entities], abs=1e-5
        )


def test_bf16_says_nearly_the_same() -> None:
    texts = [document.text for document in engine.documents()[:6]]
    exact, rough = (
        {
            (i, e)
            for i, found in enumerate(decisions(spanloom.load(engine.model_folder(), precision=p), texts))
            for e in found
        }
        for p in ("fp32", "bf16")
    )
    assert len(exact & rough) > 0.7 * len(exact | rough)


def test_a_stream_is_read_no_further_than_needed(busy: Recogniser) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "knee pain"

    documents = busy.pipe(endless())
    assert taken == 0
    next(documents)
    assert taken <= LOOKAHEAD + 1
    for _ in range(LOOKAHEAD):
        next(documents)
    assert taken <= 2 * LOOKAHEAD + 1


def test_context_is_the_same_whatever_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.untrained(tmp_path, "bert", context=1)
    ner = spanloom.load(tmp_path, precision="fp32")
    documents = [document for document in engine.documents() if document.words is not None]
    expected = [document.entities for document in ner.documents(documents)]
    alone = [next(ner.documents([document])).entities for document in documents]
    assert alone == expected  # neighbours in another document are no context
    for held in (1, 2, 5):
        monkeypatch.setattr("spanloom.predictor.LOOKAHEAD", held)
        assert [document.entities for document in ner.documents(documents)] == expected
    same_name = [Document("x", document.text, words=document.words) for document in documents]
    assert [document.entities for document in ner.documents(same_name)] == expected
    without = spanloom.load(tmp_path, precision="fp32")
    without.pieces.options = engine.run_of().encoder
    assert [document.entities for document in without.documents(documents)] != expected


def test_gold_is_passed_over_and_words_are_kept(ner: Recogniser) -> None:
    gold = engine.documents()[0]
    (document,) = ner.documents([gold])
    assert (document.id, document.text, document.words) == (gold.id, gold.text, gold.words)
    bare = Document(gold.id, gold.text, words=gold.words)
    assert next(ner.documents([bare])) == document
    assert all(entity.score is not None for entity in document.entities)


def test_a_threshold_leaves_out_what_is_less_sure(busy: Recogniser) -> None:
    everything = busy(engine.TEXT).entities
    scores = sorted(entity.score or 0 for entity in everything)
    middle = scores[len(scores) // 2]
    busy.threshold = middle
    kept = busy(engine.TEXT).entities
    busy.threshold = 0.0
    assert kept == tuple(entity for entity in everything if (entity.score or 0) >= middle)
    assert 0 < len(kept) < len(everything)


def test_options_of_decoding_can_be_changed() -> None:
    plain = spanloom.load(engine.model_folder())
    legal = spanloom.load(engine.model_folder(), options={"legal": True})
    assert not plain.model.scheme.options.legal
    assert legal.model.scheme.options.legal
    assert legal.model.head.scheme is legal.model.scheme
    with pytest.raises(InputError, match=r"head\.crf was fixed in training"):
        spanloom.load(engine.model_folder(), options={"crf": True})


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"precision": "bf61"}, "precision bf61: it is auto, fp32 or bf16"),
        ({"batch_words": 0}, "batch words 0: a number from 1 on"),
        ({"threshold": 80}, "threshold 80: a probability from 0 to 1"),
        ({"threshold": float("nan")}, "threshold nan: a probability from 0 to 1"),
    ],
)
def test_what_nothing_can_be_predicted_with(wrong: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        spanloom.load(tmp_path, **wrong)


def test_the_sentence_that_a_model_is_tried_on_leaves_no_trace() -> None:
    assert spanloom.load(engine.model_folder()).lost.total() == 0


def test_weights_of_another_precision_become_fp32(tmp_path: Path) -> None:
    engine.untrained(tmp_path, "bert")
    weights = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor.half() for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    model, _ = load_model(tmp_path)
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}
