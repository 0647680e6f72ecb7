"""The two-stage head: vectors of the specification, round trips, and the staged form against the dense one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from spanloom import align
from spanloom.ceilings import ceiling
from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.heads import locate_label
from spanloom.heads.locate_label import (
    BLOCK,
    FAMILY,
    LocateHead,
    LocateScheme,
    Options,
    apart,
    fitted,
    flattened,
    focal,
)
from spanloom.heads.seeds import moved, overlap_of, paired, seeds_of
from spanloom.options import decode_options, make
from spanloom.samples import generate
from tests.heads.plain_locate_label import plain_of, plain_seeds
from tests.strategies import mentions

TYPES = ("Finding", "Drug", "Zelle")
UP_TO_15 = (1, 2, 3, 4, 5, 7, 9, 11, 13, 15)
SIZES = [9, 1, 5, 0, 12, 5]

ABLATIONS: list[dict[str, Any]] = [
    {},
    {"regressor": False},
    {"filter": False},
    {"filter": False, "regressor": False},
    {"soft_nms": False},
    {"soft_examples": False},
]
"""The rows of table 3."""


def sentence(size: int, *gold: Mention) -> Sentence:
    return Sentence(tuple(f"w{i}" for i in range(size)), tuple((3 * i, 3 * i + 2) for i in range(size)), gold)


def mention(type: str, start: int, end: int) -> Mention:
    return Mention(type, tuple(range(start, end)))


def scheme_of(types: tuple[str, ...] = TYPES, **options: Any) -> LocateScheme:
    return LocateScheme(Options(**{"lengths": tuple(range(1, 5)), **options}), types)


def words_of(sizes: list[int], width: int = 8, seed: int = 0, dtype: torch.dtype = torch.float64) -> Words:
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(sizes, default=0)) < torch.tensor(sizes, dtype=torch.int64)[:, None]
    vectors = torch.randn(*mask.shape, width, generator=draw, dtype=torch.float64).to(dtype) * mask[..., None]
    return Words(vectors, mask, torch.zeros(len(sizes), width), torch.arange(len(sizes)))


def head_of(scheme: LocateScheme, seed: int = 0, width: int = 8, dtype: torch.dtype = torch.float64) -> LocateHead:
    """A head that keeps about half of the seeds, moves most borders, and is sure of many types."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = LocateHead(scheme.options, scheme, Width(width, width)).to(dtype)
        with torch.no_grad():
            for name, weight in head.named_parameters():
                weight.normal_(std=1.2 if name.startswith("classifier") else 0.5)
    return head.train(False)


