"""The grid head: vectors of the specification, round trips, and the fast forms against the plain ones."""

from __future__ import annotations

import string
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from spanloom import align
from spanloom.ceilings import ceiling
from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.heads import family_of
from spanloom.heads.grid import MOST_MENTIONS, MOST_PATHS, TRUNCATED
from spanloom.heads.w2ner import (
    NO_CELL,
    NONE,
    PRESETS,
    GridHead,
    GridScheme,
    Options,
    distances,
    of_like_length,
    pairs,
)
from spanloom.layers import conditional_layer_norm
from spanloom.layers.biaffine import Biaffine
from spanloom.layers.conditional_layer_norm import ConditionalLayerNorm, pair_products
from spanloom.options import make
from spanloom.samples import generate
from tests.heads.plain_w2ner import plain_class, plain_of

X, Y = 2, 3
Cells = dict[tuple[int, int], int]


def labels_of(n: int, cells: Cells) -> dict[str, torch.Tensor]:
    labels = torch.zeros(1, n, n, dtype=torch.int64)
    for place, label in cells.items():
        labels[0, place[0], place[1]] = label
    return {"labels": labels, "probability": torch.ones(1, n, n)}


def spelt(mentions: list[Mention]) -> list[str]:
    return sorted("".join(string.ascii_uppercase[word] for word in each.words) + ":" + each.type for each in mentions)


def edges(*found: tuple[int, int]) -> Cells:
    return dict.fromkeys(found, 1)


V4 = {**edges((0, 2), (2, 3), (1, 2), (2, 4)), (3, 0): X, (4, 1): X}
ALL = edges(*((i, j) for i in range(5) for j in range(i + 1, 5)))

