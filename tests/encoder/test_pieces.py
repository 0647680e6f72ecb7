"""Pieces, windows, context and special tokens, against versions that are slow and obvious."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import processors
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

import spanloom.encoder.pieces as pieces_module
from spanloom.encoder.language_models import load_tokenizer, position_limit
from spanloom.encoder.options import EncoderOptions, Pooling
from spanloom.encoder.pieces import Context, PieceBatch, Pieced, Pieces, windows
from tests.encoder import tiny

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerFast]
SENTENCES = [text.split() for text in tiny.TEXTS]


def made(counts: Sequence[int], first: int = 1000) -> Pieced:
    """A sentence by the number of pieces of its words, every piece another number."""
    total = sum(counts)
    return Pieced(np.arange(first, first + total, dtype=np.int32), np.array(counts, np.int32), first)


def read(batch: PieceBatch) -> dict[tuple[int, int], list[int]]:
    """The pieces that each (sentence, word) is pooled from, in the order of rows and columns."""
    slots, width = batch.mask.numel(), batch.mask.shape[1]
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for ids, words in zip(batch.ids.tolist(), batch.word.tolist(), strict=True):
        for id, slot in zip(ids, words, strict=True):
            if slot < slots:
                found[divmod(slot, width)].append(id)
    return dict(found)


def inner(batch: PieceBatch) -> list[list[int]]:
    """The rows without padding and special tokens, one in front and one behind."""
    return [ids[1 : sum(seen) - 1] for ids, seen in zip(batch.ids.tolist(), batch.attention.tolist(), strict=True)]


@pytest.fixture(scope="session")
def bert(loaded: Callable[[str], Loaded]) -> PreTrainedTokenizerFast:
    return loaded("bert")[1]


def pieces_of(tokenizer: PreTrainedTokenizerFast, limit: int = tiny.LIMIT, **options: object) -> Pieces:
    return Pieces(tokenizer, EncoderOptions(**options), limit)  # type: ignore[arg-type]


# --- windows -------------------------------------------------------------------------------------


@st.composite
def long_sentences(draw: st.DrawFn) -> tuple[list[int], int]:
    room = draw(st.integers(1, 12))
    counts = draw(st.lists(st.integers(1, 2 * room), min_size=1, max_size=30).filter(lambda found: sum(found) > room))
    return counts, room


@given(long_sentences())
def test_every_word_is_read_from_its_most_central_window(case: tuple[list[int], int]) -> None:
    counts, room = case
    starts, owner = windows(np.array(counts, np.int32), room)
    at = starts.tolist()
    assert at == sorted(set(at))
    assert (at[0], at[-1]) == (0, sum(counts) - room)

    def most_central(begin: int, end: int) -> int:
        margins = [min(begin - start, start + room - end) for start in at]
        assert max(margins) >= 0, "wholly inside none"
        return margins.index(max(margins))

    expected: list[int] = []
    for word, count in enumerate(counts):
        begin = sum(counts[:word])
        if count <= room:
            expected += [most_central(begin, begin + count)] * count
        else:
            expected += [most_central(piece, piece + 1) for piece in range(begin, begin + count)]
    assert owner.tolist() == expected


def test_windows_overlap_by_half() -> None:
    starts, owner = windows(np.ones(20, np.int32), 8)
    assert starts.tolist() == [0, 4, 8, 12]
    assert owner.tolist() == [0] * 6 + [1] * 4 + [2] * 4 + [3] * 6


def test_a_word_longer_than_the_overlap_gets_a_window_around_it() -> None:
    starts, owner = windows(np.array([1, 1, 1, 7, 1, 1, 1, 1], np.int32), 8)
    assert starts.tolist() == [0, 2, 4, 6]
    assert owner.tolist() == [0, 0, 0, *[1] * 7, 3, 3, 3, 3]


def test_windows_of_an_endless_sentence_are_quick() -> None:
    starts, owner = windows(np.full(1_000_000, 2, np.int32), 510)
    assert len(starts) == pytest.approx(2_000_000 / 255, abs=3)
    assert owner[-1] == len(starts) - 1


# --- rows ----------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=4),
    st.integers(3, 14),
    st.sampled_from(["max", "mean", "first"]),
    st.integers(0, 2),
)
def test_nothing_is_truncated(
    bert: PreTrainedTokenizerFast, shapes: list[list[int]], limit: int, pooling: Pooling, context: int
) -> None:
    sentences = [made(counts, first=1000 * (at + 1)) for at, counts in enumerate(shapes)]
    pieces = pieces_of(bert, limit, pooling=pooling, context=context)
    batch = pieces.batch(sentences, pieces.neighbours(sentences, ["d"] * len(sentences)))
    expected = {}
    for at, sentence in enumerate(sentences):
        ends = np.cumsum(sentence.counts)
        for word, (count, end) in enumerate(zip(sentence.counts, ends, strict=True)):
            own = sentence.ids[end - count : end].tolist()
            expected[at, word] = own[:1] if pooling == "first" else own
    assert read(batch) == expected
    assert batch.ids.shape[1] <= limit
    assert batch.mask.sum(1).tolist() == [len(counts) for counts in shapes]
    for at, sentence in enumerate(sentences):
        if len(sentence):
            row = batch.row[at]
            assert sentence.ids[0] in batch.ids[row]
            assert row == 0 or sentence.ids[0] not in batch.ids[:row] or context


def test_rows_are_padded_on_the_right(bert: PreTrainedTokenizerFast) -> None:
    batch = pieces_of(bert).batch([made([2, 1]), made([1], first=50)])
    assert batch.ids.tolist() == [[2, 1000, 1001, 1002, 3], [2, 50, 3, 0, 0]]
    assert batch.attention.tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch.word.tolist() == [[4, 0, 0, 1, 4], [4, 2, 4, 4, 4]]
    assert batch.mask.tolist() == [[True, True], [True, False]]
    assert batch.row.tolist() == [0, 1]
    assert batch.cls is not None
    assert batch.cls.tolist() == [0, 0]
    assert batch.types is None
    assert {tensor.dtype for tensor in (batch.ids, batch.attention, batch.word, batch.keys)} == {torch.int64}


def test_sentences_without_words_need_no_row(bert: PreTrainedTokenizerFast) -> None:
    pieces = pieces_of(bert)
    batch = pieces.batch([*pieces.pieces([[], ["knee"], []])])
    assert len(batch.ids) == 1
    assert batch.mask.tolist() == [[False], [True], [False]]
    assert batch.row.tolist() == [0, 0, 0]
    nothing = pieces.batch(pieces.pieces([[], []]))
    assert nothing.ids.shape == (0, 0)
    assert nothing.mask.tolist() == [[False], [False]]
    assert nothing.to("cpu").keys[0] == nothing.keys[1]


# --- context -------------------------------------------------------------------------------------


def test_context_fills_what_is_free_on_both_sides(bert: PreTrainedTokenizerFast) -> None:
    own, before, after = made([2, 1], 100), made([1] * 6, 200), made([1] * 6, 300)

    def row(limit: int, context: Context) -> list[int]:
        batch = pieces_of(bert, limit, context=1).batch([own], [context])
        assert read(batch) == {(0, 0): [100, 101], (0, 1): [102]}
        return inner(batch)[0]

    middle = [100, 101, 102]
    assert row(64, Context([before], [after])) == [*range(200, 206), *middle, *range(300, 306)]
    assert row(10, Context([before], [after])) == [204, 205, *middle, 300, 301, 302]
    assert row(10, Context([before], [])) == [*range(201, 206), *middle]
    assert row(10, Context([], [after])) == [*middle, *range(300, 305)]
    assert row(10, Context([made([1], 400)], [after])) == [400, *middle, *range(300, 304)]
    assert row(10, Context([before], [made([1], 400)])) == [*range(202, 206), *middle, 400]
    assert row(5, Context([before], [after])) == middle
    assert row(9, Context([made([1], 500), made([1], 501)], [after])) == [500, 501, *middle, 300, 301]


def test_a_sentence_in_windows_has_no_room_for_context(bert: PreTrainedTokenizerFast) -> None:
    pieces = pieces_of(bert, 10, context=1)
    long = made([1] * 9)
    alone = pieces.batch([long])
    assert torch.equal(pieces.batch([long], [Context([made([1], 5)], [made([1], 6)])]).ids, alone.ids)


def test_neighbours_stay_in_their_document(bert: PreTrainedTokenizerFast) -> None:
    sentences = [made([1], first) for first in range(7)]
    found = pieces_of(bert, context=2).neighbours(sentences, ["a", "a", "a", "a", "b", "a", "a"])
    keys = [([s.key for s in context.before], [s.key for s in context.after]) for context in found]
    assert keys == [
        ([], [1, 2]),
        ([0], [2, 3]),
        ([0, 1], [3]),
        ([1, 2], []),
        ([], []),
        ([], [6]),
        ([5], []),
    ]
    assert all(context == ([], []) for context in pieces_of(bert).neighbours(sentences, ["a"] * 7))


# --- words to pieces -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_pieces_and_special_tokens_are_the_tokenizers_own(
    kind: str, folder_of: Callable[[str], Path], loaded: Callable[[str], Loaded]
) -> None:
    model, tokenizer = loaded(kind)
    pieces = Pieces(tokenizer, EncoderOptions(), position_limit(model, tokenizer))
    # loaded as its makers want it loaded for words: with a blank in front of each
    own = AutoTokenizer.from_pretrained(folder_of(kind), add_prefix_space=True)
    blank = " " if kind == "modernbert" else ""  # its class does not know that option
    for words in SENTENCES:
        batch = pieces.batch(pieces.pieces([words]))
        encoded = own([blank + word for word in words], is_split_into_words=True)
        assert batch.ids[0].tolist() == encoded["input_ids"]
        waste = batch.mask.numel()
        assert batch.word[0].tolist() == [waste if at is None else at for at in encoded.word_ids()]
        assert batch.cls is not None
        assert batch.ids[0, batch.cls[0]] == own.cls_token_id


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_word_has_a_piece(kind: str, loaded: Callable[[str], Loaded]) -> None:
    pieces = pieces_of(loaded(kind)[1])
    words = ["knee", "", "\u200b", "\x00", " ", "\ufeff", "\ud800", "x\udfffy", "knee", "ﷺ", "👩‍⚕️", "\xad"]
    [found] = pieces.pieces([words])
    assert len(found) == len(words)
    assert found.counts.min() >= 1
    assert found.work == found.counts.sum() == len(found.ids)


def test_a_word_without_pieces_is_an_unknown_one(bert: PreTrainedTokenizerFast) -> None:
    [found] = pieces_of(bert).pieces([["knee", "\u200b", "knee"]])
    own = bert("knee", add_special_tokens=False)["input_ids"]
    assert found.ids.tolist() == [*own, bert.unk_token_id, *own]
    assert found.counts.tolist() == [len(own), 1, len(own)]


def test_words_are_cut_one_by_one_and_remembered(
    bert: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pieces_of(bert).pieces(SENTENCES)
    monkeypatch.setattr(pieces_module, "CACHED_WORDS", 5)
    forgetful = pieces_of(bert)
    for _ in range(2):
        for words, expected in zip(SENTENCES, whole, strict=True):
            [found] = forgetful.pieces([words])
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.counts.tolist() == expected.counts.tolist()
            assert len(forgetful._known) <= len(set(words))


def test_truncation_and_padding_of_the_tokenizers_file_do_not_count(folder_of: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(folder_of("bert"))
    expected = pieces_of(tokenizer).pieces(SENTENCES)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=100)
    for found, own in zip(pieces_of(tokenizer).pieces(SENTENCES), expected, strict=True):
        assert found.ids.tolist() == own.ids.tolist()


def test_keys_depend_on_the_words_alone(loaded: Callable[[str], Loaded]) -> None:
    sentences = [["ab", "c"], ["a", "bc"], ["a", "b", "c"], ["abc"], [], ["ab", "c"]]
    keys = [
        pieces_of(loaded(kind)[1]).batch(pieces_of(loaded(kind)[1]).pieces(sentences)).keys.tolist()
        for kind in ("bert", "roberta")
    ]
    assert keys[0] == keys[1]
    assert keys[0][0] == keys[0][-1] == 4920574407684334916
    assert len(set(keys[0])) == 5


def test_a_frame_may_stand_behind_the_words(folder_of: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(folder_of("bert"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:1 [SEP]:0 [CLS]:2", special_tokens=[("[SEP]", 3), ("[CLS]", 2)]
    )
    batch = pieces_of(tokenizer).batch([made([1, 1]), made([1])])
    assert batch.ids.tolist() == [[1000, 1001, 3, 2], [1000, 3, 2, 0]]
    assert batch.types is not None
    assert batch.types.tolist() == [[1, 1, 0, 2], [1, 0, 2, 0]]
    assert batch.cls is not None
    assert batch.cls.tolist() == [3, 2]


def test_without_special_tokens_nothing_stands_for_the_sentence(folder_of: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(folder_of("bert"))
    tokenizer.backend_tokenizer.post_processor = processors.Sequence([])
    batch = pieces_of(tokenizer, 4).batch([made([1, 1]), made([1] * 5)])
    assert batch.cls is None
    assert batch.ids.tolist() == [[1000, 1001, 0, 0], [1000, 1001, 1002, 1003], [1001, 1002, 1003, 1004]]


def test_it_travels_to_a_worker(bert: PreTrainedTokenizerFast) -> None:
    pieces = pieces_of(bert, context=1)
    there = pickle.loads(pickle.dumps(pieces))
    assert torch.equal(there.batch(there.pieces(SENTENCES)).ids, pieces.batch(pieces.pieces(SENTENCES)).ids)


def test_a_limit_without_room_is_refused(bert: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ValueError, match="2 positions"):
        pieces_of(bert, 2)
