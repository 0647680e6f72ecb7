"""The tagger: round trips of gold, losses against a plain loop, decoding against all paths."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise, product
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.heads.base import Scheme
from spanloom.heads.tagger import FAMILY, Options, TaggerHead, TaggerScheme
from spanloom.heads.tags import TagScheme
from spanloom.layers import crf
from tests.strategies import flat_mentions, mentions

TYPES = ("Finding", "Drug", "A-B", "O", "Zelle", "基因")
DRAW = torch.Generator()
ALL_OPTIONS = [
    Options(crf=crf, tags=tags, legal=legal)
    for crf, tags, legal in product((False, True), get_args(TagScheme), (False, True))
]
every_option = pytest.mark.parametrize("options", ALL_OPTIONS, ids=str)


def sentence(size: int, gold: list[Mention]) -> Sentence:
    return Sentence(tuple(f"w{i}" for i in range(size)), tuple((3 * i, 3 * i + 2) for i in range(size)), tuple(gold))


def words(lengths: list[int], width: int = 7, padding: int = 0) -> Words:
    size = max(lengths, default=0) + padding
    mask = torch.arange(size) < torch.tensor(lengths, dtype=torch.int64)[:, None]
    vectors = torch.randn(len(lengths), size, width) * mask.unsqueeze(2)
    return Words(vectors, mask, torch.randn(len(lengths), width), torch.arange(len(lengths)))


def built(options: Options, types: tuple[str, ...] = ("x", "y")) -> tuple[TaggerScheme, TaggerHead]:
    torch.manual_seed(0)
    scheme = TaggerScheme(options, types)
    return scheme, TaggerHead(options, scheme, Width(7, 7))


def moves_of(head: TaggerHead) -> crf.Moves:
    """What the moves are worth to it; nothing without a CRF."""
    if head.chain is not None:
        return head.chain.moves()
    size = len(head.scheme.tags)
    return crf.Moves(torch.zeros(size, size), torch.zeros(size), torch.zeros(size))


def random_gold(scheme: TaggerScheme, lengths: list[int], size: int) -> dict[str, Tensor]:
    gold = [sentence(n, [Mention("y", tuple(range(n // 2, n)))] if n else []) for n in lengths]
    return scheme.collate([scheme.targets(one, DRAW, Tally()) for one in gold], size)


def all_paths(logits: Tensor, moves: crf.Moves, lawful: TaggerScheme | None) -> dict[tuple[int, ...], float]:
    """What each path through one sentence [n, K] is worth, term by term; with a scheme, of its legal paths."""
    legal = lawful.tags.legal() if lawful else None
    worth = {}
    for path in product(range(logits.shape[1]), repeat=len(logits)):
        if legal is None or is_legal(path, legal):
            inner = sum(moves.transitions[step].item() for step in pairwise(path))
            outer = moves.start[path[0]].item() + moves.end[path[-1]].item()
            worth[path] = logits[range(len(path)), path].sum().item() + inner + outer
    return worth


def is_legal(path: tuple[int, ...], legal: crf.Moves) -> bool:
    return bool(legal.start[path[0]] and legal.end[path[-1]] and all(legal.transitions[s] for s in pairwise(path)))


# Gold, there and back.


def through(options: Options, batch: list[Sentence], tally: Tally) -> list[list[Mention]]:
    scheme: Scheme = TaggerScheme(options, TYPES)
    targets = [scheme.targets(one, DRAW, tally) for one in batch]
    size = max(map(len, batch), default=0) + 1
    return scheme.decode(scheme.perfect(scheme.collate(targets, size)), tally)


@settings(max_examples=60)
@given(st.sampled_from(ALL_OPTIONS), st.data())
def test_flat_gold_comes_back(options: Options, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 10), max_size=4))
    batch = [sentence(size, data.draw(flat_mentions(size))) for size in sizes]
    tally = Tally()
    found = through(options, batch, tally)
    assert found == [list(one.mentions) for one in batch]
    assert all(mention.score == pytest.approx(1) for some in found for mention in some)
    assert tally.total() == 0


@settings(max_examples=60)
@given(st.sampled_from(ALL_OPTIONS), st.integers(1, 10), st.data())
def test_of_any_gold_the_outermost_comes_back(options: Options, size: int, data: st.DataObject) -> None:
    gold = data.draw(st.lists(mentions(size), max_size=8))
    tally = Tally()
    (found,) = through(options, [sentence(size, gold)], tally)
    assert set(found) <= set(gold)
    assert len(found) + tally.total() == len(set(gold))
    taken = {word for mention in found for word in mention.words}
    assert len(taken) == sum(len(mention.words) for mention in found)
    for lost in set(gold) - set(found):
        gap = lost.words[-1] - lost.words[0] >= len(lost.words)
        longest = max((len(m.words) for m in found if set(m.words) & set(lost.words)), default=0)
        assert gap or longest >= len(lost.words)


# The loss.


@every_option
@pytest.mark.parametrize("lengths", [[3, 2, 1], [2, 0, 3], [1]])
def test_loss_sentence_by_sentence(options: Options, lengths: list[int]) -> None:
    scheme, head = built(options)
    batch = words(lengths, padding=2)
    targets = random_gold(scheme, lengths, batch.mask.shape[1])
    part = head.loss(batch, targets)["tags"]
    expected = 0.0
    for row, length in enumerate(lengths):
        logits, gold = head.logits(batch.vectors[row, :length]).detach(), targets["tags"][row, :length].tolist()
        if options.crf and length:
            worth = all_paths(logits, moves_of(head), scheme if options.legal else None)
            expected += torch.tensor(list(worth.values())).logsumexp(0).item() - worth[tuple(gold)]
        else:
            expected -= sum(logits[i].log_softmax(-1)[tag].item() for i, tag in enumerate(gold))
    assert part.sum.item() == pytest.approx(expected, abs=1e-4)
    assert part.count.item() == sum(lengths)
    assert part.weight == 1.0


@every_option
@pytest.mark.parametrize("lengths", [[0, 0], []])
@pytest.mark.parametrize("padding", [0, 2])
def test_a_batch_without_words_teaches_nothing(options: Options, lengths: list[int], padding: int) -> None:
    scheme, head = built(options)
    batch = words(lengths, padding=padding)
    part = head.loss(batch, random_gold(scheme, lengths, padding))["tags"]
    assert (part.sum.item(), part.count.item()) == (0, 0)
    torch.autograd.backward(part.sum)
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in head.parameters())
    assert scheme.decode(head.scores(batch), Tally()) == [[] for _ in lengths]


@every_option
def test_gradients_reach_all_weights(options: Options) -> None:
    scheme, head = built(options)
    batch = words([5, 3])
    torch.autograd.backward(head.loss(batch, random_gold(scheme, [5, 3], 5))["tags"].sum)
    for parameter in head.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()
        assert parameter.grad.isfinite().all()


def test_a_legal_crf_learns_around_what_is_forbidden() -> None:
    """Where illegal paths have no mass, the gold's share can only be larger."""
    _, free = built(Options(crf=True))
    scheme, legal = built(Options(crf=True, legal=True))
    batch = words([5, 3])
    targets = random_gold(scheme, [5, 3], 5)
    assert legal.loss(batch, targets)["tags"].sum < free.loss(batch, targets)["tags"].sum