VECTORS: dict[str, tuple[int, Cells, list[str]]] = {
    "flat": (5, {(0, 1): 1, (3, 4): 1, (1, 0): X, (4, 3): X}, ["AB:X", "DE:X"]),
    "nested": (5, {(0, 1): 1, (1, 2): 1, (2, 0): X, (2, 1): X}, ["ABC:X", "BC:X"]),
    "overlapping": (5, {**edges((0, 1), (1, 2), (1, 3)), (2, 0): X, (3, 0): X}, ["ABC:X", "ABD:X"]),
    "two discontinuous": (5, V4, ["ACD:X", "BCE:X"]),
    "two more ends": (5, {**V4, (4, 0): X, (3, 1): Y}, ["ACD:X", "ACE:X", "BCD:Y", "BCE:X"]),
    "one word": (5, {(2, 2): X}, ["C:X"]),
    "one word inside": (5, {(1, 1): X, (0, 1): 1, (1, 0): Y}, ["AB:Y", "B:X"]),
    "type from the end": (5, {**edges((0, 1), (1, 2)), (2, 0): X, (2, 1): Y, (0, 0): Y}, ["A:Y", "ABC:X", "BC:Y"]),
    "two interiors": (5, {**edges((0, 1), (1, 4), (0, 2), (2, 4)), (4, 0): X}, ["ABE:X", "ACE:X"]),
    "lossy, 1": (
        5,
        {**edges((0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (2, 4)), (4, 0): X},
        ["ABCDE:X", "ABCE:X", "ACDE:X", "ACE:X"],
    ),
    "lossy, 2": (
        5,
        {**edges((0, 1), (1, 2), (2, 3), (0, 2)), (3, 0): X, (2, 0): X},
        ["ABC:X", "ABCD:X", "AC:X", "ACD:X"],
    ),
    "lossy, 3": (
        6,
        {**edges((0, 1), (1, 3), (3, 4), (0, 2), (2, 3), (3, 5)), (4, 0): X, (5, 0): X},
        ["ABDE:X", "ABDF:X", "ACDE:X", "ACDF:X"],
    ),
    "no path": (5, {(3, 1): X, (1, 2): 1}, []),
    "no end": (5, edges((0, 1), (1, 2)), []),
    "wrong side": (5, {(2, 0): 1, (1, 1): 1, (3, 3): 1, (0, 2): X}, []),
    "past the end": (5, {**edges((0, 1), (1, 4), (1, 2), (2, 3)), (3, 0): X}, ["ABCD:X"]),
    "dead branch": (5, {**edges((0, 1), (1, 2), (0, 3), (3, 4)), (2, 0): X}, ["ABC:X"]),
    "all there is": (
        5,
        {**ALL, (4, 0): X},
        sorted("A" + "".join(inner) + "E:X" for k in range(4) for inner in combinations("BCD", k)),
    ),
    "one word, alone": (1, {(0, 0): X}, ["A:X"]),
    "no word": (0, {}, []),
    "aching in legs and shoulders": (5, {**edges((0, 1), (1, 2), (1, 4)), (2, 0): X, (4, 0): X}, ["ABC:X", "ABE:X"]),
    "two types": (5, {(0, 1): 1, (1, 0): Y}, ["AB:Y"]),
}


def scheme(types: str = "XY", **options: object) -> GridScheme:
    return GridScheme(make("head", Options, options), list(types))


def sentence(n: int, *mentions: Mention) -> Sentence:
    words = tuple(string.ascii_uppercase[:n]) if n <= 26 else tuple(map(str, range(n)))
    return Sentence(words, tuple((at, at + 1) for at in range(n)), mentions)


def round_trip(of: GridScheme, one: Sentence, width: int | None = None) -> tuple[list[Mention], Tally]:
    lost = Tally()
    targets = of.targets(one, torch.Generator(), lost)
    return of.decode(of.perfect(of.collate([targets], width or len(one))), lost)[0], lost


@pytest.mark.parametrize("name", VECTORS)
def test_cells_spell_these_mentions(name: str) -> None:
    n, cells, expected = VECTORS[name]
    lost = Tally()
    assert spelt(scheme().decode(labels_of(n, cells), lost)[0]) == expected
    assert not lost.total()


@pytest.mark.parametrize(
    ("gold", "cells"),
    [
        (["AB:X", "DE:X"], VECTORS["flat"][1]),
        (["ABC:X", "BC:X"], VECTORS["nested"][1]),
        (["ACD:X", "BCE:X"], V4),
        (["ABE:X", "ACE:X"], VECTORS["two interiors"][1]),
        (["AB:X", "AB:Y"], VECTORS["two types"][1]),
        (["B:X", "AB:Y"], VECTORS["one word inside"][1]),
    ],
)
def test_mentions_become_these_cells(gold: list[str], cells: Cells) -> None:
    mentions = [
        Mention(each.split(":")[1], tuple(string.ascii_uppercase.index(c) for c in each.split(":")[0])) for each in gold
    ]
    targets = scheme().targets(sentence(5, *mentions), torch.Generator(), Tally())
    assert {(row, column): label for row, column, label in targets["cells"].tolist()} == cells


def test_what_the_grid_cannot_hold_is_counted() -> None:
    both = sentence(4, Mention("X", (0, 1)), Mention("Y", (0, 1)), Mention("Z", (2,)))
    found, lost = round_trip(scheme(), both)
    assert spelt(found) == ["AB:Y"]
    assert lost.counts == {"second types of the same first and last word": 1, "entities of unknown types": 1}


def test_without_next_words_gaps_are_counted() -> None:
    of = scheme(use_nnw=False)
    found, lost = round_trip(of, sentence(5, Mention("X", (0, 2)), Mention("Y", (1, 2, 3)), Mention("X", (4,))))
    assert spelt(found) == ["BCD:Y", "E:X"]
    assert lost.counts == {"discontinuous entities": 1}
    assert of.n_labels == 3
    assert "discontinuous" not in of.shapes
    assert "discontinuous" in scheme().shapes


def test_a_score_is_the_least_of_its_cells() -> None:
    scores = labels_of(5, {**edges((0, 1), (1, 3)), (3, 0): X, (4, 4): Y})
    scores["probability"] = torch.full((1, 5, 5), 0.5)
    for place, value in {(0, 1): 0.9, (1, 3): 0.75, (3, 0): 0.8, (4, 4): 0.6}.items():
        scores["probability"][0, place[0], place[1]] = value
    long, single = scheme().decode(scores, Tally())[0]
    assert (long.words, single.words) == ((0, 1, 3), (4,))
    assert (long.score, single.score) == pytest.approx((0.75, 0.6))


def brute_force(labels: torch.Tensor, first_type: int = 2) -> set[tuple[tuple[int, ...], int]]:
    """Every subset of the words, asked whether the grid says it."""
    n = len(labels)
    found = set()
    for size in range(1, n + 1):
        for words in combinations(range(n), size):
            label = int(labels[words[-1], words[0]])
            if label >= first_type and all(labels[i, j] == 1 for i, j in pairwise(words)):
                found.add((words, label))
    return found


@given(st.integers(1, 8), st.integers(0, 10**6), st.floats(0.1, 1.0))
def test_decoding_finds_what_brute_force_finds(n: int, seed: int, density: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (3, n, n), generator=draw) * (torch.rand(3, n, n, generator=draw) < density)
    lost = Tally()
    found = scheme().decode({"labels": labels, "probability": torch.ones(3, n, n)}, lost)
    assert not lost.total()
    for of_sentence, grid in zip(found, labels, strict=True):
        assert len(set(of_sentence)) == len(of_sentence)
        assert {(each.words, 2 + "XY".index(each.type)) for each in of_sentence} == brute_force(grid)


@st.composite
def gold(draw: st.DrawFn, discontinuous: bool = True) -> Sentence:
    n = draw(st.integers(1, 12))
    words = st.sets(st.integers(0, n - 1), min_size=1, max_size=5).map(lambda each: tuple(sorted(each)))
    spans = words.map(lambda each: tuple(range(each[0], each[-1] + 1)))
    mention = st.builds(Mention, st.sampled_from("XY"), words if discontinuous else spans)
    return sentence(n, *draw(st.lists(mention, max_size=6)))


@given(gold(discontinuous=False), st.integers(0, 3))
def test_what_has_no_gap_comes_back(one: Sentence, padding: int) -> None:
    found, lost = round_trip(scheme(), one, len(one) + padding)
    once = dict.fromkeys(one.mentions)
    places = {(each.words[0], each.words[-1]): each for each in once}  # the last of two types stays
    assert set(found) == set(places.values())
    assert lost.total() == len(set(one.mentions)) - len(places)


@given(gold())
def test_what_is_counted_is_all_that_is_missing(one: Sentence) -> None:
    """What comes back in excess has the ends of something that was there."""
    found, lost = round_trip(scheme(), one)
    assert len(set(one.mentions) - set(found)) == lost.total()
    ends = {(each.words[0], each.words[-1], each.type) for each in one.mentions}
    assert {(each.words[0], each.words[-1], each.type) for each in found} <= ends


def test_dense_grids_are_bounded_and_told() -> None:
    n = 60
    every = torch.ones(n, n, dtype=torch.int64)
    every[n - 1, 0] = X  # 2 ** 58 paths
    lost = Tally()
    found = scheme().decode({"labels": every[None], "probability": torch.ones(1, n, n)}, lost)[0]
    assert len(found) == MOST_PATHS
    assert lost.counts == {TRUNCATED: 1}
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (40, n, n), generator=draw)
    lost = Tally()
    found_in = scheme().decode({"labels": labels, "probability": torch.ones(40, n, n)}, lost)
    assert all(len(each) <= MOST_MENTIONS + n for each in found_in)
    assert lost.counts == {TRUNCATED: 40}