def targets_of(scheme: LocateScheme, sizes: list[int], seed: int = 1) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    gold = [[mention("Drug", n // 3, n), mention("Zelle", n // 2, n // 2 + 2)] if n > 3 else [] for n in sizes]
    made = [scheme.targets(sentence(n, *each), draw, Tally()) for n, each in zip(sizes, gold, strict=True)]
    return scheme.collate(made, max(sizes))


# seeds and pairs


@pytest.mark.parametrize(
    ("n", "counts"),
    [(10, (46, 51, 55, 55)), (25, (190, 210, 205, 270)), (50, (440, 485, 455, 645)), (100, (940, 1035, 955, 1395))],
)
def test_there_are_as_many_seeds_as_the_table_says(n: int, counts: tuple[int, ...]) -> None:
    sets = [UP_TO_15, (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15), range(1, 11), range(1, 16)]
    assert tuple(len(seeds_of(n, lengths)) for lengths in sets) == counts
    assert len(seeds_of(n, range(1, n + 1))) == n * (n + 1) // 2


@given(st.integers(0, 12), st.sets(st.integers(1, 15), max_size=5))
def test_seeds_come_by_length_and_start_and_never_run_out(n: int, lengths: set[int]) -> None:
    assert [tuple(seed) for seed in seeds_of(n, sorted(lengths)).tolist()] == plain_seeds(n, sorted(lengths))


A, B = (2, 5), (0, 6)
PAIRS = [
    # seed, the entity it is paired with, whether it is positive, offsets, weight
    ((2, 5), A, True, (0, 0), 1),
    ((0, 5), B, True, (0, 1), 0.8333),
    ((1, 6), B, True, (-1, 0), 0.8333),
    ((1, 5), A, True, (1, 0), 0.75),
    ((2, 6), A, True, (0, -1), 0.75),
    ((0, 7), B, True, (0, -1), 0.8571),
    ((2, 7), A, False, None, 0.4),
    ((3, 5), A, False, None, 0.3333),
    ((1, 4), B, False, None, 0.5),
    ((6, 8), (0, 0), False, None, 1),
]


@pytest.mark.parametrize("soft", [True, False])
def test_pairs_weights_and_classes_of_the_worked_example(soft: bool) -> None:
    scheme = scheme_of(("a", "b"), lengths=tuple(range(1, 9)), negatives=1000, soft_examples=soft)
    targets = scheme.targets(sentence(8, mention("a", *A), mention("b", *B)), torch.Generator(), Tally())
    rows = {tuple(seed): n for n, seed in enumerate(targets["seeds"].tolist())}
    assert len(rows) == 36
    for seed, gold, positive, offsets, weight in PAIRS:
        n = rows[seed]
        assert tuple(targets["gold"][n].tolist()) == gold
        assert bool(targets["positive"][n]) == positive
        assert targets["classes"][n] == {A: 1, B: 2}.get(gold, 0)
        assert float(targets["weights"][n]) == pytest.approx(weight if soft else 1, abs=1e-4)
        if offsets is not None:
            assert (targets["gold"][n] - targets["seeds"][n]).tolist() == list(offsets)


@pytest.mark.parametrize(
    ("lengths", "counts"),
    [
        (UP_TO_15, (1, 1, 3, 5, 6, 4, 9, 10, 9, 16, 16, 16, 15, 14, 15, 12, 12, 6, 7, 0)),
        (tuple(range(1, 11)), (1, 1, 3, 5, 8, 10, 17, 15, 14, 14, 11, 7, 4, 5, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_positive_seeds_by_the_length_of_an_entity(lengths: tuple[int, ...], counts: tuple[int, ...]) -> None:
    for size, count in zip((*range(1, 17), 18, 20, 21, 22), counts, strict=True):
        _, overlap = paired(seeds_of(100, lengths), np.array([[40, 40 + size]]))
        assert (overlap >= 0.7).sum() == count


def test_without_gold_no_seed_is_paired() -> None:
    pair, overlap = paired(seeds_of(3, [1]), np.zeros((0, 2), np.int64))
    assert pair.tolist() == [0, 0, 0]
    assert overlap.tolist() == [0, 0, 0]


# examples


@pytest.mark.parametrize(("negatives", "drawn"), [(5, 5 * 3 + 2), (0, 2), (1, 5), (1000, 19)])
def test_negatives_go_by_the_number_of_positives(negatives: int, drawn: int) -> None:
    scheme = scheme_of(lengths=(1, 2, 3, 4), negatives=negatives)
    one = sentence(7, mention("Drug", 2, 5))
    assert len(seeds_of(7, (1, 2, 3, 4))) == 7 + 6 + 5 + 4
    targets = scheme.targets(one, torch.Generator().manual_seed(1), Tally())
    assert int(targets["positive"].sum()) == 3
    assert int((~targets["positive"]).sum()) == drawn
    again, other = (scheme.targets(one, torch.Generator().manual_seed(seed), Tally()) for seed in (1, 2))
    assert torch.equal(targets["seeds"], again["seeds"])
    assert len({tuple(seed) for seed in targets["seeds"].tolist()}) == len(targets["seeds"])
    if 2 < drawn < 19:
        assert not torch.equal(targets["seeds"], other["seeds"])


def test_a_sentence_without_gold_has_two_negatives() -> None:
    targets = scheme_of().targets(sentence(6), torch.Generator(), Tally())
    assert targets["positive"].tolist() == [False, False]
    assert targets["gold"].tolist() == [[0, 0], [0, 0]]
    assert targets["weights"].tolist() == [1, 1]


def test_gold_that_no_seed_is_near_to_is_an_example_of_its_own_and_counted() -> None:
    scheme, lost = scheme_of(lengths=(1, 2, 3)), Tally()
    targets = scheme.targets(sentence(20, mention("Drug", 3, 12)), torch.Generator(), lost)
    assert targets["seeds"][0].tolist() == targets["gold"][0].tolist() == [3, 12]
    assert targets["positive"].tolist() == [True] + [False] * 7
    assert float(targets["weights"][0]) == 1
    assert len(targets["found"]) == 0
    assert lost.counts == {"entities of more than 4 words": 1}


def test_each_loss_has_its_reason() -> None:
    scheme, lost = scheme_of(("a", "b"), lengths=(1, 4), eval_lengths="same"), Tally()
    gold = [("a", 0, 1, 2, 3), ("a", 0, 2), ("b", 5), ("a", 5), ("c", 0), ("a", 8, 9), ("a", 6, 7, 8, 9, 10, 11)]
    scheme.targets(sentence(12, *(Mention(type, tuple(at)) for type, *at in gold)), torch.Generator(), lost)
    assert lost.counts == {
        "discontinuous entities": 1,
        "second types of the same words": 1,
        "entities of unknown types": 1,
        "entities near no seed": 1,
        "entities of more than 5 words": 1,
    }
    assert lost.examples["entities near no seed"] == ["w8 w9"]
    assert lost.examples["second types of the same words"] == ["w5"]


# gold, there and back


SIZED_GOLD = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(mentions(n), max_size=8)))


@settings(max_examples=200)
@given(SIZED_GOLD, st.sets(st.integers(1, 8), min_size=1), st.sampled_from(["all", "same"]), st.booleans())
def test_gold_comes_back_or_is_counted(
    case: tuple[int, list[Mention]], lengths: set[int], eval_lengths: Any, regressor: bool
) -> None:
    n, gold = case
    types = tuple(sorted({mention.type for mention in gold})) or ("x",)
    options = {"lengths": tuple(lengths), "eval_lengths": eval_lengths, "regressor": regressor, "soft_nms": False}
    scheme, lost = scheme_of(types, **options), Tally()
    targets = scheme.collate([scheme.targets(sentence(n, *gold), torch.Generator().manual_seed(1), lost)], n)
    (found,) = scheme.decode(scheme.perfect(targets), lost)
    assert set(found) <= set(gold)
    assert len(found) + lost.total() == len(set(gold))
    shortest = 1 if eval_lengths == "all" else min(lengths)
    for missed in set(gold) - set(found):
        size = len(missed.words)
        has_gap = missed.words[-1] - missed.words[0] >= size
        exact = size in scheme.seed_lengths(n) or (size == n < shortest)
        assert has_gap or not exact or any(other.words == missed.words for other in found)


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_ceilings_of_the_samples(shape: str) -> None:
    found = [each for document in generate(shape, 200, 1)["train"] for each in align.sentences(document, Tally())]
    types = tuple(sorted({mention.type for each in found for mention in each.mentions}))
    result = ceiling(LocateScheme(Options(), types, found), found).result
    assert result.micro.recall > 97
    assert result.micro.precision == 100


# offsets and losses


@pytest.mark.parametrize(
    ("offset", "rounded"), [(-2.5, -2), (-1.5, -1), (-0.51, -1), (-0.5, 0), (0.49, 0), (0.5, 1), (1.5, 2), (2.5, 3)]
)
def test_offsets_are_rounded_half_up(offset: float, rounded: int) -> None:
    start, end = moved(torch.tensor([5]), torch.tensor([9]), torch.tensor([[offset, offset]]), 0, torch.tensor([20]))
    assert (int(start), int(end)) == (5 + rounded, 9 + rounded)


@pytest.mark.parametrize(
    ("span", "offsets", "expected"),
    [
        ((6, 10), (-0.13, 1.96), (6, 12)),
        ((0, 1), (0.09, 0.11), (0, 1)),
        ((1, 3), (-4.0, 30.0), (0, 14)),
        ((1, 3), (4.0, -30.0), (5, -27)),  # void
        ((1, 3), (-1e30, float("inf")), (0, 14)),
    ],
)
def test_borders_stay_in_the_sentence(span: tuple[int, int], offsets: tuple[float, float], expected: Any) -> None:
    start, end = (torch.tensor([each]) for each in span)
    found = moved(start, end, torch.tensor([offsets]), 0, torch.tensor([14]))
    assert tuple(map(int, found)) == expected


@pytest.mark.parametrize(
    ("p", "positive", "loss"),
    [(0.9, True, 0.0010536), (0.5, True, 0.1732868), (0.1, True, 1.8650939), (0.1, False, 0.0010536)],
)
def test_the_filters_loss(p: float, positive: bool, loss: float) -> None:
    logit = torch.tensor([p], dtype=torch.float64).logit()
    assert focal(logit, torch.tensor([positive])).item() == pytest.approx(loss, abs=1e-7)


@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_the_filters_loss_is_finite_far_out(logit: float) -> None:
    z = torch.tensor([logit, logit], requires_grad=True)
    loss = focal(z, torch.tensor([True, False])).sum()
    loss.backward()
    assert loss.item() == pytest.approx(200)
    assert torch.isfinite(z.grad).all()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("borders", "gold", "loss"),
    [
        ((3, 5), (3, 5), 0),
        ((3, 5), (3, 6), 0.3333),
        ((2.5, 5.25), (3, 6), 0.3571),
        ((0, 2), (2, 4), 1),
        ((0, 2), (4, 6), 1.3333),
        ((5, -5), (0, 1), 11),
        ((2.5, 8.2), (3, 9), 0.2),
    ],
)
def test_what_spans_lack_of_overlapping(borders: Any, gold: Any, loss: float) -> None:
    real = torch.tensor([borders], dtype=torch.float64, requires_grad=True)
    found = apart(real, torch.tensor([gold], dtype=torch.float64))
    assert found.item() == pytest.approx(loss, abs=1e-4)
    found.sum().backward()
    if borders == (2.5, 8.2):
        assert real.grad is not None
        assert real.grad[0].tolist() == pytest.approx([-0.1231, -0.1538], abs=1e-4)


@pytest.mark.parametrize(("span", "weight"), [((4, 9), 0.1667), ((4, 11), 0.1429), ((3, 10), 0.1429), ((12, 14), 1)])
def test_near_misses_hardly_count_in_the_classifier(span: tuple[int, int], weight: float) -> None:
    start, end = (torch.tensor([each]) for each in span)
    assert 1 - overlap_of(start, end, torch.tensor([[4, 10]])).item() == pytest.approx(weight, abs=1e-4)


def test_hard_examples_are_soft_ones_with_all_weights_1(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = scheme_of(soft_examples=False)
    losses = [head_of(hard).loss(words_of(SIZES), targets_of(hard, SIZES))]
    soft = scheme_of()
    monkeypatch.setattr(locate_label, "overlap_of", lambda start, end, gold: torch.zeros(len(start)))
    targets = targets_of(soft, SIZES)
    targets["weights"] = torch.ones_like(targets["weights"])
    losses.append(head_of(soft).loss(words_of(SIZES), targets))
    assert [part.sum.item() for part in losses[0].values()] == [part.sum.item() for part in losses[1].values()]


# staged and plain


@pytest.mark.parametrize("options", ABLATIONS, ids=str)
def test_loss_and_gradients_equal_the_plain_ones(options: dict[str, Any]) -> None:
    scheme = scheme_of(dropout=0.0, **options)
    head = head_of(scheme).train()
    plain = plain_of(head)
    targets, results = targets_of(scheme, SIZES), []
    assert targets["positive"].any()
    for each in (head, plain):
        words = words_of(SIZES)
        words.vectors.requires_grad_()
        parts = each.loss(words, targets)
        torch.stack([part.weight * part.sum for part in parts.values()]).sum().backward()
        results.append((parts, words.vectors.grad))
    (fast, of_words), (slow, of_plain_words) = results
    expected = ["filter"] * head.scheme.options.filter + ["regressor"] * head.scheme.options.regressor + ["classifier"]
    assert list(fast) == list(slow) == expected
    for name, part in fast.items():
        assert part.sum.item() == pytest.approx(slow[name].sum.item(), rel=1e-6)
        assert (int(part.count), part.weight) == (int(slow[name].count), slow[name].weight)
        assert int(part.count) > 0
    torch.testing.assert_close(of_words, of_plain_words, rtol=1e-5, atol=1e-6)  # weights are float32
    for one, other in zip(head.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-5, atol=1e-6)  # weights are float32


@pytest.mark.parametrize("seed", range(100))
def test_the_staged_form_decides_as_the_dense_one(seed: int) -> None:
    """Random models, sentences and settings; in float64, where nothing lies on a border by chance."""
    draw = np.random.default_rng(seed)
    scheme = scheme_of(
        lengths=tuple(draw.choice(np.arange(1, 8), draw.integers(1, 6), replace=False).tolist()),
        eval_lengths=str(draw.choice(["all", "same"])),
        filter=bool(draw.random() < 0.8),
        regressor=bool(draw.random() < 0.8),
        soft_nms=bool(draw.random() < 0.8),
        hidden=int(draw.choice([0, 5])),
        keep=float(draw.choice([1 / 6, 0.5, 0.9])),
        threshold=float(draw.choice([0.2, 0.5])),
    )
    head = head_of(scheme, seed)
    words = words_of([*draw.integers(0, 14, 6).tolist(), 1], seed=seed)
    fast, slow, lost, plainly_lost = head.scores(words), plain_of(head).scores(words), Tally(), Tally()
    found, expected = scheme.decode(fast, lost), scheme.decode(slow, plainly_lost)
    assert found == expected
    assert lost.counts == plainly_lost.counts
    for one, other in zip(found, expected, strict=True):
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-9)
    keys = list(map(tuple, torch.cat((fast["sentence"][:, None], fast["spans"]), 1).tolist()))
    assert len(set(keys)) == len(keys)


def test_the_random_models_do_all_there_is_to_do() -> None:
    """The test above can fail: seeds are kept and dropped, borders move, proposals meet, are void, are damped."""
    scheme = scheme_of()
    totals = {"mentions": 0, "undamped": 0, "void": 0, "proposals": 0, "spans": 0, "moved": 0}
    for seed in range(20):
        words, head = words_of([12, 7], seed=seed), head_of(scheme, seed)
        lost, scores, slow = Tally(), head.scores(words), plain_of(head).scores(words)
        totals["mentions"] += sum(map(len, scheme.decode(scores, lost)))
        totals["undamped"] += sum(map(len, scheme_of(soft_nms=False).decode(scores, lost)))
        totals["void"] += int(scores["void"])
        totals["spans"] += len(scores["spans"])
        totals["proposals"] += len(slow["spans"])
        totals["moved"] += int((scores["spans"].diff(dim=1) > 4).sum())  # longer than any seed
    assert 100 < totals["mentions"] < totals["undamped"]
    assert totals["spans"] < totals["proposals"]
    assert totals["void"] > 20
    assert totals["moved"] > 20


@pytest.mark.parametrize("options", ABLATIONS, ids=str)
def test_what_shares_a_batch_changes_no_decision_in_fp32(options: dict[str, Any]) -> None:
    scheme = scheme_of(**options)
    for seed in range(10):
        head, words = head_of(scheme, seed, dtype=torch.float32), words_of(SIZES, seed=seed, dtype=torch.float32)
        together = scheme.decode(head.scores(words), Tally())
        for at, n in enumerate(SIZES):
            alone = Words(
                words.vectors[at : at + 1, :n],
                words.mask[at : at + 1, :n],
                words.sentence[at : at + 1],
                words.keys[at : at + 1],
            )
            (found,) = scheme.decode(head.scores(alone), Tally())
            assert found == together[at]
            assert [each.score for each in found] == pytest.approx([each.score for each in together[at]], abs=1e-4)


@pytest.mark.parametrize("block", [1, 7, BLOCK])
def test_blocks_and_split_layers_give_the_whole(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate_label, "BLOCK", block)
    head, words = head_of(scheme_of()), flattened(words_of(SIZES))
    start, end = head.seeds(words, max(SIZES))
    assert len(start) > len(words.vectors)
    for layers in (head.filter, head.regressor, head.classifier):
        assert layers is not None
        split = layers(words, start, end)
        whole = torch.cat([layers(words, start[i : i + 1], end[i : i + 1]) for i in range(len(start))])
        torch.testing.assert_close(split, whole)


def test_dropout_falls_on_every_span_by_itself() -> None:
    head = head_of(scheme_of(dropout=0.5)).train()
    words = flattened(words_of([9]))
    start = torch.zeros(50, dtype=torch.int64)
    read = head.classifier(words, start, start + 2)
    assert len(read.unique(dim=0)) == 50


def test_bf16_says_nearly_the_same() -> None:
    scheme = scheme_of(keep=0.0, regressor=False)
    head, words = head_of(scheme, dtype=torch.float32), words_of([9, 6], dtype=torch.float32)
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(0.5)
    exact = head.scores(words)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, parts = head.scores(words), head.loss(words, targets_of(scheme, [9, 6]))
    assert rounded["probability"].dtype == torch.float32
    assert all(part.sum.dtype == torch.float32 for part in parts.values())
    assert torch.equal(rounded["spans"], exact["spans"])
    torch.testing.assert_close(rounded["probability"], exact["probability"], atol=0.05, rtol=0.05)


# options at prediction


def test_a_head_reads_options_of_decoding_from_its_scheme() -> None:
    head, words = head_of(scheme_of()), words_of(SIZES)
    kept = len(head.scores(words)["spans"])
    few, many, all_lengths = (
        scheme_of(**options) for options in ({"keep": 0.999}, {"keep": 0.0}, {"lengths": (3,), "eval_lengths": "same"})
    )
    head.scheme = few
    assert len(head.scores(words)["spans"]) < kept
    head.scheme = many
    assert len(head.scores(words)["spans"]) > kept
    head.scheme = all_lengths
    assert len(head.scores(words)["spans"]) < kept
    scores = head_of(many).scores(words)
    counts = [
        sum(map(len, scheme_of(**options).decode(scores, Tally())))
        for options in ({"threshold": 0.9}, {}, {"near": 0.3}, {"damping": 0.5}, {"soft_nms": False}, {"damping": 1.0})
    ]
    few_found, usual, nearer, damped, without, undamped = counts
    assert few_found < usual
    assert nearer < usual
    assert damped < usual
    assert without == undamped > usual


def test_options_that_can_change_after_training() -> None:
    trained = Options(lengths=(1, 2))
    free = {
        "eval_lengths": "same",
        "keep": "0.5",
        "soft_nms": "false",
        "damping": "1",
        "near": "0.7",
        "threshold": "0.4",
    }
    changed = decode_options(trained, free)
    assert (changed.keep, changed.soft_nms, changed.lengths) == (0.5, False, (1, 2))
    for name in set(asdict(trained)) - set(free):
        with pytest.raises(InputError, match="fixed in training"):
            decode_options(trained, {name: getattr(trained, name)})


def test_a_score_is_the_probability_before_damping() -> None:
    scores = {
        "sentence": torch.tensor([0, 0, 1]),
        "spans": torch.tensor([[0, 5], [0, 4], [0, 4]]),
        "classes": torch.tensor([1, 2, 0]),
        "probability": torch.tensor([0.95, 0.90, 0.99]),
        "void": torch.tensor(3),
        "size": torch.tensor([6, 4]),
    }
    lost = Tally()
    found = scheme_of().decode(scores, lost)
    assert [[(each.type, each.words[-1]) for each in one] for one in found] == [[("Finding", 4), ("Drug", 3)], []]
    assert [each.score for each in found[0]] == pytest.approx([0.95, 0.90])
    assert lost.counts == {"void proposals": 3}
    assert len(scheme_of(threshold=0.85).decode(scores, Tally())[0]) == 1


# edges


@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [1], [1, 0, 1]])
@pytest.mark.parametrize("options", ABLATIONS, ids=str)
def test_next_to_nothing_gives_next_to_nothing(sizes: list[int], options: dict[str, Any]) -> None:
    scheme = scheme_of(**options)
    head, words = head_of(scheme), words_of(sizes)
    found = scheme.decode(head.scores(words), Tally())
    assert len(found) == len(sizes)
    assert all(each.words == (0,) for one in found for each in one)
    if sizes:
        parts = head.train().loss(words, targets_of(scheme, sizes))
        torch.stack([part.sum for part in parts.values()]).sum().backward()
        assert all(torch.isfinite(part.sum) for part in parts.values())
        assert all(weight.grad is not None and torch.isfinite(weight.grad).all() for weight in head.parameters())


@pytest.mark.parametrize("filtered", [True, False])
def test_when_nothing_is_kept_or_all_is_void_nothing_is_found(filtered: bool) -> None:
    scheme = scheme_of()
    head = head_of(scheme)
    with torch.no_grad():
        if filtered:
            assert head.filter is not None
            head.filter.out.bias.fill_(-1e4)
        else:
            assert head.regressor is not None
            head.regressor.out.bias.copy_(torch.tensor([1e4, -1e4]))
    scores = head.scores(words_of(SIZES))
    assert len(scores["spans"]) == 0
    assert (int(scores["void"]) > 0) != filtered
    assert scheme.decode(scores, Tally()) == [[] for _ in SIZES]
    if not filtered:  # what is void is no example for the classifier, and one still for the regressor
        parts = head.loss(words_of(SIZES), targets_of(scheme, SIZES))
        assert int(parts["classifier"].count) == 0
        assert parts["classifier"].sum.item() == 0
        assert int(parts["regressor"].count) > 0


def test_a_batch_without_positives_has_no_loss_of_borders() -> None:
    scheme = scheme_of()
    draw = torch.Generator()
    targets = scheme.collate([scheme.targets(sentence(5), draw, Tally())], 5)
    head = head_of(scheme)
    part = head.loss(words_of([5]), targets)["regressor"]
    part.sum.backward()
    assert (part.sum.item(), int(part.count)) == (0, 0)
    assert head.regressor is not None
    assert (head.regressor.out.weight.grad == 0).all()  # type: ignore[union-attr]


def test_a_sentence_shorter_than_every_seed_is_one() -> None:
    scheme = scheme_of(lengths=(5, 7), eval_lengths="same")
    assert seeds_of(3, scheme.seed_lengths(3)).tolist() == [[0, 3]]
    head = head_of(scheme)
    start, end = head.seeds(flattened(words_of([3, 6, 0, 5])), 6)
    assert sorted(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 3), (3, 8), (4, 9), (9, 14)]
    start, end = head.seeds(flattened(words_of([3])), 3)
    assert (start.tolist(), end.tolist()) == ([0], [3])


def test_a_sentence_of_one_word_has_no_word_outside() -> None:
    head = head_of(scheme_of())
    words = words_of([1])
    assert head.regressor is not None
    one = torch.tensor([0])
    vector = words.vectors[0, 0]
    read = head.regressor.hidden(torch.cat((vector, vector, vector)))
    expected = head.regressor.out(functional.gelu(read))
    torch.testing.assert_close(head.regressor(flattened(words), one, one + 1)[0], expected)


# options


def test_lengths_are_read_off_the_training_mentions() -> None:
    short = [sentence(20, mention("a", i, i + 1), mention("a", i, i + 3)) for i in range(10)]
    long = [sentence(30, mention("a", 0, 25))] * 3
    assert fitted(Options(), short).lengths == (1, 2, 3)
    assert fitted(Options(), [*short, *long]).lengths == tuple(range(1, 11))
    assert fitted(Options(), [sentence(3)]).lengths == (1,)
    assert LocateScheme(Options(), ("a",), short).options.lengths == (1, 2, 3)
    assert LocateScheme(Options(lengths=(2,)), ("a",), short).options.lengths == (2,)
    scheme = LocateScheme(Options(), ("a",))
    with pytest.raises(InputError, match=r"head\.lengths"):
        LocateHead(scheme.options, scheme, Width(8, 8))


def test_lengths_are_put_in_order_and_survive_json() -> None:
    options = Options(lengths=(3, 1, 3))
    assert options.lengths == (1, 3)
    assert make("head", Options, json.loads(json.dumps(asdict(options)))) == options
    assert make("head", Options, {"lengths": "5,1,2"}).lengths == (1, 2, 5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("lengths", (0, 1)),
        ("eval_lengths", "some"),
        ("negatives", -1),
        ("hidden", -1),
        ("dropout", 1.0),
        ("keep", 1.5),
        ("damping", 0.0),
        ("damping", 1.1),
        ("near", 0.0),
        ("threshold", 1.0),
    ],
)
def test_a_wrong_value_is_refused(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"head.{option}"):
        replace(Options(), **{option: value})