# Decoding.


@pytest.mark.parametrize("tags", get_args(TagScheme))
@pytest.mark.parametrize("weighed", [False, True], ids=["softmax", "crf"])
@pytest.mark.parametrize("legal", [False, True], ids=["free", "legal"])
def test_the_best_of_all_paths(tags: TagScheme, weighed: bool, legal: bool) -> None:
    """Found is what the best path spells, among legal paths only where that is asked for; scores are probabilities."""
    scheme, head = built(Options(weighed, tags, legal), ("x",))
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    with torch.inference_mode():
        scores = head.scores(words([4] * 12))
        found = scheme.decode(scores, Tally())
    for row, logits in enumerate(scores["logits"].log_softmax(-1)):
        worth = all_paths(logits, moves_of(head), scheme if legal else None)
        best = max(worth, key=lambda path: worth[path])
        spelt = scheme.tags.decode(torch.tensor([best]).numpy(), torch.ones(1, 4).bool().numpy())
        assert [(m.words[0], m.words[-1] + 1) for m in found[row]] == list(zip(spelt.start, spelt.end, strict=True))
        if weighed:
            share, paths = torch.tensor(list(worth.values())).softmax(0), torch.tensor(list(worth))
            probability = [share[paths[:, i] == tag].sum().item() for i, tag in enumerate(best)]
        else:
            probability = [logits[i, tag].exp().item() for i, tag in enumerate(best)]
        for mention in found[row]:
            assert mention.score == pytest.approx(min(probability[word] for word in mention.words), abs=1e-5)