def test_a_bound_on_one_pair_leaves_the_others() -> None:
    n = 20
    labels = torch.zeros(n, n, dtype=torch.int64)
    labels[:12, :12] = torch.ones(12, 12).triu(1).long()
    labels[11, 0] = X  # 1,024 paths
    labels[13, 14] = 1
    labels[14, 13] = Y
    lost = Tally()
    found = scheme().decode({"labels": labels[None], "probability": torch.ones(1, n, n)}, lost)[0]
    assert len(found) == MOST_PATHS + 1
    assert Mention("Y", (13, 14)) in found
    assert lost.counts == {TRUNCATED: 1}


def test_classes_of_distance() -> None:
    n = 601
    found = distances(n, torch.device("cpu"))
    assert found[0].tolist() == [plain_class(-j) for j in range(n)]
    assert found[:, 0].tolist() == [plain_class(i) for i in range(n)]
    assert (found[1:, 1:] == found[:-1, :-1]).all()  # by the difference alone
    assert (found[600, 0], found[0, 600]) == (9, 18)
    assert distances(0, torch.device("cpu")).shape == (0, 0)


def test_pairs_and_collating() -> None:
    assert pairs(torch.tensor([2, 0]), 3).sum((1, 2)).tolist() == [4, 0]
    of = scheme()
    batch = [of.targets(sentence(n, Mention("X", (0,))), torch.Generator(), Tally()) for n in (1, 3)]
    labels = of.collate(batch, 3)["labels"]
    assert (labels != NO_CELL).sum((1, 2)).tolist() == [1, 9]
    assert labels[:, 0, 0].tolist() == [X, X]