def test_the_work_grows_with_the_number_of_lengths() -> None:
    one, ten = (scheme_of(lengths=tuple(range(1, n + 1))) for n in (1, 10))
    assert one.cost(20) < ten.cost(20) < 2 * one.cost(20)
    assert ten.cost(0) == 0


def test_presets_hold_the_values_of_table_6() -> None:
    names = ("ace04", "ace05", "kbp17", "genia", "conll03", "weibo-zh")
    assert tuple(FAMILY.presets) == names
    kept = {name: FAMILY.presets[name] for name in names}
    wanted = {
        "head.damping": (0.9, 0.8, 0.9, 0.9, 0.9, 0.9),
        "head.near": (0.6, 0.7, 0.6, 0.7, 0.6, 0.6),
        "head.threshold": (0.55, 0.5, 0.5, 0.45, 0.5, 0.5),
        "head.keep": (1 / 6, 1 / 6, 1 / 2, 1 / 6, 1 / 6, 1 / 6),
        "training.encoder_lr": (3e-5, 3e-5, 5e-5, 5e-6, 3e-5, 3e-5),
        "training.batch": (8, 8, 4, 6, 8, 8),
        "training.epochs": (35,) * 6,
    }
    assert {option: tuple(each[option] for each in kept.values()) for option in wanted} == wanted
    assert kept["ace04"]["head.lengths"] == UP_TO_15
    assert kept["genia"]["head.lengths"] == tuple(range(1, 11))
