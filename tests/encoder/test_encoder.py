"""The encoder on tiny language models of every kind, against slow and obvious versions of itself."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from spanloom.encoder.encoder import Encoder, pool
from spanloom.encoder.language_models import load, load_tokenizer, position_limit
from spanloom.encoder.options import EncoderOptions, Pooling
from spanloom.encoder.pieces import Pieced, Pieces
from spanloom.encoder.words import Words
from spanloom.errors import InputError
from tests.encoder import tiny

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerFast]
SENTENCES = [text.split() for text in tiny.TEXTS]
POOLINGS: tuple[Pooling, ...] = ("max", "mean", "first")


def build(loaded: Loaded, **options: Any) -> tuple[Pieces, Encoder]:
    model, tokenizer = loaded
    chosen = EncoderOptions(**options)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Pieces(tokenizer, chosen, position_limit(model, tokenizer)), Encoder(model, chosen).eval()


def words_of(made: tuple[Pieces, Encoder], sentences: Sequence[Sequence[str]]) -> Words:
    pieces, encoder = made
    with torch.no_grad():
        found: Words = encoder(pieces.batch(pieces.pieces(sentences)))
    return found


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def slowly_pooled(vectors: Tensor, how: Pooling) -> Tensor:
    """[pieces, h] of one word to [h]."""
    if how == "first":
        return vectors[0]
    return vectors.mean(0) if how == "mean" else vectors.amax(0)


# --- pooling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", POOLINGS)
def test_pooling_equals_the_slow_version_in_value_and_gradient(how: Pooling) -> None:
    random = torch.Generator().manual_seed(1)
    # few different values, so that maxima are shared
    pieces = torch.randint(-3, 3, (4, 9, 5), generator=random).double().requires_grad_()
    slots = 8
    word = torch.randint(0, slots, (4, 9), generator=random)
    word[word == 5] = slots  # slot 5 stays empty
    if how == "first":
        flat = word.flatten()
        for slot in range(slots):
            flat[(flat == slot).nonzero().flatten()[1:]] = slots
    slow = [
        slowly_pooled(pieces[word == slot], how) if (word == slot).any() else torch.zeros(5).double()
        for slot in range(slots)
    ]
    weights = torch.randn(slots, 5, generator=random, dtype=torch.double)
    fast = pool(pieces, word, slots, how)
    torch.testing.assert_close(fast, torch.stack(slow))
    torch.testing.assert_close(
        *(
            torch.autograd.grad((made * weights).sum(), pieces, retain_graph=True)[0]
            for made in (fast, torch.stack(slow))
        )
    )
    assert not fast[5].any()


@pytest.mark.parametrize("how", POOLINGS)
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_word_vectors_are_those_of_the_language_model(how: Pooling, kind: str, loaded: Callable[[str], Loaded]) -> None:
    model, _ = loaded(kind)
    pieces, encoder = build(loaded(kind), pooling=how)
    words = words_of((pieces, encoder), SENTENCES)
    assert words.vectors.shape == (4, max(map(len, SENTENCES)), 32)
    for at, sentence in enumerate(SENTENCES):
        [cut] = pieces.pieces([sentence])
        ids = torch.tensor([[*pieces.frame.before, *cut.ids.tolist(), *pieces.frame.after]])
        with torch.no_grad():
            said = model(input_ids=ids).last_hidden_state[0]
        parts = said[1:-1].split(cut.counts.tolist())
        close(words.vectors[at, : len(sentence)], torch.stack([slowly_pooled(part, how) for part in parts]))
        assert not words.vectors[at, len(sentence) :].any()
        close(words.sentence[at], said[0])


def test_the_last_four_layers_are_averaged(loaded: Callable[[str], Loaded]) -> None:
    model, _ = loaded("bert")
    pieces, encoder = build(loaded("bert"), layers="last4", pooling="first")
    batch = pieces.batch(pieces.pieces(SENTENCES[:1]))
    with torch.no_grad():
        _, *layers = model(input_ids=batch.ids, output_hidden_states=True).hidden_states
        assert len(layers) == 2  # a model with less than four gives what it has, without the embeddings
        close(encoder(batch).sentence, torch.stack(layers).mean(0)[:, 0])


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_last_layer_is_among_the_last_four(kind: str, loaded: Callable[[str], Loaded]) -> None:
    model, _ = loaded(kind)
    pieces, _ = build(loaded(kind))
    batch = pieces.batch(pieces.pieces(SENTENCES[:1]))
    with torch.no_grad():
        said = model(input_ids=batch.ids, attention_mask=batch.attention, output_hidden_states=True)
    assert len(said.hidden_states) == 3
    assert torch.equal(said.hidden_states[-1], said.last_hidden_state)


# --- every kind ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_a_sentence_does_not_depend_on_its_batch(kind: str, loaded: Callable[[str], Loaded]) -> None:
    made = build(loaded(kind), lstm=10)
    sentences = [*SENTENCES, [], ["knee"], SENTENCES[1] * 4]  # the last one takes windows
    together = words_of(made, sentences)
    for at, sentence in enumerate(sentences):
        alone = words_of(made, [sentence])
        close(together.vectors[at, : len(sentence)], alone.vectors[0, : len(sentence)])
        close(together.sentence[at], alone.sentence[0])
        assert together.keys[at] == alone.keys[0]
        assert not together.vectors[at, len(sentence) :].any()


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_it_reads_up_to_its_limit_and_then_takes_windows(kind: str, loaded: Callable[[str], Loaded]) -> None:
    model, tokenizer = loaded(kind)
    pieces, encoder = build((model, tokenizer))
    assert position_limit(model, tokenizer) == tiny.LIMIT
    letter = next(word for word in ("a", "in") if pieces.pieces([[word]])[0].work == 1)
    for words, rows in [(tiny.LIMIT - 2, 1), (tiny.LIMIT - 1, 2), (3 * tiny.LIMIT, 6)]:
        batch = pieces.batch(pieces.pieces([[letter] * words]))
        assert batch.ids.shape == (rows, tiny.LIMIT)
        with torch.no_grad():
            vectors = encoder(batch).vectors
        assert vectors.shape[1] == words
        assert vectors.isfinite().all()
        assert vectors.abs().sum(-1).all()
    if kind not in ("deberta-v2", "modernbert"):  # these two count positions without a table
        with pytest.raises((IndexError, RuntimeError)), torch.no_grad():
            model(input_ids=torch.full((1, tiny.LIMIT + 1), 5))


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_every_weight_that_trains_gets_a_gradient(kind: str, folder_of: Callable[[str], Path]) -> None:
    pieces, encoder = build(load(str(folder_of(kind))), lstm=6)
    encoder.train()
    words = encoder(pieces.batch(pieces.pieces([*SENTENCES, [], ["knee"]])))
    (words.vectors.pow(2).sum() + words.sentence.pow(2).sum()).backward()
    weights = [weight for weight in encoder.parameters() if weight.requires_grad]
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in weights)


# --- windows and context -------------------------------------------------------------------------


def test_every_word_of_a_long_sentence_is_that_of_its_window(loaded: Callable[[str], Loaded]) -> None:
    model, _ = loaded("bert")
    pieces, encoder = build(loaded("bert"), pooling="mean")
    [sentence] = pieces.pieces([SENTENCES[0] * 6])
    room, ends = tiny.LIMIT - 2, sentence.counts.cumsum()
    starts = [*range(0, sentence.work - room, room // 2), sentence.work - room]
    said = []
    for start in starts:
        ids = torch.tensor([[*pieces.frame.before, *sentence.ids[start : start + room].tolist(), *pieces.frame.after]])
        with torch.no_grad():
            said.append(model(input_ids=ids).last_hidden_state[0, 1:-1])
    expected = []
    for end, count in zip(ends.tolist(), sentence.counts.tolist(), strict=True):
        margins = [min(end - count - start, start + room - end) for start in starts]
        best = margins.index(max(margins))
        expected.append(said[best][end - count - starts[best] : end - starts[best]].mean(0))
    with torch.no_grad():
        close(encoder(pieces.batch([sentence])).vectors[0], torch.stack(expected))


@pytest.mark.parametrize("how", ["max", "mean"])
def test_a_word_longer_than_a_window_is_pooled_over_all_of_its_pieces(
    how: Pooling, loaded: Callable[[str], Loaded]
) -> None:
    pieces, encoder = build(loaded("bert"), pooling=how)
    words = ["knee", "a" * 90, "pain"]
    [whole] = pieces.pieces([words])
    if whole.counts[1] == 1:  # WordPiece takes words over 100 letters for unknown, not this one
        pytest.fail("the long word has one piece")
    cut = Pieced(whole.ids, (whole.counts * 0 + 1).repeat(whole.counts), 0)  # every piece a word
    with torch.no_grad():
        together, apart = encoder(pieces.batch([whole])).vectors[0], encoder(pieces.batch([cut])).vectors[0]
    first, last = int(whole.counts[0]), int(whole.counts[:2].sum())
    close(together[1], slowly_pooled(apart[first:last], how))


def test_context_changes_vectors_and_adds_no_words(loaded: Callable[[str], Loaded]) -> None:
    pieces, encoder = build(loaded("bert"), context=1)
    cut = pieces.pieces([["knee", "pain"], ["both", "shoulders"], ["knee", "pain"]])
    contexts = pieces.neighbours(cut, ["d", "d", "e"])
    with torch.no_grad():
        words = encoder(pieces.batch(cut, contexts))
        alone = encoder(pieces.batch(cut))
    assert words.vectors.shape == alone.vectors.shape == (3, 2, 32)
    assert (words.vectors[0] - alone.vectors[0]).abs().max() > 0.01
    close(words.vectors[2], alone.vectors[2])
    assert torch.equal(words.keys, alone.keys)


# --- empty sentences, missing special tokens -----------------------------------------------------


def test_a_batch_without_words_does_not_call_the_language_model(folder_of: Callable[[str], Path]) -> None:
    model, tokenizer = load(str(folder_of("bert")))
    made = build((model, tokenizer), lstm=8)
    model.forward = None  # type: ignore[assignment]
    words = words_of(made, [[], []])
    assert words.vectors.shape == (2, 1, 8)
    assert words.sentence.shape == (2, 32)
    assert not words.vectors.any()
    assert not words.sentence.any()
    assert not words.mask.any()


def test_a_sentence_without_words_has_a_vector_of_zeros(loaded: Callable[[str], Loaded]) -> None:
    words = words_of(build(loaded("bert"), lstm=8), [[], ["knee"]])
    assert not words.sentence[0].any()
    assert not words.vectors[0].any()
    assert words.vectors[1].any()


def test_without_special_tokens_the_sentence_is_the_mean_of_its_words(
    loaded: Callable[[str], Loaded], folder_of: Callable[[str], Path]
) -> None:
    tokenizer = load_tokenizer(folder_of("bert"))
    tokenizer.backend_tokenizer.post_processor = processors.Sequence([])
    words = words_of(build((loaded("bert")[0], tokenizer)), [["knee", "pain"], ["knee"], []])
    close(words.sentence[0], words.vectors[0].mean(0))
    close(words.sentence[1], words.vectors[1, 0])
    assert not words.sentence[2].any()


# --- what is on top ------------------------------------------------------------------------------


def test_a_bilstm_reads_each_sentence_to_its_own_end(loaded: Callable[[str], Loaded]) -> None:
    pieces, encoder = build(loaded("bert"), lstm=10, lstm_layers=2)
    plain = words_of(build(loaded("bert")), SENTENCES)
    words = words_of((pieces, encoder), SENTENCES)
    assert encoder.width == (10, 32)
    assert encoder.lstm is not None
    for at, sentence in enumerate(SENTENCES):
        with torch.no_grad():
            expected = encoder.lstm(plain.vectors[at : at + 1, : len(sentence)])[0][0]
        close(words.vectors[at, : len(sentence)], expected)
    close(words.sentence, plain.sentence)


@pytest.mark.parametrize("options", [{}, {"lstm": 10}, {"lstm": 10, "layers": "last4", "pooling": "mean"}])
def test_it_runs_in_bf16(options: dict[str, Any], folder_of: Callable[[str], Path]) -> None:
    pieces, encoder = build(load(str(folder_of("bert"))), **options)
    batch = pieces.batch(pieces.pieces([*SENTENCES, []]))
    exact = encoder(batch).vectors
    with torch.autocast("cpu", torch.bfloat16):
        words = encoder(batch)
    torch.testing.assert_close(words.vectors.float(), exact, atol=0.15, rtol=0.1)
    words.vectors.float().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in encoder.parameters() if weight.grad is not None)
    if options:
        assert words.vectors.dtype == torch.bfloat16


def test_dropout_acts_on_words_and_sentences_in_training_alone(folder_of: Callable[[str], Path]) -> None:
    pieces, encoder = build(load(str(folder_of("bert"))), dropout=0.5)
    batch = pieces.batch(pieces.pieces(SENTENCES))
    assert torch.equal(encoder(batch).vectors, encoder(batch).vectors)
    encoder.train()
    words = encoder(batch)
    for dropped in (words.vectors[words.mask], words.sentence):
        assert 0.3 < (dropped == 0).float().mean() < 0.7


def test_frozen_means_the_language_model_alone(folder_of: Callable[[str], Path]) -> None:
    pieces, encoder = build(load(str(folder_of("bert"))), lstm=10, dropout=0.0)
    batch = pieces.batch(pieces.pieces(SENTENCES))
    language, added = list(encoder.language_parameters()), list(encoder.added_parameters())
    assert {id(weight) for weight in encoder.parameters()} == {id(weight) for weight in [*language, *added]}
    assert len(added) == 8

    encoder.train()
    encoder.freeze(True)
    encoder.train()
    assert torch.equal(encoder(batch).vectors, encoder(batch).vectors)  # no dropout inside
    encoder(batch).vectors.sum().backward()
    assert all(weight.grad is None and not weight.requires_grad for weight in language)
    assert all(weight.grad is not None for weight in added)
    assert list(map(id, encoder.language_parameters())) == list(map(id, language))

    encoder.freeze(False)
    assert encoder.language_model.training
    assert not torch.equal(encoder(batch).vectors, encoder(batch).vectors)
    encoder(batch).vectors.sum().backward()
    assert all(weight.requires_grad for weight in language)
    assert any(weight.grad is not None for weight in language)

    encoder.eval()
    encoder.freeze(True)
    encoder.freeze(False)
    assert not encoder.language_model.training


def test_a_copy_says_the_same(loaded: Callable[[str], Loaded]) -> None:
    pieces, encoder = build(loaded("electra"), lstm=10)
    again = copy.deepcopy(encoder)
    assert torch.equal(words_of((pieces, again), SENTENCES).vectors, words_of((pieces, encoder), SENTENCES).vectors)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"context": -1}, "encoder.context -1: a number from 0 on is expected"),
        ({"pooling": "sum"}, "encoder.pooling sum: max, mean or first is expected"),
        ({"layers": "all"}, "encoder.layers all: last or last4 is expected"),
        ({"lstm": 7}, "encoder.lstm 7: an even number from 0 on is expected"),
        ({"lstm_layers": 0}, "encoder.lstm_layers 0: a number from 1 on is expected"),
        ({"freeze": 1.1}, "encoder.freeze 1.1: a share from 0 to 1 is expected"),
        ({"dropout": 1.0}, "encoder.dropout 1.0: a share from 0 to below 1 is expected"),
        ({"dropout": float("nan")}, "encoder.dropout nan: a share from 0 to below 1 is expected"),
        ({"name": ""}, "encoder.name : a folder, a hub name or a short name is expected"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        EncoderOptions(**options)
    assert str(refused.value) == complaint
