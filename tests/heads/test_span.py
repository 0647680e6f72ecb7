"""The span classifier: round trips of gold, the fast form against the plain one, decoding against the paper's rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.heads.span import (
    FAMILY,
    NOT_DRAWN,
    Options,
    Overlap,
    Representation,
    SpanHead,
    SpanScheme,
    fitted,
    keep,
    spans_inside,
)
from tests.strategies import mentions

TYPES = ("Finding", "Drug", "None", "基因")
REPRESENTATIONS = get_args(Representation)
LENGTHS = [5, 1, 0, 9, 3]
every_representation = pytest.mark.parametrize("representation", REPRESENTATIONS)


def sentence(size: int, gold: list[Mention] | None = None) -> Sentence:
    return Sentence(
        tuple(f"w{i}" for i in range(size)), tuple((3 * i, 3 * i + 2) for i in range(size)), tuple(gold or [])
    )


def words(lengths: list[int], width: int = 7, padding: int = 0) -> Words:
    size = max(lengths, default=0) + padding
    mask = torch.arange(size) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    vectors = torch.randn(len(lengths), size, width) * mask.unsqueeze(2)
    return Words(vectors, mask, torch.randn(len(lengths), 6), torch.arange(len(lengths)))


def built(**options: Any) -> tuple[SpanScheme, SpanHead]:
    torch.manual_seed(0)
    scheme = SpanScheme(Options(**{"max_length": 4, "overlap": "nested", **options}), TYPES)
    return scheme, SpanHead(scheme.options, scheme, Width(7, 6))


def gold_of(scheme: SpanScheme, lengths: list[int], size: int, seed: int = 1) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    gold = [sentence(n, [Mention("Drug", tuple(range(n // 2, n)[:3]))] if n else []) for n in lengths]
    return scheme.collate([scheme.targets(one, draw, Tally()) for one in gold], size)


# the plain form: each span's vector is put together, word by word


def plain_logits(
    head: SpanHead, words: Words, representation: str, longest: int
) -> list[dict[tuple[int, int], Tensor]]:
    """For each sentence, (length - 1, first word) to logits [T]."""
    found = []
    for b in range(len(words.mask)):
        n, spans = int(words.mask[b].sum()), {}
        for length in range(1, min(longest, n) + 1):
            for first in range(n - length + 1):
                inside = words.vectors[b, first : first + length]
                parts = {
                    "boundary": [inside[0], inside[-1]],
                    "pooling": [inside.amax(0), words.sentence[b]],
                    "hybrid": [inside[0], inside[-1], inside.amax(0), words.sentence[b]],
                }[representation]
                vector = torch.cat([*parts, head.lengths.weight[length - 1]])
                spans[length - 1, first] = head.classes(vector)
        found.append(spans)
    return found


@every_representation
@pytest.mark.parametrize("padding", [0, 3])
def test_the_fast_form_equals_the_plain_one_in_logits_loss_and_gradients(representation: Any, padding: int) -> None:
    scheme, head = built(representation=representation, negatives=6)
    head.double()
    batch = words(LENGTHS, padding=padding)
    batch = replace(
        batch, vectors=batch.vectors.double().requires_grad_(), sentence=batch.sentence.double().requires_grad_()
    )
    targets = gold_of(scheme, LENGTHS, batch.mask.shape[1])
    inputs = [batch.vectors, batch.sentence, *head.parameters()]

    scores = scheme_scores = head.scores(batch)
    plain = plain_logits(head, batch, representation, 4)
    for b, spans in enumerate(plain):
        assert {tuple(at) for at in scores["mask"][b].nonzero().tolist()} == set(spans)
        for at, logits in spans.items():
            torch.testing.assert_close(scheme_scores["logits"][b][at], logits.float(), atol=1e-5, rtol=1e-5)

    part = head.loss(batch, targets)["spans"]
    drawn = [(b, length, first) for b, length, first in (targets["labels"] != NOT_DRAWN).nonzero().tolist()]
    total = sum(
        functional.cross_entropy(plain[b][length, first][None].float(), targets["labels"][b, length, first][None])
        for b, length, first in drawn
    )
    assert isinstance(total, Tensor)
    assert int(part.count) == len(drawn)
    torch.testing.assert_close(part.sum, total, atol=1e-5, rtol=1e-5)
    unused = {"pooling": (), "boundary": ("sentence",), "hybrid": ()}[representation]
    for fast, slow in zip(
        torch.autograd.grad(part.sum, inputs, retain_graph=True, allow_unused=bool(unused)),
        torch.autograd.grad(total, inputs, allow_unused=bool(unused)),
        strict=True,
    ):
        if fast is None or slow is None:
            assert fast is slow
        else:
            torch.testing.assert_close(fast, slow, atol=1e-6, rtol=1e-5)


@every_representation
def test_what_shares_the_batch_changes_nothing(representation: Any) -> None:
    scheme, head = built(representation=representation)
    with torch.no_grad():
        head.classes.weight.mul_(8)  # decides clearly
    batch = words(LENGTHS, padding=2)
    together = scheme.decode(head.scores(batch), Tally())
    assert sum(map(len, together)) > 10
    for b, n in enumerate(LENGTHS):
        if n:
            alone = Words(
                batch.vectors[b : b + 1, :n],
                batch.mask[b : b + 1, :n],
                batch.sentence[b : b + 1],
                batch.keys[b : b + 1],
            )
            (found,) = scheme.decode(head.scores(alone), Tally())
            assert found == together[b]
            for one, other in zip(found, together[b], strict=True):
                assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize(
    ("n", "longest", "count"), [(100, 10, 955), (100, 100, 5050), (3, 10, 6), (1, 4, 1), (0, 4, 0)]
)
def test_there_are_as_many_spans_as_the_formula_says(n: int, longest: int, count: int) -> None:
    assert int(spans_inside(torch.tensor([n]), min(longest, max(n, 1)), n).sum()) == count


@pytest.mark.parametrize(("representation", "wide"), [("boundary", 2073), ("pooling", 2073), ("hybrid", 4121)])
def test_the_widths_are_those_of_the_paper(representation: Any, wide: int) -> None:
    scheme = SpanScheme(Options(representation=representation, max_length=5), ("a", "b", "c", "d"))
    head = SpanHead(scheme.options, scheme, Width(1024, 1024))
    assert head.classes.in_features == wide
    if representation == "hybrid":
        assert (
            sum(each.numel() for each in head.parameters()) == 20760 - 25
        )  # the paper's row for length 0 is not there


# gold, there and back


SIZED_GOLD = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(mentions(n), max_size=8)))


@settings(max_examples=200)
@given(SIZED_GOLD, st.integers(1, 12))
def test_gold_comes_back_or_is_counted(case: tuple[int, list[Mention]], longest: int) -> None:
    n, gold = case
    types = sorted({mention.type for mention in gold}) or ["x"]
    scheme = SpanScheme(Options(max_length=longest, overlap="nested"), types)
    lost = Tally()
    one = sentence(n, gold)
    targets = scheme.collate([scheme.targets(one, torch.Generator().manual_seed(1), lost)], n)
    (found,) = scheme.decode(scheme.perfect(targets), lost)
    assert set(found) <= set(gold)
    assert len(found) + lost.total() == len(set(gold))
    missed = set(gold) - set(found)
    for mention in missed:
        contiguous = mention.words[-1] - mention.words[0] < len(mention.words)
        assert not contiguous or len(mention.words) > longest or any(o.words == mention.words for o in found)


def test_each_loss_has_its_reason() -> None:
    scheme = SpanScheme(Options(max_length=2), ("a", "b"))
    gold = [("a", 0, 1, 2), ("a", 0, 2), ("b", 1, 2), ("a", 1, 2), ("c", 0), ("a", 3), ("a", 3)]
    lost = Tally()
    scheme.targets(sentence(4, [Mention(type, tuple(at)) for type, *at in gold]), torch.Generator(), lost)
    assert lost.counts == {
        "entities of more than 2 words": 1,
        "discontinuous entities": 1,
        "second types of the same words": 1,
        "entities of unknown types": 1,
    }
    assert lost.examples["second types of the same words"] == ["w1 w2"]


# negatives


def test_negatives_are_drawn_anew_without_gold_and_evenly() -> None:
    scheme = SpanScheme(Options(max_length=3, negatives=5), ("a",))
    one = sentence(6, [Mention("a", (1, 2))])
    counts: dict[tuple[int, int], int] = {}
    for seed in range(2000):
        targets = scheme.targets(one, torch.Generator().manual_seed(seed), Tally())
        spans = [tuple(span) for span in targets["spans"].tolist()]
        assert len(set(spans)) == 6
        assert spans[0] == (1, 1)
        assert targets["classes"].tolist() == [1, 0, 0, 0, 0, 0]
        for span in spans[1:]:
            counts[span] = counts.get(span, 0) + 1
    assert len(counts) == 6 + 5 + 4 - 1
    assert all(abs(count - 2000 * 5 / 14) < 120 for count in counts.values())  # 6 deviations


@pytest.mark.parametrize(("negatives", "count"), [(0, 1), (None, 21), (1000, 21)])
def test_none_some_or_all_negatives(negatives: int | None, count: int) -> None:
    scheme = SpanScheme(Options(max_length=9, negatives=negatives), ("a",))
    targets = scheme.targets(sentence(6, [Mention("a", (1, 2))]), torch.Generator(), Tally())
    assert len(targets["classes"]) == count


def test_a_batch_without_a_drawn_span_has_a_loss_of_0_with_gradients() -> None:
    scheme, head = built(negatives=0)
    targets = scheme.collate([scheme.targets(sentence(3), torch.Generator(), Tally())], 3)
    part = head.loss(words([3]), targets)["spans"]
    part.sum.backward()
    assert float(part.sum.detach()) == int(part.count) == 0
    assert torch.isfinite(head.classes.weight.grad).all()  # type: ignore[arg-type]


# decoding

Candidate = tuple[int, int, float]
VECTORS: list[tuple[list[Candidate], set[tuple[int, int]]]] = [
    ([(0, 2, 0.90), (2, 4, 0.95), (4, 6, 0.99)], {(0, 2), (4, 6)}),
    ([(0, 2, 0.99), (1, 3, 0.50)], {(0, 2)}),
    ([(0, 1, 0.80), (1, 2, 0.90), (2, 3, 0.85)], {(1, 2)}),
    ([(0, 0, 0.60), (0, 1, 0.60)], {(0, 0)}),
    ([(3, 4, 0.70), (3, 3, 0.90), (4, 4, 0.80)], {(3, 3), (4, 4)}),
    ([(0, 3, 0.95), (1, 1, 0.99), (3, 3, 0.97)], {(1, 1), (3, 3)}),
]
"""Candidates (first word, last word, score), and what of them is kept flat."""


def scores_of(candidates: list[Candidate], n_words: int, longest: int) -> dict[str, Tensor]:
    probability = torch.tensor([0.99, 0.01]).expand(1, longest, n_words, 2).clone()
    for first, last, score in candidates:
        probability[0, last - first, first] = torch.tensor([1 - score, score])
    return {"logits": probability.log(), "mask": spans_inside(torch.tensor([n_words]), longest, n_words)}


@pytest.mark.parametrize(("candidates", "kept"), VECTORS, ids=str)
def test_flat_decoding_keeps_the_best_of_what_overlaps(candidates: list[Candidate], kept: set[tuple[int, int]]) -> None:
    scheme = SpanScheme(Options(max_length=4, overlap="flat"), ("a",))
    (found,) = scheme.decode(scores_of(candidates, 7, 4), Tally())
    assert {(mention.words[0], mention.words[-1]) for mention in found} == kept
    score_of = {(first, last): score for first, last, score in candidates}
    for mention in found:
        assert mention.score == pytest.approx(score_of[mention.words[0], mention.words[-1]], abs=1e-6)


@pytest.mark.parametrize(
    ("overlap", "kept"),
    [("flat", {(2, 4)}), ("no-crossing", {(2, 4), (3, 3)}), ("nested", {(2, 4), (3, 3), (4, 6), (0, 2)})],
)
def test_overlap_says_what_may_share_words(overlap: Any, kept: set[tuple[int, int]]) -> None:
    scheme = SpanScheme(Options(max_length=4, overlap=overlap), ("a",))
    (found,) = scheme.decode(scores_of([(2, 4, 0.9), (3, 3, 0.8), (4, 6, 0.7), (0, 2, 0.6)], 7, 4), Tally())
    assert {(mention.words[0], mention.words[-1]) for mention in found} == kept


SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 5)), max_size=20, unique=True)


@given(SPANS, st.sampled_from(["flat", "no-crossing", "nested"]))
def test_what_is_kept_equals_the_rule_word_by_word(spans: list[tuple[int, int, int]], overlap: Overlap) -> None:
    spans.sort(key=lambda span: span[0])
    columns = np.array(spans, np.int64).reshape(-1, 3).T
    beside: dict[int, list[set[int]]] = {}
    expected = []
    for at, first, size in spans:
        one = set(range(first, first + size))
        others = beside.setdefault(at, [])
        nested = [one <= other or other <= one for other in others if one & other]
        allowed = {"flat": not nested, "no-crossing": all(nested), "nested": True}[overlap]
        expected.append(allowed)
        if allowed:
            others.append(one)
    assert keep(*columns, overlap).tolist() == expected


# options


def test_what_is_automatic_is_read_off_the_training_mentions() -> None:
    short = [sentence(20, [Mention("a", (i,)), Mention("a", (i + 1, i + 2))]) for i in range(100)]
    longer = sentence(20, [Mention("a", tuple(range(7)))])
    # of 101 sentences 100 have two entities, one has one: 30 others for each entity
    assert fitted(Options(), [*short, longer]) == Options(max_length=2, overlap="flat", negatives=60)
    assert fitted(Options(), [*short[:20], longer]).max_length == 7
    nested = sentence(20, [Mention("a", (3, 4, 5)), Mention("b", (4,))])
    crossing = sentence(20, [Mention("a", (3, 4)), Mention("b", (4, 5))])
    assert fitted(Options(), [nested, *short]).overlap == "no-crossing"
    assert fitted(Options(), [crossing, nested]).overlap == "nested"
    given = Options(max_length=3, overlap="flat", negatives=7)
    assert fitted(given, [nested, longer]) == given
    assert fitted(Options(negatives=None), short).negatives is None
    assert fitted(Options(), [sentence(20)] * 3).negatives == 1
    assert SpanScheme(Options(), ("a",), short).options == Options(max_length=2, overlap="flat", negatives=60)
    assert SpanScheme(Options(), ("a",), short).shapes == {"flat"}


@pytest.mark.parametrize(
    ("option", "value"),
    [("representation", "both"), ("overlap", "some"), ("max_length", -1), ("negatives", -1), ("length_size", 0)],
)
def test_a_wrong_value_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"head.{option}"):
        Options(**{option: value})


def test_a_model_without_a_length_limit_cannot_be_built() -> None:
    scheme = SpanScheme(Options(), ("a",))
    with pytest.raises(InputError, match="max_length"):
        SpanHead(scheme.options, scheme, Width(7, 7))


def test_presets_hold_the_papers_length_limits() -> None:
    names = "ontonotes conll03 conllpp conll04 ace04 ace05 bc5cdr ncbi scierc wnut16 wnut17"
    wanted = dict(zip(names.split(), (10, 5, 5, 10, 10, 10, 7, 7, 8, 6, 6), strict=True))
    assert {name: preset["head.max_length"] for name, preset in FAMILY.presets.items()} == wanted


@every_representation
def test_bf16_says_nearly_the_same(representation: Any) -> None:
    _, head = built(representation=representation)
    batch = words([6, 4])
    with torch.autocast("cpu", torch.bfloat16):
        rounded = head.scores(batch)["logits"]
    exact = head.scores(batch)["logits"]
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, atol=0.05, rtol=0.05)
