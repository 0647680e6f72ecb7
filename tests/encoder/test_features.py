"""Words, characters and parts of speech beside the language model: what is read, kept, refused, and given to a head."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import spanloom
from spanloom import training
from spanloom.cli import main
from spanloom.document import Document, Entity, Sentence
from spanloom.encoder.embeddings import CharacterLSTM, FixedTable, Table, WordEmbeddings, some_unknown
from spanloom.encoder.encoder import Encoder
from spanloom.encoder.features import MOST_CHARACTERS, Vocabularies, Vocabulary, expect_tags, fit
from spanloom.encoder.language_models import load, position_limit
from spanloom.encoder.options import EncoderOptions
from spanloom.encoder.pieces import PieceBatch, Pieces
from spanloom.encoder.word_vectors import read_vectors
from spanloom.encoder.words import Words
from spanloom.errors import InputError
from spanloom.heads import MODULES
from spanloom.model import SpanloomModel
from spanloom.predictor import Recogniser
from spanloom.segment import Segmenter
from spanloom.training import Trainer, make_optimizer, read_split, score
from tests import engine
from tests.conftest import Run
from tests.encoder import tiny

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerFast]
VECTORS = "the 1 2 3\nKnee 4 5 6\nknee -7 8e-1 9\nof 0 0 0.5\n"
WANTED = ("Knee", "knee", "of", "absent")


def sentence(text: str) -> Sentence:
    words = text.split()
    return Sentence(tuple(words), tuple((i, i + 1) for i in range(len(words))), pos=engine.tags_of(words))


TRAINING = [sentence(text) for text in (*tiny.TEXTS, "the patient has pain", "knee and knee pain")]


def put(folder: Path, content: str | bytes, name: str = "vectors.txt") -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder / name)


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


# --- files of word vectors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        VECTORS,
        "4 3\n" + VECTORS,
        "\ufeff" + VECTORS,
        VECTORS.replace("\n", " \n"),  # as word2vec writes lines
        VECTORS.replace("\n", "\r\n"),
        VECTORS.rstrip("\n"),
        VECTORS + "\n",
        VECTORS + "knee 1 1 1\n",  # the first of two counts
        VECTORS + ". . . 1 2 3\nat name@domain.com 1 2 3\n",
        ". . . 1 2 3\n" + VECTORS,
        "12 1 2 3\n" + VECTORS,
        " 1 2 3\n" + VECTORS,
        VECTORS + "Ångström 1 2 3\n北京 1 2 3\n\u00a0 1 2 3\n",
        gzip.compress(VECTORS.encode(), mtime=0),
        gzip.compress(("4 3\n" + VECTORS).encode(), mtime=0),
    ],
)
def test_wanted_words_are_read_from_a_file(content: str | bytes, tmp_path: Path) -> None:
    words, vectors = read_vectors(put(tmp_path, content), WANTED)
    assert words == ["Knee", "knee", "of"]
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [[4, 5, 6], [-7, 0.8, 9], [0, 0, 0.5]])


def test_a_word_may_have_blanks(tmp_path: Path) -> None:
    words, vectors = read_vectors(put(tmp_path, "a 1 2\n. . . 3 4\n北 京 5 6\n"), {". . .", "北 京"})
    assert words == [". . .", "北 京"]
    assert vectors.tolist() == [[3, 4], [5, 6]]


WORDS = st.text(st.characters(exclude_characters=" \r\n", exclude_categories=["Cs"]), min_size=1, max_size=6)


NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.dictionaries(WORDS, st.lists(NUMBERS, min_size=3, max_size=3), min_size=1), st.booleans())
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[float]], header: bool
) -> None:
    lines = [f"{word} {' '.join(map(repr, numbers))}\n" for word, numbers in table.items()]
    file = put(tmp_path_factory.mktemp("vectors"), "".join([f"{len(table)} 3\n"] * header + lines))
    words, vectors = read_vectors(file, table.keys() | {"absent word"})
    assert words == list(table)
    assert np.array_equal(vectors, np.array(list(table.values()), np.float32))


REFUSED = [
    ("", "has a vector for none"),
    ("\n", ":1: a word and its numbers are expected"),
    ("5 0\nknee\n", ":1: a word and its numbers are expected"),
    ("knee\n", ":1: a word and its numbers are expected"),
    ("just some text\n", ":1: a word and its numbers are expected"),
    ("the 1 2 3\nknee 1 2\n", ":2: 2 numbers behind the word, where 3 are expected"),
    ("the 1 2 3\nother 1\n", ":2: 1 number behind the word, where 3 are expected"),
    ("the 1 2 3\nknee 1 2 3 4\n", ":2: 4 numbers behind the word, where 3 are expected"),
    ("the 1 2 3\nother one 1 2 3 4\n", ":2: 4 numbers behind the word"),
    ("the 1 2 3\nknee 1 x 3\n", ":2: 'x' is no number"),
    ("the 1 2 3\nknee 1  3\n", ":2: '' is no number"),
    ("the 1 2 3\nknee 1 nan 3\n", ":2: a number is not finite"),
    ("the 1 2 3\nknee 1 1e99 3\n", ":2: a number is not finite, or too large"),
    ("9 3\n" + VECTORS, "holds 4 words where its first line announces 9; it is cut short or damaged"),
    ("the 1 2 3\nof 1 2 3\n", "has a vector for none of the corpus's 2 words"),
    (b"the 1 2 3\nkn\xe9e 1 2 3\n", ":2: byte 0xe9 is not UTF-8"),
    (b"2 3\nthe \x00\x9f\x80\xbf\x00\x00\nknee \xff\xfe", ":2: byte 0x9f is not UTF-8"),
    (gzip.compress(VECTORS.encode(), mtime=0)[:-6], "the gzip file is damaged or cut short"),
    (gzip.compress(VECTORS.encode(), mtime=0)[:12] + b"x" * 30, "the gzip file is damaged or cut short"),
]


@pytest.mark.parametrize(("content", "says"), REFUSED)
def test_a_file_that_is_not_as_it_should_be(content: str | bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_vectors(put(tmp_path, content), {"knee", "Knee"})
    assert str(refused.value).startswith(str(tmp_path / "vectors.txt"))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    for name, says in (("nowhere", "there is no such file of word vectors"), (".", "is not a file")):
        with pytest.raises(InputError, match=says):
            read_vectors(str(tmp_path / name), WANTED)


# --- vocabularies --------------------------------------------------------------------------------


def test_a_word_is_looked_up_as_written_and_then_in_lower_case() -> None:
    vocabulary = Vocabulary(("knee", "Knee", "pain"))
    assert [vocabulary.word(word) for word in ("knee", "Knee", "KNEE", "Pain", "PAIN", "of")] == [1, 2, 1, 3, 3, 0]
    assert len(vocabulary) == 4


def test_the_words_of_the_corpus_are_kept_of_a_file(tmp_path: Path) -> None:
    content = "pain 1 2\nKNEE 0 0\nknee 3 4\nabsent 0 0\ndev 5 6\n"
    vocabularies, vectors = fit(EncoderOptions(word_vectors=put(tmp_path, content)), TRAINING, ["Dev", "no"])
    assert vocabularies is not None
    assert vocabularies.words == Vocabulary(("pain", "knee", "dev"))
    assert vocabularies.word_width == 2
    assert vectors is not None
    assert vectors.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert vocabularies.covered([sentence("Pain of Knee x")]) == 0.5


def test_learned_are_the_words_that_come_twice() -> None:
    vocabularies, vectors = fit(EncoderOptions(word_vectors="learned:5"), TRAINING, ["further"])
    assert vocabularies is not None
    assert vectors is None
    assert vocabularies.words is not None
    lower = [word.lower() for each in TRAINING for word in each.words]
    assert set(vocabularies.words.entries) == {word for word in lower if lower.count(word) > 1}
    assert vocabularies.words.word("The") == vocabularies.words.word("the") > 0  # once in either case
    assert vocabularies.words.word("unbelievably") == vocabularies.words.word("further") == 0
    with pytest.raises(InputError, match="no word comes twice in training"):
        fit(EncoderOptions(word_vectors="learned:5"), [sentence("each word once")])


def test_characters_and_tags_are_those_of_training() -> None:
    vocabularies, _ = fit(EncoderOptions(char_lstm=4, pos=3), TRAINING)
    assert vocabularies is not None
    assert vocabularies.characters is not None
    assert vocabularies.pos is not None
    assert set(vocabularies.characters.entries) == {letter for each in TRAINING for letter in "".join(each.words)}
    assert vocabularies.pos == Vocabulary(("CD", "N", "NNP", "X"))
    features = vocabularies.features(["knee", "ü\ud83d京"], ["N", "XX"])
    assert features.pos == [2, 0]
    spelt = vocabularies.tensors([features], 3)["characters"].tolist()
    known = vocabularies.characters.number
    assert spelt == [[known[letter] for letter in "knee"], [0, 0, known["京"], -1]]


def test_without_features_there_is_nothing() -> None:
    assert fit(EncoderOptions(), TRAINING) == (None, None)
    assert not EncoderOptions().has_features


@given(st.lists(st.lists(st.text(max_size=4), max_size=6), max_size=5))
def test_a_batch_is_what_its_words_are(sentences: list[list[str]]) -> None:
    vocabularies = Vocabularies(Vocabulary(("a", "b")), 3, Vocabulary(("a", "b", "c")), Vocabulary(("A", "B")))
    tags = [[word[:1].upper() for word in words] for words in sentences]
    features = [vocabularies.features(*given) for given in zip(sentences, tags, strict=True)]
    width = max(map(len, sentences), default=0) + 1
    made = vocabularies.tensors(features, width)
    assert made["entries"].shape == made["pos"].shape == made["spelling"].shape == (len(sentences), width)
    for at, words in enumerate(sentences):
        for place, word in enumerate(words):
            assert made["entries"][at, place] == {"a": 1, "b": 2}.get(word.lower(), 0)
            assert made["pos"][at, place] == {"A": 1, "B": 2}.get(tags[at][place], 0)
            row = made["characters"][made["spelling"][at, place]].tolist()
            expected = [{"a": 1, "b": 2, "c": 3}.get(letter, 0) for letter in word or "?"]
            assert row == expected + [-1] * (len(row) - len(expected))
        for name in ("entries", "pos", "spelling"):
            assert not made[name][at, len(words) :].any()
    assert len(made["characters"]) == len({word for words in sentences for word in words})


def test_of_an_endless_word_both_ends_are_read() -> None:
    vocabularies = Vocabularies(characters=Vocabulary(("a", "b", "c")))
    [spelt] = vocabularies.tensors([vocabularies.features(["a" * 70 + "b" * 5000 + "c"], None)], 1)["characters"]
    half = MOST_CHARACTERS // 2
    assert spelt.tolist() == [1] * half + [2] * (half - 1) + [3]


def test_vocabularies_come_back_from_json() -> None:
    options = EncoderOptions(word_vectors="learned:5", char_lstm=4, pos=3)
    made, _ = fit(options, [*TRAINING, sentence("half \ud83d half")])
    assert made is not None
    assert Vocabularies.from_dict(json.loads(json.dumps(made.to_dict())), options) == made


def test_sentences_without_tags_are_refused() -> None:
    bare = replace(TRAINING[0], pos=None)
    with pytest.raises(InputError, match=r'^train: "The patient .*" has no part-of-speech tags, which encoder\.pos'):
        fit(EncoderOptions(pos=4), [TRAINING[1], bare])
    with pytest.raises(InputError, match=r"^dev: "):
        expect_tags([bare], "dev")
    expect_tags([*TRAINING, Sentence((), ())], "dev")  # a sentence without words needs none
    vocabularies, _ = fit(EncoderOptions(pos=4), TRAINING)
    assert vocabularies is not None
    assert vocabularies.features([], None).pos == []
    for tags, said in ((None, "has no part-of-speech tags"), (["NN"], "has 1 part-of-speech tags")):
        with pytest.raises(InputError, match=f'"left knee" {said}.*trained with them.*give words with "pos"'):
            vocabularies.features(["left", "knee"], tags)


# --- modules -------------------------------------------------------------------------------------


def test_characters_are_read_as_word_by_word() -> None:
    torch.manual_seed(1)
    module = CharacterLSTM(9, 8, dropout=0.5).eval()
    spelt = torch.tensor([[1, 2, 3, -1, -1], [4, -1, -1, -1, -1], [5, 6, 7, 8, 0], [0, 0, -1, -1, -1]])
    weights = torch.randn(4, 8)
    expected = []
    for row in spelt:
        word = row[row >= 0]
        out, _ = module.lstm(module.table.weight[word][:, None])
        expected.append(torch.cat([out[-1, 0, :4], out[0, 0, 4:]]))  # where each direction has seen all of the word
    made = module(spelt)
    close(made, torch.stack(expected))
    parameters = list(module.parameters())
    for one, other in zip(
        torch.autograd.grad((made * weights).sum(), parameters),
        torch.autograd.grad((torch.stack(expected) * weights).sum(), parameters),
        strict=True,
    ):
        close(one, other)


def test_some_of_the_known_count_as_unknown_in_training() -> None:
    torch.manual_seed(1)
    drawn = some_unknown(torch.ones(100_000, dtype=torch.long))
    assert 0.008 < (drawn == 0).float().mean() < 0.012
    for table in (Table(3, 4), FixedTable(3, 4)):
        numbers = torch.ones(2000, dtype=torch.long)
        table.train()
        table(numbers).sum().backward()
        unknown = table.weight.grad[0] if isinstance(table, Table) else table.unknown.grad  # type: ignore[index]
        assert unknown.abs().sum() > 0
        table.eval()
        assert torch.equal(table(numbers), table(numbers))
        assert (table(numbers)[0] == table(numbers)).all()


def test_the_vectors_of_a_file_stay_and_the_unknown_starts_from_their_mean() -> None:
    table = FixedTable(3, 2).eval()
    table.fill(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    found = table(torch.tensor([[0, 1], [2, 0]]))
    assert found.tolist() == [[[2, 4], [1, 2]], [[3, 6], [2, 4]]]
    found.sum().backward()
    assert table.known.grad is None
    assert table.unknown.grad.tolist() == [2, 2]  # type: ignore[union-attr]


# --- the encoder ---------------------------------------------------------------------------------

ALL: dict[str, Any] = {"word_vectors": "learned:5", "char_lstm": 6, "pos": 3}


def build(loaded: Loaded, **options: Any) -> tuple[Pieces, Encoder]:
    model, tokenizer = loaded
    chosen = EncoderOptions(**options)
    vocabularies, vectors = fit(chosen, TRAINING)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        encoder = Encoder(model, chosen, vocabularies).eval()
    if vectors is not None:
        encoder.fill(torch.from_numpy(vectors))
    return Pieces(tokenizer, chosen, position_limit(model, tokenizer), vocabularies), encoder


def batch_of(pieces: Pieces, sentences: Sequence[Sentence]) -> PieceBatch:
    return pieces.batch(pieces.pieces([each.words for each in sentences], [each.pos for each in sentences]))


def words_of(made: tuple[Pieces, Encoder], sentences: Sequence[Sentence]) -> Words:
    with torch.no_grad():
        found: Words = made[1](batch_of(made[0], sentences))
    return found


def test_the_parts_stand_beside_the_language_model_in_their_order(loaded: Callable[[str], Loaded]) -> None:
    pieces, encoder = build(loaded("bert"), **ALL)
    plain = words_of(build(loaded("bert")), TRAINING)
    words = words_of((pieces, encoder), TRAINING)
    embeddings = encoder.embeddings
    assert isinstance(embeddings, WordEmbeddings)
    assert embeddings.pos is not None
    assert isinstance(embeddings.words, Table)
    assert embeddings.characters is not None
    assert encoder.width == (32 + 3 + 5 + 6, 32)
    assert words.vectors.shape == (6, 15, 46)
    close(words.vectors[..., :32], plain.vectors)
    close(words.sentence, plain.sentence)
    vocabularies = encoder.vocabularies
    assert vocabularies is not None
    assert vocabularies.pos is not None
    assert vocabularies.words is not None
    for at, each in enumerate(TRAINING):
        for place, (word, tag) in enumerate(zip(each.words, each.pos or (), strict=True)):
            _, pos, entry, characters = words.vectors[at, place].split([32, 3, 5, 6])
            close(pos, embeddings.pos.weight[vocabularies.pos.number[tag]])
            close(entry, embeddings.words.weight[vocabularies.words.word(word)])
            spelt = vocabularies.tensors([vocabularies.features([word], [tag])], 1)["characters"]
            close(characters, embeddings.characters(spelt)[0])
        assert not words.vectors[at, len(each) :].any()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("lstm", [0, 10])
def test_a_sentence_does_not_depend_on_its_batch(lstm: int, kind: str, loaded: Callable[[str], Loaded]) -> None:
    made = build(loaded(kind), lstm=lstm, context=0, **ALL)
    sentences = [*TRAINING, Sentence((), ()), sentence("Unseen ☃ unbelievably" * 3), sentence(" ".join(["knee"] * 90))]
    together = words_of(made, sentences)
    for at, each in enumerate(sentences):
        alone = words_of(made, [each])
        close(together.vectors[at, : len(each)], alone.vectors[0, : len(each)])
        assert not together.vectors[at, len(each) :].any()


def test_the_bilstm_reads_all_parts(loaded: Callable[[str], Loaded]) -> None:
    made = build(loaded("bert"), lstm=10, **ALL)
    plain = words_of(build(loaded("bert"), **ALL), TRAINING)  # drawn first, the embeddings are the same
    assert made[1].width == (10, 32)
    assert made[1].lstm is not None
    words = words_of(made, TRAINING)
    for at, each in enumerate(TRAINING):
        with torch.no_grad():
            expected = made[1].lstm(plain.vectors[at : at + 1, : len(each)])[0][0]
        close(words.vectors[at, : len(each)], expected)


def test_context_adds_nothing_to_the_parts(loaded: Callable[[str], Loaded]) -> None:
    pieces, encoder = build(loaded("bert"), context=1, **ALL)
    cut = pieces.pieces([each.words for each in TRAINING], [each.pos for each in TRAINING])
    with torch.no_grad():
        words = encoder(pieces.batch(cut, pieces.neighbours(cut, ["d"] * len(cut))))
        alone = encoder(pieces.batch(cut))
    close(words.vectors[..., 32:], alone.vectors[..., 32:])
    assert (words.vectors[..., :32] - alone.vectors[..., :32]).abs().max() > 0.01


def test_a_batch_without_words_is_empty(loaded: Callable[[str], Loaded]) -> None:
    words = words_of(build(loaded("bert"), **ALL), [Sentence((), ()), Sentence((), ())])
    assert words.vectors.shape == (2, 1, 46)
    assert not words.vectors.any()


def test_a_batch_of_other_options_is_refused(loaded: Callable[[str], Loaded]) -> None:
    pieces, _ = build(loaded("bert"))
    _, encoder = build(loaded("bert"), **ALL)
    with pytest.raises(ValueError, match="without the vocabularies"):
        encoder(pieces.batch(pieces.pieces([["knee"]])))
    with pytest.raises(ValueError, match="need the vocabularies"):
        Encoder(loaded("bert")[0], EncoderOptions(**ALL))


@pytest.mark.parametrize("lstm", [0, 8])
def test_it_runs_in_bf16(lstm: int, folder_of: Callable[[str], Path]) -> None:
    pieces, encoder = build(load(str(folder_of("bert"))), lstm=lstm, **ALL)
    batch = batch_of(pieces, TRAINING)
    exact = encoder(batch).vectors
    with torch.autocast("cpu", torch.bfloat16):
        words = encoder(batch)
    torch.testing.assert_close(words.vectors.float(), exact, atol=0.15, rtol=0.1)
    words.vectors.float().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in encoder.parameters() if weight.grad is not None)


def test_every_part_is_learned_but_the_vectors_of_a_file(folder_of: Callable[[str], Path], tmp_path: Path) -> None:
    file = put(tmp_path, "pain 1 2\nknee 3 4\n")
    pieces, encoder = build(load(str(folder_of("bert"))), **{**ALL, "word_vectors": file})
    encoder.train()
    encoder(batch_of(pieces, TRAINING)).vectors.pow(2).sum().backward()
    assert isinstance(encoder.embeddings, WordEmbeddings)
    assert isinstance(encoder.embeddings.words, FixedTable)
    added = list(encoder.added_parameters())
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in added)
    assert {id(weight) for weight in added} == {
        id(weight) for name, weight in encoder.embeddings.named_parameters() if name != "words.known"
    }
    assert encoder.embeddings.words.known.grad is None
    encoder.freeze(True)
    assert all(weight.requires_grad for weight in added)
    assert not encoder.embeddings.words.known.requires_grad
    encoder.freeze(False)
    assert not encoder.embeddings.words.known.requires_grad


def test_dropout_acts_on_every_part_once(loaded: Callable[[str], Loaded]) -> None:
    for lstm in (0, 8):
        pieces, encoder = build(loaded("bert"), dropout=0.5, lstm=lstm, **ALL)
        embeddings = encoder.embeddings
        assert embeddings is not None
        embeddings.train()
        found = embeddings(batch_of(pieces, TRAINING))[..., :8]
        assert (found[batch_of(pieces, TRAINING).mask] == 0).float().mean() == pytest.approx(0.5 * (lstm > 0), abs=0.1)
        encoder.train()
        words = encoder(batch_of(pieces, TRAINING))
        assert (words.vectors[words.mask] == 0).float().mean() == pytest.approx(0.5, abs=0.1)
        encoder.eval()


# --- models --------------------------------------------------------------------------------------


def everything() -> dict[str, Any]:
    return {"word_vectors": str(engine.vectors()), "char_lstm": 6, "pos": 4, "lstm": 12, "dropout": 0.2}


def tagged(split: str = "test") -> list[Document]:
    bare = [engine.with_tags(document) for document in engine.documents(split)]
    return [Document(each.id, each.text, (), each.words, each.pos) for each in bare]


Found = list[list[tuple[Entity, float | None]]]


def found(ner: Recogniser, documents: Sequence[Document]) -> Found:
    return [[(entity, entity.score) for entity in document.entities] for document in ner.documents(documents)]


SMALL: dict[str, dict[str, Any]] = {
    "span": {"max_length": 4},
    "locate-label": {"keep": 0.0, "threshold": 0.0},
    "diffusion": {"threshold": 0.0, "layers": 0},
}
"""Options that keep a family small, or let an untrained one find something."""


@pytest.mark.parametrize("family", MODULES)
def test_any_head_takes_them_and_what_was_saved_is_what_is_loaded(family: str, tmp_path: Path) -> None:
    made = engine.untrained(tmp_path, "bert", SMALL.get(family), family, **everything())
    ner = spanloom.load(tmp_path, precision="fp32")
    expected = found(Recogniser(made, ner.pieces, Segmenter(), "fp32"), tagged())
    assert sum(map(len, expected)) > 10
    assert found(ner, tagged()) == expected
    kept = load_file(tmp_path / "model.safetensors")
    assert torch.equal(kept["encoder.embeddings.words.known"], made.state_dict()["encoder.embeddings.words.known"])
    assert kept["encoder.embeddings.words.known"].std() > 0.5

    theirs = SpanloomModel.from_pretrained(tmp_path)  # builds on the meta device
    assert theirs.encoder.vocabularies == made.encoder.vocabularies
    assert all(torch.equal(tensor, kept[name]) for name, tensor in theirs.state_dict().items())
    ner.pieces.vocabularies = theirs.encoder.vocabularies
    alike(found(Recogniser(theirs, ner.pieces, Segmenter(), "fp32"), tagged()), expected)
    theirs.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "features.json").read_bytes() == (tmp_path / "features.json").read_bytes()
    assert json.loads((tmp_path / "features.json").read_text()).keys() == {"words", "word_width", "characters", "pos"}
    assert "features" not in json.loads((tmp_path / "config.json").read_text())


def alike(one: Found, other: Found) -> None:
    """The same decisions; where weights lie in memory changes the last digit of a score."""
    assert [[entity for entity, _ in each] for each in one] == [[entity for entity, _ in each] for each in other]
    scores = [[score for each in side for _, score in each] for side in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize("family", MODULES)
def test_what_shares_the_batch_changes_no_decision(family: str, tmp_path: Path) -> None:
    engine.untrained(tmp_path, "roberta", SMALL.get(family), family, **everything())
    alone, together = (spanloom.load(tmp_path, precision="fp32", batch_words=words) for words in (1, 100_000))
    alike(found(alone, tagged()), found(together, tagged()))


def test_the_folder_needs_no_file_of_vectors(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_bytes(engine.vectors().read_bytes())
    engine.untrained(tmp_path / "model", "bert", **{**everything(), "word_vectors": str(vectors)})
    expected = found(spanloom.load(tmp_path / "model"), tagged())
    vectors.unlink()
    assert found(spanloom.load(tmp_path / "model"), tagged()) == expected


def test_tags_words_and_characters_change_what_is_found(tmp_path: Path) -> None:
    engine.untrained(tmp_path, "bert", **everything())
    ner = spanloom.load(tmp_path, precision="fp32")
    documents = tagged()
    expected = found(ner, documents)
    other = [Document(d.id, d.text, (), d.words, tuple(("CD",) * len(t or ()) for t in d.pos or ())) for d in documents]
    assert found(ner, other) != expected
    assert ner.model.encoder.embeddings is not None
    for part in ("words", "characters"):
        whole = getattr(ner.model.encoder.embeddings, part)
        saved = [weight.detach().clone() for weight in whole.parameters()]
        with torch.no_grad():
            for weight in whole.parameters():
                weight.zero_()
        assert found(ner, documents) != expected
        with torch.no_grad():
            for weight, before in zip(whole.parameters(), saved, strict=True):
                weight.copy_(before)
    assert found(ner, documents) == expected


# --- training ------------------------------------------------------------------------------------


def test_the_optimizer_has_all_but_the_vectors_of_the_file(tmp_path: Path) -> None:
    run = engine.run_of(everything(), of=engine.tagged())
    trainer = Trainer(run, tmp_path, resume=False)
    names = {name for group in trainer.bare.parameter_groups() for name, _ in group}
    missing = {name for name, _ in trainer.bare.named_parameters()} - names
    assert missing == {"encoder.embeddings.words.known"}
    rates = {id(w): group["peak"] for group in make_optimizer(trainer.bare, run).param_groups for w in group["params"]}
    for weight in trainer.bare.encoder.added_parameters():
        assert rates[id(weight)] == run.training.head_lr
    # dev and test are there with their words
    assert trainer.bare.encoder.vocabularies is not None
    kept = trainer.bare.encoder.vocabularies.words
    assert kept is not None
    for split in ("train", "dev", "test"):
        words = {word for each in engine.sentences(split) for word in each.words}
        in_file, _ = read_vectors(str(engine.vectors()), words)
        assert set(in_file) <= set(kept.entries)


def test_it_learns_with_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {**everything(), "dropout": 0.0, "lstm": 0}
    (tmp_path / "c").mkdir()
    shutil.copy(engine.tagged() / "train.jsonl", tmp_path / "c")
    engine.trained(tmp_path, options, None, tmp_path / "c", epochs=40, limit=20, head_lr=3e-2)
    assert "% of the words in training have a vector in the file" in capsys.readouterr().err
    gold = read_split(str(engine.tagged()), "train", Segmenter())
    assert gold is not None
    assert score(spanloom.load(tmp_path, precision="fp32"), gold[:20]).micro.f1 > 95
    first = Trainer(engine.run_of(options, of=tmp_path / "c", limit=20), tmp_path / "new", resume=False).bare
    kept = load_file(tmp_path / "model.safetensors")
    before = first.state_dict()
    assert torch.equal(before["encoder.embeddings.words.known"], kept["encoder.embeddings.words.known"])
    for name in ("words.unknown", "pos.weight", "characters.table.weight"):
        assert not torch.equal(before[f"encoder.embeddings.{name}"], kept[f"encoder.embeddings.{name}"])


@pytest.mark.parametrize("word_vectors", ["file", "learned:6"])
def test_a_stopped_run_ends_with_the_same_weights(
    word_vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = everything() | ({} if word_vectors == "file" else {"word_vectors": word_vectors})
    given: dict[str, Any] = {"encoder_options": options, "of": engine.tagged(), "epochs": 3, "limit": 24}
    engine.trained(tmp_path / "whole", **given)

    real = training.save_state

    def killed(folder: Path, model: Any, optimizer: Any, progress: Any) -> None:
        real(folder, model, optimizer, progress)
        if progress.epoch == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "save_state", killed)
    with pytest.raises(KeyboardInterrupt):
        engine.trained(tmp_path / "stopped", **given)
    monkeypatch.setattr(training, "save_state", real)
    engine.trained(tmp_path / "stopped", resume=True, **given)
    for name in ("model.safetensors", "features.json", "config.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()


def test_a_corpus_without_tags_is_refused_before_the_first_step(tmp_path: Path) -> None:
    run = engine.run_of({"pos": 4})
    with pytest.raises(InputError, match=r'^(train|dev): ".*" has no part-of-speech tags, which encoder\.pos needs'):
        Trainer(run, tmp_path, resume=False)
    for split, documents in (("train", tagged("train")), ("dev", engine.documents("dev"))):
        gold = engine.documents(split)
        engine.write(
            tmp_path / "c" / f"{split}.jsonl",
            [replace(g, pos=d.pos) for g, d in zip(gold, documents, strict=True)],
        )
    with pytest.raises(InputError, match=r"^dev: "):
        Trainer(engine.run_of({"pos": 4}, of=tmp_path / "c"), tmp_path / "run", resume=False)


# --- the command line ----------------------------------------------------------------------------


def test_raw_text_for_a_model_with_tags_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine.untrained(tmp_path / "model", "bert", pos=4)
    (tmp_path / "a.txt").write_text(engine.TEXT)
    engine.write(tmp_path / "words.jsonl", engine.documents("test"))
    engine.write(tmp_path / "tagged.jsonl", [engine.with_tags(each) for each in engine.documents("test")])
    capfd.readouterr()
    for command, file in (("predict", "a.txt"), ("predict", "words.jsonl"), ("evaluate", "words.jsonl")):
        assert main([command, str(tmp_path / "model"), str(tmp_path / file)]) == 2
        out, err = capfd.readouterr()
        assert out == ""
        assert err.startswith('error: "')
        assert err.count("\n") == 1
        assert "has no part-of-speech tags, and the model was trained with them (encoder.pos); give words with" in err
    for command in ("predict", "evaluate"):
        assert main([command, str(tmp_path / "model"), str(tmp_path / "tagged.jsonl")]) == 0
    with pytest.raises(InputError, match=r"encoder\.pos"):
        spanloom.load(tmp_path / "model")(engine.TEXT)


def test_a_sweep_gives_the_tags_along(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine.untrained(tmp_path / "model", "bert", pos=4)
    engine.write(tmp_path / "tagged.jsonl", [engine.with_tags(each) for each in engine.documents("test")])
    command = ["sweep", str(tmp_path / "model"), str(tmp_path / "tagged.jsonl"), "--over", "threshold=0,0.5"]
    assert main(command) == 0, capfd.readouterr().err


def test_a_file_of_vectors_that_is_not_there_is_refused_at_once(tmp_path: Path, spanloom: Run) -> None:
    put(tmp_path, "knee 1 2\npain 1\n")
    for name, says in (
        ("nowhere.txt", "there is no such file of word vectors (encoder.word_vectors)"),
        ("learned", "encoder.word_vectors learned: a file, or learned:WIDTH as in learned:100 is expected"),
        ("vectors.txt", "vectors.txt:2: 1 number behind the word, where 2 are expected"),
    ):
        command = ["train", engine.corpus(), "--encoder", engine.encoder(), "--out", "run"]
        refused = spanloom(*command, "--set", f"encoder.word_vectors={name}")
        assert refused.returncode == 2
        assert says in refused.stderr
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options",
    [
        *({"word_vectors": f"learned{width}"} for width in ("", ":", ":0", ":-1", ":x", ":²")),
        *({"char_lstm": width} for width in (-2, 7)),
        {"pos": -1},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    [name] = options
    with pytest.raises(InputError, match=rf"^encoder\.{name} .* is expected$"):
        EncoderOptions(**options)
    assert name in asdict(EncoderOptions())


def test_options_that_can_be() -> None:
    assert EncoderOptions(word_vectors="learned:100").learned_width == 100
    assert EncoderOptions(word_vectors="learned:100").vectors_file == ""
    assert EncoderOptions(word_vectors="glove.6B.100d.txt").vectors_file == "glove.6B.100d.txt"
    assert EncoderOptions(word_vectors="./learned:100").learned_width == 0
    assert all(EncoderOptions(**one).has_features for one in ({"word_vectors": "x"}, {"char_lstm": 2}, {"pos": 1}))
