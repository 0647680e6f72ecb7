"""The diffusion head: vectors of the specification, round trips, and the fast form against the plain one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanloom import align
from spanloom.ceilings import ceiling
from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.heads import diffusion
from spanloom.heads.diffusion import FAMILY, THRESHOLDS, DiffusionHead, DiffusionScheme, Options
from spanloom.heads.span_encoder import Attention, MeanFeatures, sinusoids
from spanloom.layers.diffusion import spans_at
from spanloom.layers.matching import matched
from spanloom.options import decode_options, make
from spanloom.samples import generate
from spanloom.training import total_loss
from tests.heads.plain_diffusion import plain_of
from tests.strategies import mentions

TYPES = ("Finding", "Drug", "Zelle")
SIZES = [9, 1, 5, 0, 12, 5]
SMALL: dict[str, Any] = {"spans": 7, "train_spans": 5, "draws": 2, "steps": 3, "threshold": 0.0, "dropout": 0.0}

FORMS: list[dict[str, Any]] = [
    {},
    {"features": "mean"},
    {"eta": 0.0},
    {"pointers": "sigmoid", "repeat": True, "nil_weight": -1.0, "place": 0.0},
    {"self_attention": False},
    {"cross_attention": False},
    {"self_attention": False, "cross_attention": False, "layers": 1},
    {"layers": 0, "schedule": "linear", "steps": 1},
    {"nil_weight": -1.0, "expansion": "repeat", "noise_steps": 20},
]
"""Every ablation, and both ways of the rest."""

forms = pytest.mark.parametrize("options", FORMS, ids=lambda options: "-".join(options) or "as it is")


def sentence(size: int, *gold: Mention) -> Sentence:
    return Sentence(tuple(f"w{i}" for i in range(size)), tuple((3 * i, 3 * i + 2) for i in range(size)), gold)


def mention(type: str, start: int, end: int) -> Mention:
    return Mention(type, tuple(range(start, end)))


def scheme_of(types: tuple[str, ...] = TYPES, **options: Any) -> DiffusionScheme:
    return DiffusionScheme(Options(**{**SMALL, **options}), types)


def words_of(sizes: list[int], width: int = 16, seed: int = 0, dtype: torch.dtype = torch.float64) -> Words:
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(sizes, default=0)) < torch.tensor(sizes, dtype=torch.int64)[:, None]
    vectors = torch.randn(*mask.shape, width, generator=draw, dtype=torch.float64).to(dtype) * mask[..., None]
    return Words(vectors, mask, torch.zeros(len(sizes), width), torch.arange(len(sizes)) - 2)


def head_of(
    scheme: DiffusionScheme, width: int = 16, seed: int = 0, dtype: torch.dtype = torch.float64
) -> DiffusionHead:
    """A head whose pointers and types are well apart."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = DiffusionHead(scheme.options, scheme, Width(width, width)).to(dtype)
        with torch.no_grad():
            for name, weight in head.named_parameters():
                if weight.dim() > 1:
                    torch.nn.init.xavier_normal_(weight, 1.5)
                elif "norm" not in name:
                    weight.normal_(std=0.2)
    return head.train(False)