def test_groups_hold_every_sentence_once() -> None:
    groups = of_like_length([10, 40, 0, 39, 9, 11, 40])
    assert [(group.which, group.n_words, group.ragged) for group in groups] == [
        ([1, 6, 3], 40, True),
        ([5, 0, 4], 11, True),
    ]
    assert of_like_length([5, 5]) == [([0, 1], 5, False)]
    assert of_like_length([0]) == []


ABLATIONS: list[dict[str, object]] = [
    {},
    {"use_region": False},
    {"use_distance": False},
    {"use_region": False, "use_distance": False},
    {"dilations": ()},
    {"dilations": (2, 3)},
    {"use_biaffine": False},
    {"use_mlp": False},
    {"use_nnw": False},
]
SMALL = {"channels": 6, "hidden": 10, "biaffine": 7}
LENGTHS = [9, 1, 5, 0, 8, 5]


def random_words(lengths: list[int], width: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Words:
    draw = torch.Generator().manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    vectors = torch.randn(len(lengths), max(lengths), width, generator=draw, dtype=dtype) * mask[..., None]
    return Words(vectors, mask, vectors[:, 0], torch.zeros(len(lengths), dtype=torch.int64))


def random_head(of: GridScheme, width: int = 12, dtype: torch.dtype = torch.float64) -> GridHead:
    torch.manual_seed(1)
    head = GridHead(of.options, of, Width(width, width)).to(dtype)
    with torch.no_grad():
        for weight in head.parameters():
            weight.normal_(std=0.4)
    return head.train(False)


def random_targets(of: GridScheme, lengths: list[int]) -> dict[str, torch.Tensor]:
    gold = [
        sentence(n, *[Mention("X", (0, n - 1)), Mention("Y", tuple(range(n // 2, n)))] if n > 2 else [])
        for n in lengths
    ]
    return of.collate([of.targets(each, torch.Generator(), Tally()) for each in gold], max(lengths))


@pytest.mark.parametrize("options", ABLATIONS, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_fast_equals_plain(options: dict[str, object], training: bool) -> None:
    """Loss, all gradients, and decisions; in training with channel dropout, which falls on the same channels."""
    drops = {"dropout": 0.0, "channel_dropout": 0.4 if training else 0.0}
    of = scheme(**SMALL, **options, **drops)
    lengths = [9, 9, 9] if training else LENGTHS  # one group, so that both draw alike
    head = random_head(of).train(training)
    plain = plain_of(head)
    targets = random_targets(of, lengths)
    losses = []
    for each in (head, plain):
        words = random_words(lengths, 12)
        words.vectors.requires_grad_()
        torch.manual_seed(5)
        part = each.loss(words, targets)["cells"]
        part.sum.backward()
        losses.append((part, words.vectors.grad))
    (fast, of_words), (slow, of_plain_words) = losses
    assert fast.sum.item() == pytest.approx(slow.sum.item(), rel=1e-10)
    assert fast.count == slow.count
    torch.testing.assert_close(of_words, of_plain_words, rtol=1e-9, atol=1e-10)
    for (name, one), other in zip(head.named_parameters(), plain.parameters(), strict=True):
        if name.endswith("distances.weight"):
            assert (one.grad[0] == 0).all()
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-10)
    if not training:
        one, other = (each.scores(random_words(lengths, 12)) for each in (head, plain))
        assert (one["labels"] == other["labels"]).all()
        cells = pairs(torch.tensor(lengths), max(lengths))
        torch.testing.assert_close(one["probability"][cells], other["probability"][cells].float())
        assert len(one["labels"].unique()) > 2


def test_gradients_in_bf16_are_those_of_fp32_whatever_memory_held_before() -> None:
    of = scheme(**SMALL | {"channels": 64}, dropout=0.0, channel_dropout=0.0)
    torch.manual_seed(3)
    head = GridHead(of.options, of, Width(12, 12))
    for n in (34, 51, 52, 57, 64):
        words, targets = random_words([n, n, n], 12, dtype=torch.float32), random_targets(of, [n, n, n])
        norms = []
        for enabled in (False, True):
            head.zero_grad()
            del_me = [torch.full((size,), 1e20) for size in (1000, 10_000, 65_536, 300_000, 1_000_000)]
            del del_me  # what is handed out next without being cleared is not small
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                part = head.loss(words, targets)["cells"]
            (part.sum / part.count).backward()
            norms.append(torch.stack([weight.grad.norm() for weight in head.parameters() if weight.grad is not None]))
        torch.testing.assert_close(norms[1], norms[0], rtol=0.25, atol=2e-3)


def test_what_shares_a_batch_changes_nothing_in_fp32() -> None:
    of = scheme(**SMALL)
    head = random_head(of, dtype=torch.float32)
    together = head.scores(random_words(LENGTHS, 12, dtype=torch.float32))
    words = random_words(LENGTHS, 12, dtype=torch.float32)
    for at, n in enumerate(LENGTHS):
        if n:
            alone = head.scores(
                Words(words.vectors[at : at + 1, :n], words.mask[at : at + 1, :n], words.sentence, words.keys)
            )
            torch.testing.assert_close(alone["probability"][0], together["probability"][at, :n, :n], rtol=0, atol=1e-5)
            assert (alone["labels"][0] == together["labels"][at, :n, :n]).all()


def test_without_the_mask_padding_would_be_seen() -> None:
    """The test above can fail: what stands in the padding of a grid leaks in through the convolutions."""
    head = random_head(scheme(**SMALL), dtype=torch.float32)
    words = random_words([6, 8], 12, dtype=torch.float32)
    masked, bare = (head.predictor(words.vectors, cells) for cells in (pairs(torch.tensor([6, 8]), 8), None))
    assert (masked[0, :6, :6] - bare[0, :6, :6]).abs().max() > 1e-3
    torch.testing.assert_close(masked[1], bare[1])


def test_a_batch_without_words_has_a_loss_of_nothing() -> None:
    of = scheme(**SMALL)
    words = random_words([1, 1], 12)
    words = Words(words.vectors, torch.zeros_like(words.mask), words.sentence, words.keys)
    targets = {"labels": torch.full((2, 1, 1), NO_CELL), "size": torch.zeros(2, dtype=torch.int64)}
    part = random_head(of).loss(words, targets)["cells"]
    assert (part.sum.item(), part.count.item()) == (0, 0)
    assert random_head(of).scores(words)["labels"].tolist() == [[[0]], [[0]]]


@pytest.mark.parametrize("block", [1, 40, 10**6])
def test_products_of_pairs(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_layer_norm, "BLOCK", block)
    torch.manual_seed(0)
    one, other = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(3, 6, 5, dtype=torch.float64)
    weight = torch.randn(2, 5, dtype=torch.float64)
    expected = torch.einsum("bik,bjk,ok->bijo", one, other, weight)
    torch.testing.assert_close(pair_products(one, other, weight), expected)
    inputs = [each.requires_grad_() for each in (one, other, weight)]
    assert torch.autograd.gradcheck(pair_products, inputs)


def test_the_norm_begins_without_a_condition() -> None:
    norm = ConditionalLayerNorm(5).double()
    vectors = torch.randn(2, 3, 5, dtype=torch.float64)
    normal, gain, bias = norm(vectors)
    assert (gain == 1).all()
    assert (bias == 0).all()
    torch.testing.assert_close(normal.mean(-1), torch.zeros(2, 3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(normal.var(-1, unbiased=False), torch.ones(2, 3, dtype=torch.float64))


def test_biaffine_is_the_product_with_ones() -> None:
    torch.manual_seed(0)
    layer = Biaffine(4, 3).double()
    one, other = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(2, 6, 4, dtype=torch.float64)
    padded = [torch.cat([each, torch.ones(*each.shape[:2], 1)], -1) for each in (one, other)]
    expected = torch.einsum("bih,rhk,bjk->bijr", padded[0], layer.weight, padded[1])
    torch.testing.assert_close(layer(one, other), expected)
    assert layer.weight.std().item() == pytest.approx((2 / (5 * (5 + 3))) ** 0.5, rel=0.3)


@pytest.mark.parametrize(
    ("preset", "encoder", "types", "parameters"),
    [
        ("conll03", 1024, 4, 10_360_824),
        ("ace05", 1024, 7, 20_246_942),
        ("genia", 768, 5, 5_270_106),
        ("cadec", 768, 1, 4_017_762),
        ("resume-zh", 768, 8, 5_926_112),
    ],
)
def test_presets_have_the_published_number_of_parameters(
    preset: str, encoder: int, types: int, parameters: int
) -> None:
    values = family_of("w2ner").presets[preset]
    options = make("head", Options, {name[5:]: value for name, value in values.items() if name.startswith("head.")})
    lstm = PRESETS[preset].lstm
    with torch.device("meta"):
        of = GridScheme(options, list(string.ascii_letters[:types]))
        modules = [nn.LSTM(encoder, lstm // 2, bidirectional=True), GridHead(options, of, Width(lstm, encoder))]
    assert sum(weight.numel() for module in modules for weight in module.parameters()) == parameters


@pytest.mark.parametrize(
    "options",
    [
        {"channels": 0},
        {"hidden": 0},
        {"biaffine": 0},
        {"dropout": 1.0},
        {"channel_dropout": -0.1},
        {"dilations": (0,)},
        {"use_mlp": False, "use_biaffine": False},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"head\."):
        make("head", Options, options)


def test_options_come_from_texts() -> None:
    assert make("head", Options, {"dilations": "1,2", "use_nnw": "false"}) == replace(
        Options(), dilations=(1, 2), use_nnw=False
    )
    assert make("head", Options, {"dilations": ""}).dilations == ()


@pytest.mark.parametrize("shape", ["flat", "nested", "mixed"])
def test_ceilings_of_the_samples(shape: str) -> None:
    found = [each for document in generate(shape, 200, 1)["train"] for each in align.sentences(document, Tally())]
    types = sorted({mention.type for each in found for mention in each.mentions})
    result = ceiling(GridScheme(Options(), types), found).result
    assert result.micro.recall > 99
    assert result.micro.precision > 99


CEILINGS = {  # recall and precision, to three places
    "craft": {"train": (99.490, 99.975), "dev": (99.722, None), "test": (99.550, None)},
    "genia": {"train": (99.986, 100.0), "dev": (100.0, 100.0), "test": (100.0, 100.0)},
}


@pytest.mark.parametrize(("corpus", "split"), [("craft", "dev"), ("genia", "dev"), ("genia", "train")])
def test_ceilings_of_real_corpora(corpus: str, split: str, corpora) -> None:
    from spanloom.segment import Segmenter
    from spanloom.training import read_split

    found = read_split(str(corpora / corpus), split, Segmenter(), aloud=False) or []
    types = sorted({mention.type for each in found for mention in each.mentions})
    scorer = ceiling(GridScheme(Options(), types), found).result
    recall, precision = CEILINGS[corpus][split]
    assert round(scorer.micro.recall, 3) == recall
    assert precision is None or round(scorer.micro.precision, 3) == precision


@pytest.mark.parametrize("options", [{}, {"use_mlp": False}, {"use_biaffine": False}])
def test_at_first_most_pairs_of_words_have_no_label(options: dict[str, bool]) -> None:
    of, words = scheme(**options), random_words([9, 7], 12)
    torch.manual_seed(1)
    head = GridHead(of.options, of, Width(12, 12)).double().train(False)
    assert (head.scores(words)["labels"] == NONE).double().mean() > 0.9


@pytest.mark.parametrize(("label", "ratio"), [(NONE, 1), (2, 3)])
def test_a_pair_with_a_label_weighs_as_told(label: int, ratio: int) -> None:
    words, targets = random_words([3], 12), {"labels": torch.full((1, 3, 3), label), "size": torch.tensor([3])}
    once, more = (
        random_head(scheme(label_weight=weight)).loss(words, targets)["cells"].sum.item() for weight in (1, 3)
    )
    assert more == pytest.approx(ratio * once)