@every_option
def test_a_forbidden_favourite_is_not_taken(options: Options) -> None:
    """Logits that spell I-x O I-y, and nothing else nearly as well."""
    scheme, _ = built(options)
    names = scheme.tags.names
    scores = scheme.perfect({"tags": torch.tensor([[names.index("I-x"), 0, names.index("I-y")]])})
    found = scheme.decode(scores, Tally())[0]
    assert found == ([] if options.legal else [Mention("x", (0,)), Mention("y", (2,))])


@every_option
def test_what_shares_the_batch_changes_nothing(options: Options) -> None:
    scheme, head = built(options)
    lengths = [6, 1, 0, 4, 9]
    batch = words(lengths, padding=3)
    with torch.inference_mode():
        together = scheme.decode(head.scores(batch), Tally())
        for row, length in enumerate(lengths):
            vectors, mask = batch.vectors[row : row + 1, :length], batch.mask[row : row + 1, :length]
            one = Words(vectors, mask, batch.sentence[row : row + 1], batch.keys[row : row + 1])
            (alone,) = scheme.decode(head.scores(one), Tally())
            assert alone == together[row]
            assert [m.score for m in alone] == pytest.approx([m.score for m in together[row]], abs=1e-6)
    assert any(together)


@pytest.mark.parametrize("legal", [False, True])
def test_ties_go_to_the_lower_tag(legal: bool) -> None:
    scheme, _ = built(Options(legal=legal))
    scores = {"logits": torch.tensor([[[0.0, 1, 0, 1, 0], [1.0, 0, 1, 0, 0]]]), "mask": torch.ones(1, 2).bool()}
    (found,) = scheme.decode(scores, Tally())
    assert found == [Mention("x", (0,))]
    assert found[0].score == pytest.approx(torch.e / (2 * torch.e + 3))


def test_legal_may_still_be_asked_of_a_trained_crf() -> None:
    """The scores are of the model alone; what is forbidden comes in at decoding."""
    _, head = built(Options(crf=True))
    strict, _ = built(Options(crf=True, legal=True))
    scores = head.scores(words([5]))
    assert set(scores) == {"logits", "mask", "transitions", "start", "end"}
    assert scores["transitions"].abs().max() <= 0.1
    assert len(strict.decode(scores, Tally())) == 1


@every_option
def test_half_precision(options: Options) -> None:
    scheme, head = built(options)
    batch = words([4, 2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        part, scores = head.loss(batch, random_gold(scheme, [4, 2], 4))["tags"], head.scores(batch)
        scheme.decode(scores, Tally())
    assert part.sum.dtype == torch.float32
    assert scores["logits"].dtype == torch.float32


# What is said of the family.


def test_options_are_checked_and_explained() -> None:
    with pytest.raises(InputError, match=r"head\.tags: 'bioes' is not one of bio, bilou"):
        Options(tags="bioes")  # type: ignore[arg-type]
    assert all(option.metadata["help"] for option in fields(Options))
    assert [option.name for option in fields(Options) if option.metadata.get("decode")] == ["legal"]


def test_presets_are_buildable() -> None:
    assert set(FAMILY.presets) == set(
        "conll03 conllpp conll04 ontonotes ace04 ace05 bc5cdr ncbi scierc wnut16 wnut17".split()
    )
    for preset in FAMILY.presets.values():
        head: dict[str, Any] = {
            name.removeprefix("head."): value for name, value in preset.items() if name.startswith("head.")
        }
        assert FAMILY.options(**head) == Options()


def test_shapes_and_cost() -> None:
    scheme: Scheme = TaggerScheme(Options(), ("x",))
    assert scheme.shapes == {"flat"}
    assert scheme.cost(12) == 12