def targets_of(scheme: DiffusionScheme, sizes: list[int], seed: int = 1) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    gold = [[mention("Drug", n // 3, n), mention("Zelle", n // 2, n // 2 + 2)] if n > 3 else [] for n in sizes]
    made = [scheme.targets(sentence(n, *each), draw, Tally()) for n, each in zip(sizes, gold, strict=True)]
    return scheme.collate(made, max(sizes))


# targets


def test_targets_are_gold_and_noisy_spans() -> None:
    scheme, draw = scheme_of(draws=4), torch.Generator().manual_seed(1)
    one = sentence(9, mention("Zelle", 4, 6), mention("Drug", 0, 9), mention("Drug", 4, 5))
    targets = scheme.targets(one, draw, Tally())
    assert targets["gold"].tolist() == [[0, 9], [4, 5], [4, 6]]
    assert targets["classes"].tolist() == [2, 2, 3]
    assert targets["spans"].shape == (4, 5, 2)
    assert targets["times"].shape == (4,)
    start, end = targets["spans"].unbind(-1)
    assert ((start >= 0) & (start < end) & (end <= 9)).all()


def test_targets_depend_on_the_generator_alone() -> None:
    scheme, one = scheme_of(), sentence(9, mention("Drug", 2, 5))
    same, again, other = (scheme.targets(one, torch.Generator().manual_seed(n), Tally()) for n in (1, 1, 2))
    assert all(torch.equal(same[name], again[name]) for name in same)
    assert not torch.equal(same["spans"], other["spans"])


def test_early_times_leave_gold_as_it_is_and_late_ones_nothing_of_it() -> None:
    scheme, one = scheme_of(draws=2000, expansion="repeat"), sentence(30, mention("Drug", 7, 11))
    targets = scheme.targets(one, torch.Generator().manual_seed(1), Tally())
    apart = (targets["spans"] - torch.tensor([7, 11])).abs().sum(-1).double().mean(1)
    early, late = apart[targets["times"] < 50].mean(), apart[targets["times"] > 900].mean()
    assert early < 2 < 10 < late
    assert targets["times"].min() < 10
    assert targets["times"].max() > 989


def expanded(scheme: DiffusionScheme, size: int, *gold: tuple[int, int]) -> list[tuple[int, ...]]:
    """What stands where, before there is noise."""
    spans = torch.tensor(gold, dtype=torch.int64).view(-1, 2)
    points = scheme._expanded(spans, torch.tensor([size]), torch.Generator().manual_seed(1))
    assert points.shape == (scheme.options.train_spans, 2)
    return [tuple(span) for span in spans_at(points, torch.tensor([size])).tolist()]


def test_expansion_by_repetition() -> None:
    one, other, third = (0, 2), (1, 7), (3, 4)
    scheme = scheme_of(train_spans=8, expansion="repeat")
    found = expanded(scheme, 9, one, other, third)
    assert sorted(found) == found  # those of one entity stand together
    assert sorted(found.count(each) for each in (one, other, third)) == [2, 3, 3]
    assert expanded(scheme, 9) == [(0, 9)] * 8
    round_and_round = scheme_of(train_spans=8, repeat=True)
    assert expanded(round_and_round, 9, one, other, third) == [one, other, third] * 2 + [one, other]
    assert expanded(scheme_of(train_spans=2, expansion="repeat"), 9, one, other, third)[0] in (one, other, third)


def test_expansion_by_random_spans() -> None:
    scheme = scheme_of(train_spans=4000)
    found = torch.tensor(expanded(scheme, 1001, (3, 5)))
    assert found[0].tolist() == [3, 5]
    assert found[1:, 0].double().mean() == pytest.approx(500, abs=10)
    assert found[1:, 0].double().std() == pytest.approx(1000 / 6, abs=10)
    assert expanded(scheme, 1001)[0] == (0, 1001)
    shares = scheme._expanded(torch.tensor([[3, 5]]), torch.tensor([1001]), torch.Generator())[1:]
    assert shares[:, 1].min() == pytest.approx(2e-4 - 1)


def test_each_loss_has_its_reason() -> None:
    scheme, lost = scheme_of(("a", "b"), spans=3), Tally()
    gold = [("a", 0, 1, 2, 3), ("a", 0, 2), ("b", 5), ("a", 5), ("c", 0), ("a", 8, 9), ("a", 6)]
    targets = scheme.targets(sentence(12, *(Mention(type, tuple(at)) for type, *at in gold)), torch.Generator(), lost)
    assert lost.counts == {
        "discontinuous entities": 1,
        "second types of the same words": 1,
        "entities of unknown types": 1,
        "entities beyond the first 3 of a sentence": 1,
    }
    assert len(targets["gold"]) == 4  # to learn from all the same


def test_room_for_all_gold_is_made_by_the_training_sentences() -> None:
    training = [sentence(9), sentence(90, *(mention("a", i, i + 1) for i in range(70)))]
    options = DiffusionScheme(Options(), ("a",), training).options
    assert (options.train_spans, options.spans, options.overlap) == (70, 70, "flat")
    outlier = DiffusionScheme(Options(), ("a",), [*[training[0]] * 200, training[1]])
    assert (outlier.options.train_spans, outlier.options.spans) == (20, 70)  # it alone does not make all others dear
    targets = outlier.targets(training[1], torch.Generator().manual_seed(1), Tally())
    assert (len(targets["gold"]), targets["spans"].shape[1]) == (70, 20)
    options = DiffusionScheme(Options(), ("a",), training[:1]).options
    assert (options.train_spans, options.spans) == (20, 60)
    assert DiffusionScheme(Options(), ("a",)).options.overlap == "nested"
    for end, overlap in ((3, "no-crossing"), (5, "nested")):
        nesting = sentence(9, mention("a", 0, 4), mention("a", 2, end))
        assert DiffusionScheme(Options(), ("a",), [nesting]).options.overlap == overlap
        assert DiffusionScheme(Options(overlap="flat"), ("a",), [nesting]).options.overlap == "flat"


SIZED_GOLD = st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(mentions(n), max_size=8)))


@settings(max_examples=100)
@given(SIZED_GOLD, st.integers(1, 9))
def test_gold_comes_back_or_is_counted(case: tuple[int, list[Mention]], spans: int) -> None:
    n, gold = case
    types = tuple(sorted({mention.type for mention in gold})) or ("x",)
    scheme, lost = scheme_of(types, spans=spans, threshold=None), Tally()
    targets = scheme.collate([scheme.targets(sentence(n, *gold), torch.Generator().manual_seed(1), lost)], n)
    (found,) = scheme.decode(scheme.perfect(targets), lost)
    assert set(found) <= set(gold)
    assert len(found) + lost.total() == len(set(gold))


@pytest.mark.parametrize("shape", ["flat", "nested"])
def test_ceilings_of_the_samples(shape: str) -> None:
    found = [each for document in generate(shape, 200, 1)["train"] for each in align.sentences(document, Tally())]
    types = tuple(sorted({mention.type for each in found for mention in each.mentions}))
    result = ceiling(DiffusionScheme(Options(), types, found), found).result
    assert (result.micro.precision, result.micro.recall) == (100, 100)


# decoding

Candidate = tuple[int, int, int, float, float, float]

CASES: dict[str, list[Candidate]] = {
    "A": [(0, 1, 1, 0.95, 0.90, 0.82), (0, 1, 2, 0.90, 0.90, 0.85), (3, 3, 1, 0.60, 0.90, 0.99)],
    "B": [
        *((0, 4, 1, 0.99, 0.98, 0.97), (2, 3, 2, 0.95, 0.94, 0.93)),
        *((4, 6, 3, 0.90, 0.85, 0.90), (5, 6, 3, 0.90, 0.90, 0.90)),
    ],
    "C": [(4, 2, 1, 0.99, 0.99, 0.99), (1, 1, 0, 0.99, 0.99, 0.99), (1, 1, 3, 0.90, 0.90, 0.75)],
    "D": [(0, 0, 1, 0.99, 0.99, 0.60), (0, 0, 2, 0.80, 0.75, 0.90)],
    "E": [(2, 2, 1, 0.75, 0.875, 0.875), (3, 3, 1, 0.75, 0.875, 0.8749)],
}
"""(first word, last word, class | probabilities)"""

KEPT = [
    ("A", "nested", [(0, 1, 2)]),
    ("A", "flat", [(0, 1, 2)]),
    ("B", "nested", [(0, 4, 1), (2, 3, 2), (4, 6, 3), (5, 6, 3)]),
    ("B", "no-crossing", [(0, 4, 1), (2, 3, 2), (5, 6, 3)]),
    ("B", "flat", [(0, 4, 1), (5, 6, 3)]),
    ("C", "nested", [(1, 1, 3)]),
    ("C", "flat", [(1, 1, 3)]),
    ("D", "nested", []),
    ("D", "flat", []),
    ("E", "nested", [(2, 2, 1)]),
    ("E", "flat", [(2, 2, 1)]),
]


def candidates(*sentences: list[Candidate]) -> dict[str, torch.Tensor]:
    longest = max(map(len, sentences))
    padded = [[*each, *[(0, 0, 0, 1.0, 1.0, 1.0)] * (longest - len(each))] for each in sentences]
    table = torch.tensor(padded, dtype=torch.float64)
    spans = table[..., :2].long() + torch.tensor([0, 1])
    return {"spans": spans, "classes": table[..., 2].long(), "probability": table[..., 3:].float()}


@pytest.mark.parametrize(("case", "overlap", "expected"), KEPT)
def test_what_is_kept_of_the_worked_cases(case: str, overlap: Any, expected: list[tuple[int, int, int]]) -> None:
    scheme, lost = scheme_of(threshold=2.5 / 3, overlap=overlap), Tally()
    for order in (1, -1):  # ties apart, the order of spans is nothing
        (found,) = scheme.decode(candidates(CASES[case][::order]), lost)
        assert [(each.words[0], each.words[-1], TYPES.index(each.type) + 1) for each in found] == expected
    assert not lost.total()


def test_sentences_do_not_touch_each_other() -> None:
    scheme = scheme_of(threshold=2.5 / 3, overlap="flat")
    together = scheme.decode(candidates(*CASES.values()), Tally())
    assert together == [scheme.decode(candidates(each), Tally())[0] for each in CASES.values()]


def test_a_score_is_the_mean_of_three() -> None:
    (found,) = scheme_of().decode(candidates([(1, 2, 1, 0.5, 0.25, 0.75)]), Tally())
    assert found == [mention("Finding", 1, 3)]
    assert found[0].score == 0.5


def test_a_sum_of_equal_spans_decides_where_types_are_equally_sure() -> None:
    found = scheme_of().decode(candidates([(1, 2, 1, 0.5, 0.5, 0.75), (1, 2, 2, 0.5, 0.75, 0.75)]), Tally())
    assert found == [[mention("Drug", 1, 3)]]


def test_without_a_threshold_the_middle_one_is_taken() -> None:
    scheme = scheme_of(threshold=None)
    assert scheme.threshold == THRESHOLDS[len(THRESHOLDS) // 2] == 0.6
    found = scheme.decode(candidates([(1, 1, 1, 0.6, 0.7, 0.6), (2, 2, 1, 0.6, 0.5, 0.6)]), Tally())
    assert found == [[mention("Finding", 1, 2)]]


# the loss


def test_losses_of_the_worked_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two spans, one entity, two types: type logits, and the logits of the matched span's first and last words."""
    types = torch.tensor([[[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]])
    first = torch.tensor([[[2.0, -2.0, 0.0], [-9.0, -9.0, 9.0]]])
    last = torch.tensor([[[-1.0, 0.0, 3.0], [9.0, -9.0, -9.0]]])
    expected = {1.0: 0.395495, 0.1: 0.147345, -1.0: 0.395495}
    words = words_of([3])
    for pointers, nil in (("sigmoid", 1.0), ("sigmoid", 0.1), ("sigmoid", -1.0), ("softmax", 1.0)):
        scheme = scheme_of(TYPES[:2], train_spans=2, draws=1, pointers=pointers, nil_weight=nil, place=0.0)
        head = head_of(scheme)
        targets = scheme.collate([scheme.targets(sentence(3, mention("Finding", 0, 3)), torch.Generator(), Tally())], 3)
        monkeypatch.setattr(head, "pointed", lambda *_: (first, last))
        monkeypatch.setattr(head.types, "forward", lambda _: types)
        parts = head.loss(words, targets)
        assert parts["types"].sum.item() / 2 == pytest.approx(expected[nil], abs=1e-6)
        assert int(parts["types"].count) == int(parts["boundaries"].count) == 1
        boundary = 2.002000 if pointers == "sigmoid" else 0.208816
        assert parts["boundaries"].sum.item() == pytest.approx(boundary, abs=1e-6)


@pytest.mark.parametrize(
    ("progress", "share"), [(0.0, 1.0), (0.5, 1.0), (2 / 3, 1.0), (5 / 6, 0.5), (0.99, 0.03), (1.0, 0.0)]
)
def test_the_place_counts_for_nothing_in_the_end(
    progress: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What every word and type is as likely as, the place decides, and nothing when training ends."""
    scheme = scheme_of(train_spans=2, draws=1, place=2.0)
    head = head_of(scheme)
    head.progress = progress
    costs: list[torch.Tensor] = []

    def noting(table: torch.Tensor, *rest: Any) -> Any:
        costs.append(table)
        return matched(table, *rest)

    monkeypatch.setattr(diffusion, "matched", noting)
    targets = {
        "gold": torch.tensor([[[0, 2], [6, 8]]]),
        "classes": torch.tensor([[1, 2]]),
        "spans": torch.tensor([[[[5, 8], [0, 3]]]]),
        "times": torch.tensor([[3]]),
        "counts": torch.tensor([2]),
        "size": torch.tensor([8]),
    }
    logits, types = torch.zeros(1, 2, 8), torch.zeros(1, 2, 4)
    row, span, gold = head.match((logits, logits), types, targets)
    expected = torch.tensor([[[11 / 8, 1 / 8], [1 / 8, 11 / 8]]]) * 2 * share - 2 / 8 - 1 / 4
    assert torch.allclose(costs[0].float(), expected, atol=1e-6)
    if share:
        assert (row.tolist(), span.tolist(), gold.tolist()) == ([0, 0], [0, 1], [1, 0])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("nil", [0.1, -1.0, 0.0])
@pytest.mark.parametrize("repeat", [True, False])
def test_sentences_without_entities_have_a_finite_loss(training: bool, nil: float, repeat: bool) -> None:
    scheme = scheme_of(nil_weight=nil, repeat=repeat)
    head = head_of(scheme).train(training)
    for sizes, gold in (([4, 3, 0], ()), ([1], (mention("Drug", 0, 1),)), ([9, 0], (mention("Drug", 0, 9),))):
        each = [scheme.targets(sentence(n, *(gold if n else ())), torch.Generator(), Tally()) for n in sizes]
        words = words_of(sizes)
        words.vectors.requires_grad_()
        parts = head.loss(words, scheme.collate(each, max(sizes)))
        loss = total_loss(parts)
        assert torch.isfinite(loss)
        assert (loss > 0) == bool(gold or nil)
        assert int(parts["boundaries"].count) == len(gold) * 2 * (5 if repeat else 1)
        gradients = torch.autograd.grad(loss, [words.vectors, *head.parameters()], allow_unused=True)
        assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)
        for weight in head.parameters():
            weight.grad = None


def test_repeated_gold_leaves_no_span_without_an_entity() -> None:
    """And so the weight of no entity tells how many sentences have none."""

    def weighted(nil: float) -> DiffusionHead:
        return head_of(scheme_of(repeat=True, nil_weight=nil, draws=1, train_spans=6))

    head = weighted(-1.0)
    scheme = head.scheme
    for empty, weight in ((1, 7.0), (2, 3.0), (7, 1 / 7), (0, 0.0)):
        gold = [[mention("Drug", 1, 3), mention("Drug", 1, 4)] if n >= empty else [] for n in range(8)]
        made = [scheme.targets(sentence(6, *each), torch.Generator(), Tally()) for each in gold]
        targets = scheme.collate(made, 6)
        words = words_of([6] * 8)
        parts = head.loss(words, targets)
        assert int(parts["boundaries"].count) == 6 * (8 - empty)
        assert int(parts["types"].count) == 48
        plain = plain_of(head).loss(words, targets)
        assert parts["types"].sum.item() == pytest.approx(plain["types"].sum.item())
        zero, one = (weighted(w).loss(words, targets)["types"].sum for w in (0.0, 1.0))
        assert parts["types"].sum.item() == pytest.approx((zero + weight * (one - zero)).item())


# the fast form against the plain one


@forms
def test_scores_are_those_of_the_plain_form(options: dict[str, Any]) -> None:
    words = words_of(SIZES)
    for dtype, digits in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        head = head_of(scheme_of(**options), dtype=dtype)
        here = replace(words, vectors=words.vectors.to(dtype))
        with torch.no_grad():
            ours, theirs = head.scores(here), plain_of(head).scores(here)
        assert torch.equal(ours["spans"][words.mask.any(1)], theirs["spans"][words.mask.any(1)])
        assert torch.equal(ours["classes"], theirs["classes"])
        seen = words.mask.any(1)
        assert torch.allclose(ours["probability"][seen], theirs["probability"][seen].to(dtype), atol=digits)
        assert ours["probability"].dtype == dtype
        scheme = head.scheme
        assert scheme.decode(ours, Tally()) == scheme.decode(theirs, Tally())
        assert not scheme.decode(ours, Tally())[3]


@forms
@pytest.mark.parametrize("training", [True, False])
def test_losses_and_gradients_are_those_of_the_plain_form(options: dict[str, Any], training: bool) -> None:
    scheme = scheme_of(**options)
    head = head_of(scheme).train(training)
    head.progress = 0.8
    targets, sizes = targets_of(scheme, [6, 1, 9, 5]), [6, 1, 9, 5]
    told = []
    for each in (head, plain_of(head)):
        words = words_of(sizes)
        words.vectors.requires_grad_()
        parts = each.loss(words, targets)
        total_loss(parts).backward()
        told.append((parts, words.vectors.grad, {name: weight.grad for name, weight in each.named_parameters()}))
    (ours, to_words, to_weights), (theirs, plain_to_words, plain_to_weights) = told
    for name, part in ours.items():
        assert part.sum.item() == pytest.approx(theirs[name].sum.item())
        assert int(part.count) == int(theirs[name].count)
    assert torch.allclose(to_words, plain_to_words)
    for name, gradient in to_weights.items():
        assert gradient is not None, name
        assert torch.allclose(gradient, plain_to_weights[name]), name


def test_many_words_do_not_wear_off_the_mean() -> None:
    features = MeanFeatures(8, 0.0)
    vectors = torch.randn(1, 3000, 8, generator=torch.Generator().manual_seed(1)) + 5
    found = features(features.read(vectors), torch.tensor([[[[2990, 2992], [0, 3000]]]]))[0, 0]
    assert torch.allclose(found[0].float(), vectors[0, 2990:2992].mean(0), atol=1e-6)
    assert torch.allclose(found[1].float(), vectors[0].mean(0), atol=1e-5)


@pytest.mark.parametrize(("width", "heads"), [(16, 8), (12, 4), (7, 1), (2, 2)])
def test_any_width(width: int, heads: int) -> None:
    scheme = scheme_of()
    head = head_of(scheme, width)
    assert {each.heads for each in head.modules() if isinstance(each, Attention)} == {heads}
    words = words_of(SIZES, width)
    with torch.no_grad():
        assert torch.equal(head.scores(words)["classes"], plain_of(head).scores(words)["classes"])
    assert sinusoids(torch.arange(3), width).shape == (3, width)


def test_the_network_begins_as_it_should() -> None:
    head = DiffusionHead(Options(), DiffusionScheme(Options(), TYPES), Width(384, 384))
    # without the LSTM, which is the encoder's
    assert sum(weight.numel() for weight in head.parameters()) == pytest.approx(7.65e6 - 1.78e6, rel=0.02)
    attention = next(each for each in head.modules() if isinstance(each, Attention))
    assert attention.inward.weight.abs().max().item() == pytest.approx((6 / (4 * 384)) ** 0.5, rel=0.01)
    assert attention.out.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert head.types[0].weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert all(not weight.any() for name, weight in head.named_parameters() if name.endswith("bias"))


# noise, and what prediction depends on


def test_what_shares_the_batch_changes_nothing() -> None:
    """One by one, all together, and in another order and company."""
    sizes = [9, 1, 5, 12, 5, 30, 2, 17] * 2
    head = head_of(scheme_of(spans=20, steps=5), dtype=torch.float32)
    words = words_of(sizes, dtype=torch.float32)

    def some(which: list[int]) -> Words:
        longest = max(sizes[i] for i in which)
        rows = torch.tensor(which)
        return Words(
            *(words.vectors[rows, :longest], words.mask[rows, :longest], words.sentence[rows], words.keys[rows])
        )

    with torch.no_grad():
        whole = head.scores(words)
        order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(1)).tolist()
        for batches in ([[i] for i in range(len(sizes))], [order[at : at + 5] for at in range(0, len(sizes), 5)]):
            for which in batches:
                found = head.scores(some(which))
                for name in ("spans", "classes"):
                    assert torch.equal(found[name], whole[name][which])
                assert torch.allclose(found["probability"], whole["probability"][which], atol=1e-5)


def test_noise_goes_by_words_and_seed() -> None:
    words = words_of(SIZES)
    noise = head_of(scheme_of()).noise(words)
    assert noise.shape == (3, 6, 7, 2)
    assert noise.dtype == torch.float64
    assert torch.equal(head_of(scheme_of(), seed=5).noise(words), noise)
    assert not torch.allclose(head_of(scheme_of(seed=2)).noise(words), noise)
    other_keys = replace(words, keys=words.keys + 1)
    assert torch.equal(head_of(scheme_of()).noise(other_keys)[:, :-1], noise[:, 1:])
    at_random = [head_of(scheme_of()).noise(words, torch.Generator().manual_seed(n)) for n in (1, 1, 2)]
    assert torch.equal(at_random[0], at_random[1])
    assert not torch.allclose(at_random[0], at_random[2])


def test_more_spans_and_other_steps_begin_with_the_same_noise() -> None:
    words, few = words_of(SIZES), head_of(scheme_of()).noise(words_of(SIZES))
    assert torch.equal(head_of(scheme_of(spans=50)).noise(words)[:, :, :7], few)
    assert torch.equal(head_of(scheme_of(steps=9)).noise(words)[:3], few)
    assert torch.equal(head_of(scheme_of(eta=0.0)).noise(words), few[:1])


def test_without_spans_looking_at_each_other_more_of_them_change_nothing() -> None:
    words, results = words_of(SIZES), []
    for spans in (7, 30):
        with torch.no_grad():
            results.append(head_of(scheme_of(spans=spans, self_attention=False)).scores(words))
    for name, scores in results[0].items():
        assert torch.equal(scores, results[1][name][:, :7]) or torch.allclose(scores, results[1][name][:, :7])


def test_options_of_decoding_are_read_when_they_are_needed() -> None:
    words, head = words_of(SIZES), head_of(scheme_of())
    for options in ({"steps": 1}, {"spans": 11}, {"eta": 0.0}, {"seed": 7}):
        kept = replace(head.scheme.options, **options)
        other = head_of(DiffusionScheme(kept, TYPES))
        head.scheme = other.scheme
        with torch.no_grad():
            ours, theirs = head.scores(words), other.scores(words)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert ours["classes"].shape == (6, kept.spans)


def test_nothing_but_sentences_without_words() -> None:
    head = head_of(scheme_of())
    for sizes, n_words in (([0, 0], 1), ([], 1)):
        words = Words(
            torch.zeros(len(sizes), n_words, 16, dtype=torch.float64),
            *(torch.zeros(len(sizes), n_words, dtype=torch.bool), torch.zeros(len(sizes), 16)),
            torch.arange(len(sizes)),
        )
        with torch.no_grad():
            assert head.scheme.decode(head.scores(words), Tally()) == [[] for _ in sizes]


def test_one_word_is_found_and_nothing_is_inverted_there() -> None:
    head = head_of(scheme_of())
    with torch.no_grad():
        scores = head.scores(words_of([1, 1]))
    assert (scores["spans"] == torch.tensor([0, 1])).all()
    assert torch.isfinite(scores["probability"]).all()
    assert torch.allclose(scores["probability"][..., :2], torch.ones(1, dtype=torch.float64))


def test_in_half_precision_scores_stay_near_and_losses_finite() -> None:
    scheme = scheme_of()
    head, sizes = head_of(scheme, dtype=torch.float32), [9, 1, 5, 12]
    words, targets = words_of(sizes, dtype=torch.float32), targets_of(scheme, sizes)
    with torch.no_grad():
        exact = head.scores(words)
    with torch.autocast("cpu", torch.bfloat16):
        rough = head.train(True).loss(words, targets)
        with torch.no_grad():
            scores = head.train(False).scores(words)
    assert scores["probability"].dtype == torch.float32
    assert (scores["spans"] == exact["spans"]).double().mean() > 0.7
    parts = head.train(True).loss(words, targets)
    for name, part in rough.items():
        assert part.sum.dtype == torch.float32
        assert part.sum.item() == pytest.approx(parts[name].sum.item(), rel=0.1)
    total_loss(rough).backward()
    assert all(torch.isfinite(weight.grad).all() for weight in head.parameters())


# options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"schedule": "square"}, "head.schedule cannot be 'square'"),
        ({"steps": 0}, "head.steps 0: a number from 1 to 10000"),
        ({"spans": 20_000}, "head.spans 20000: a number from 1 to 10000"),
        ({"steps": 30, "noise_steps": 20}, "head.steps 30: there are only 20 times"),
        ({"eta": 1.5}, "head.eta 1.5: a share from 0 to 1"),
        ({"threshold": 2.5}, "head.threshold 2.5: a share from 0 to 1"),
        ({"nil_weight": -0.5}, "head.nil_weight -0.5: a number from 0 on, or -1"),
        ({"dropout": 1.0}, "head.dropout 1.0: a share from 0 to below 1"),
        ({"overlap": "some"}, "head.overlap cannot be 'some'"),
        ({"place": -1.0}, "head.place -1.0: a number from 0 on"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        make("head", Options, options)


@pytest.mark.parametrize("name", ["schedule", "expansion", "pointers", "features", "overlap"])
def test_wrong_options_are_refused_in_python_too(name: str) -> None:
    with pytest.raises(InputError, match=f"head.{name}: 'x' is not one of"):
        Options(**{name: "x"})


def test_what_may_change_on_a_trained_model() -> None:
    free = {"steps": 1, "spans": 5, "eta": 0.5, "seed": 3, "threshold": "0.5", "overlap": "flat"}
    assert decode_options(Options(), free) == Options(**{**free, "threshold": 0.5})
    trained = Options(threshold=0.5, overlap="flat")
    assert decode_options(trained, {"threshold": "none", "overlap": "auto", "steps": 2}) == replace(trained, steps=2)
    with pytest.raises(InputError, match="fixed in training"):
        decode_options(Options(), {"train_spans": 5})


def test_presets_are_those_of_the_table() -> None:
    assert set(FAMILY.presets) == {"ace04", "ace05", "genia", "conll03", "ontonotes", "msra"}
    for name, preset in FAMILY.presets.items():
        assert preset["head.threshold"] * 3 == 2.5
        assert preset["head.repeat"]
        assert preset["head.spans"] == preset["head.train_spans"] == (150 if name == "conll03" else 60)
        assert preset["training.encoder_lr"] == preset["training.head_lr"]
    assert FAMILY.presets["ontonotes"]["encoder.freeze"] == 0.5
    assert FAMILY.presets["genia"]["head.features"] == "mean"
