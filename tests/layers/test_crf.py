"""The CRF against the sum over all paths, its gradients, and the obvious recursion."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from spanloom.layers.crf import LinearChain, Moves, log_partition, marginals, nll, path_score, restrict, viterbi

O, B, I = range(3)  # noqa: E741


def full(emissions: Tensor) -> Tensor:
    return torch.ones(emissions.shape[:2], dtype=torch.bool)


def random_moves(n_tags: int, draw: torch.Generator) -> Moves:
    return Moves(*(torch.randn(size, generator=draw) for size in ((n_tags, n_tags), (n_tags,), (n_tags,))))


def random_legal(n_tags: int, draw: torch.Generator) -> Moves:
    """Some moves forbidden, but for those of the first tag, so that a path is left."""
    legal = Moves(*(torch.rand(table.shape, generator=draw) > 0.4 for table in random_moves(n_tags, draw)))
    legal.transitions[0], legal.start[0], legal.end[0] = True, True, True
    return legal


@st.composite
def problems(draw: st.DrawFn, least: int = 0) -> tuple[Moves, Tensor, Tensor]:
    """A ragged batch that is small enough to list all paths."""
    n_tags = draw(st.integers(1, 4))
    lengths = torch.tensor(draw(st.lists(st.integers(least, 5), min_size=1, max_size=4)))
    padded = int(lengths.max()) + draw(st.integers(0, 2))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    moves = random_moves(n_tags, generator)
    if draw(st.booleans()):
        moves = restrict(moves, random_legal(n_tags, generator))
    emissions = draw(st.sampled_from([0.1, 2.0, 10.0, 100.0])) * torch.randn(
        len(lengths), padded, n_tags, generator=generator
    )
    return moves, emissions, torch.arange(padded) < lengths[:, None]


def all_paths(moves: Moves, emissions: Tensor) -> dict[tuple[int, ...], float]:
    """The score of each path through one sentence's emissions [n, K], term by term in float64."""
    transitions, start, end = (table.double() for table in moves)
    scores = {}
    for path in product(range(emissions.shape[1]), repeat=len(emissions)):
        score = start[path[0]] + end[path[-1]]
        score = score + sum(emissions[i, tag].double() for i, tag in enumerate(path))
        score = score + sum(transitions[a, b] for a, b in pairwise(path))
        scores[path] = float(score)
    return scores


def plain_log_partition(moves: Moves, emissions: Tensor) -> Tensor:
    """The slow twin: one sentence, log-sum-exp over a table of all moves, step by step."""
    sums = moves.start + emissions[0]
    for emission in emissions[1:]:
        sums = (sums[:, None] + moves.transitions).logsumexp(0) + emission
    return (sums + moves.end).logsumexp(0)


# The worked vectors.

EMISSIONS = torch.tensor([[[1.0, 2, 0], [0, 1, 2], [1, 0, 1]]])
MOVES = Moves(
    torch.tensor([[0.5, 0, -1], [0, -0.5, 1], [0.2, 0, 0.5]]),
    torch.tensor([0, 0.5, -1]),
    torch.tensor([0.3, 0, 0.1]),
)


def test_worked_vector() -> None:
    mask, gold = full(EMISSIONS), torch.tensor([[B, I, O]])
    assert log_partition(MOVES, EMISSIONS, mask).item() == pytest.approx(8.0618018, abs=2e-6)
    assert path_score(MOVES, EMISSIONS, gold, mask).item() == pytest.approx(7.0)
    assert nll(MOVES, EMISSIONS, gold, mask).item() == pytest.approx(1.0618018, abs=2e-6)
    best = viterbi(MOVES, EMISSIONS, mask)
    assert best.tolist() == [[B, I, I]]
    assert path_score(MOVES, EMISSIONS, best, mask).item() == pytest.approx(7.1)


def test_worked_vector_with_forbidden_moves() -> None:
    emissions = torch.tensor([[[3, 0, 0.5], [0, 0, 2], [0, 0, 1]]])
    mask = full(emissions)
    free = Moves(torch.zeros(3, 3), torch.zeros(3), torch.zeros(3))
    legal = Moves(torch.ones(3, 3, dtype=torch.bool), torch.tensor([True, True, False]), torch.ones(3).bool())
    legal.transitions[O, I] = False
    for moves, path, score, log_z in (
        (free, [O, I, I], 6.0, 6.9148625),
        (restrict(free, legal), [O, B, I], 4.0, 5.1734473),
    ):
        best = viterbi(moves, emissions, mask)
        assert best.tolist() == [path]
        assert path_score(moves, emissions, best, mask).item() == pytest.approx(score)
        assert log_partition(moves, emissions, mask).item() == pytest.approx(log_z, abs=2e-6)


def test_without_preferences_each_path_is_as_likely() -> None:
    emissions = torch.zeros(1, 7, 4)
    free = Moves(torch.zeros(4, 4), torch.zeros(4), torch.zeros(4))
    gold = torch.randint(4, (1, 7))
    assert nll(free, emissions, gold, full(emissions)).item() == pytest.approx(7 * torch.tensor(4.0).log().item())


# Against all paths.


@settings(max_examples=60)
@given(problems(least=1))
def test_all_paths(problem: tuple[Moves, Tensor, Tensor]) -> None:
    moves, emissions, mask = problem
    log_z, probabilities = log_partition(moves, emissions, mask), marginals(moves, emissions, mask)
    best = viterbi(moves, emissions, mask)
    best_score = path_score(moves, emissions, best, mask)
    worst_case = nll(moves, emissions, best, mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        scores = all_paths(moves, emissions[row, :length])
        listed = torch.tensor(list(scores.values()), dtype=torch.float64)
        assert log_z[row].item() == pytest.approx(listed.logsumexp(0).item(), abs=1e-4)
        path = tuple(best[row, :length].tolist())
        assert scores[path] == pytest.approx(max(scores.values()), abs=1e-4)
        assert best_score[row].item() == pytest.approx(scores[path], abs=1e-4)
        assert worst_case[row].item() == pytest.approx((listed.logsumexp(0) - listed.max()).item(), abs=2e-4)
        expected = torch.zeros(emissions.shape[1:], dtype=torch.float64)
        for path, probability in zip(scores, listed.softmax(0), strict=True):
            expected[range(length), path] += probability
        torch.testing.assert_close(probabilities[row].double(), expected, atol=1e-5, rtol=0)
    assert not best.masked_select(~mask).any()


@settings(max_examples=40)
@given(problems(), st.integers(0, 2**32))
def test_path_score_term_by_term(problem: tuple[Moves, Tensor, Tensor], seed: int) -> None:
    moves, emissions, mask = problem
    tags = torch.randint(emissions.shape[2], mask.shape, generator=torch.Generator().manual_seed(seed))
    scores = path_score(moves, emissions, tags.masked_fill(~mask, -100), mask)
    for row, length in enumerate(mask.sum(1).tolist()):
        path = tuple(tags[row, :length].tolist())
        expected = all_paths(moves, emissions[row, :length])[path] if length else 0
        assert scores[row].item() == pytest.approx(expected, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_the_slope_of_log_z_is_the_marginal(scale: float) -> None:
    draw = torch.Generator().manual_seed(5)
    moves = random_moves(5, draw)
    emissions = (scale * torch.randn(4, 9, 5, generator=draw)).requires_grad_()
    mask = torch.arange(9) < torch.tensor([[9], [4], [1], [0]])
    (slope,) = torch.autograd.grad(log_partition(moves, emissions, mask).sum(), emissions)
    probabilities = marginals(moves, emissions, mask)
    torch.testing.assert_close(slope, probabilities, atol=2e-6, rtol=0)
    torch.testing.assert_close(probabilities.sum(2), mask.float())


def test_slopes_of_the_moves_by_the_plain_recursion() -> None:
    draw = torch.Generator().manual_seed(6)
    emissions = 2 * torch.randn(3, 8, 5, generator=draw)
    mask = torch.arange(8) < torch.tensor([[8], [5], [1]])
    legal = random_legal(5, draw)
    ours, plain = (
        Moves(*(table.requires_grad_() for table in random_moves(5, torch.Generator().manual_seed(7)))) for _ in "ab"
    )
    batched = log_partition(restrict(ours, legal), emissions, mask)
    rows = zip(emissions, mask.sum(1), strict=True)
    one_by_one = torch.stack([plain_log_partition(restrict(plain, legal), row[:length]) for row, length in rows])
    slopes = (torch.autograd.grad(log_z.sum(), moves) for log_z, moves in ((batched, ours), (one_by_one, plain)))
    for slope, expected in zip(*slopes, strict=True):
        torch.testing.assert_close(slope, expected, atol=1e-5, rtol=1e-5)


# Ties, masks, lengths.


def test_ties_go_to_the_lower_tag() -> None:
    moves = Moves(torch.zeros(3, 3), torch.zeros(3), torch.zeros(3))
    emissions = torch.tensor([[[0.0, 1, 1], [2, 0, 2], [0, 0, 0]]])
    assert viterbi(moves, emissions, full(emissions)).tolist() == [[1, 0, 0]]


@settings(max_examples=40)
@given(problems(), st.sampled_from([0.0, float("nan"), float("inf"), 1e30]))
def test_batched_equals_single(problem: tuple[Moves, Tensor, Tensor], rubbish: float) -> None:
    moves, emissions, mask = problem
    dirty = emissions.masked_fill(~mask.unsqueeze(2), rubbish)
    batched = [f(moves, dirty, mask) for f in (log_partition, marginals, viterbi)]
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = emissions[row : row + 1, :length]
        log_z, probabilities, best = (f(moves, alone, full(alone)) for f in (log_partition, marginals, viterbi))
        torch.testing.assert_close(batched[0][row], log_z[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(batched[1][row, :length], probabilities[0], atol=1e-6, rtol=1e-5)
        assert batched[2][row, :length].tolist() == best[0].tolist()


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4), (0, 3, 4), (0, 0, 4)])
def test_no_words(shape: tuple[int, int, int]) -> None:
    """Sentences without words cost nothing and teach nothing."""
    chain = LinearChain(4)
    emissions = torch.full(shape, float("nan")).requires_grad_()
    mask = torch.zeros(shape[:2], dtype=torch.bool)
    tags = torch.full(shape[:2], -100)
    loss = chain(emissions, tags, mask)
    assert loss.tolist() == [0.0] * shape[0]
    slopes = torch.autograd.grad(loss.sum(), [emissions, *chain.parameters()], allow_unused=True)
    assert not any(slope is not None and slope.any() for slope in slopes)
    assert marginals(chain.moves(), emissions, mask).tolist() == torch.zeros(shape).tolist()
    assert viterbi(chain.moves(), emissions, mask).tolist() == torch.zeros(shape[:2]).tolist()


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_long_sentences(scale: float) -> None:
    draw = torch.Generator().manual_seed(8)
    moves = random_moves(9, draw)
    emissions = (scale * torch.randn(2, 500, 9, generator=draw)).requires_grad_()
    mask = torch.arange(500) < torch.tensor([[500], [317]])
    log_z = log_partition(moves, emissions, mask)
    (slope,) = torch.autograd.grad(log_z.sum(), emissions)
    probabilities = marginals(moves, emissions, mask)
    for row, length in enumerate([500, 317]):
        exact = Moves(*(table.double() for table in moves))
        twin = plain_log_partition(exact, emissions[row, :length].double())
        assert log_z[row].item() == pytest.approx(twin.item(), rel=1e-6)
        (expected,) = torch.autograd.grad(twin, emissions)
        torch.testing.assert_close(probabilities[row], expected[row], atol=1e-5, rtol=0)
        torch.testing.assert_close(slope[row], expected[row], atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_tags", [2, 11, 37])
def test_steps_of_probabilities_equal_log_sum_exp(n_tags: int) -> None:
    draw = torch.Generator().manual_seed(n_tags)
    moves = restrict(random_moves(n_tags, draw), random_legal(n_tags, draw))
    emissions = 5 * torch.randn(6, 40, n_tags, generator=draw)
    log_z = log_partition(moves, emissions, full(emissions))
    twin = torch.stack([plain_log_partition(moves, row) for row in emissions])
    torch.testing.assert_close(log_z, twin, atol=1e-4, rtol=1e-6)


def test_tags_that_hardly_anything_leads_to() -> None:
    """Probabilities out of float32's range must not be forgotten: later words may make up for them."""
    free = Moves(torch.zeros(3, 3), torch.zeros(3), torch.zeros(3))
    legal = Moves(torch.ones(3, 3).bool(), torch.tensor([True, True, False]), torch.ones(3).bool())
    legal.transitions[O, I] = False
    moves = restrict(free, legal)
    emissions = torch.tensor([[[0.0, 0, 100], [100, 0, 0], [0, 0, 100]]], requires_grad=True)
    # Seven legal paths are worth 100, four with an O in the middle, three with an I at the end.
    log_z = log_partition(moves, emissions, full(emissions))
    assert log_z.item() == pytest.approx(100 + torch.tensor(7.0).log().item())
    expected = torch.tensor([[[3.0, 4, 0], [4, 2, 1], [2, 2, 3]]]) / 7
    torch.testing.assert_close(torch.autograd.grad(log_z.sum(), emissions)[0], expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(marginals(moves, emissions, full(emissions)), expected, atol=1e-5, rtol=0)


# Precision and modes.


def test_half_precision_is_left_at_the_door() -> None:
    draw = torch.Generator().manual_seed(9)
    chain = LinearChain(5)
    emissions = torch.randn(3, 12, 5, generator=draw).bfloat16()
    mask = torch.arange(12) < torch.tensor([[12], [7], [1]])
    tags = torch.randint(5, (3, 12), generator=draw)
    expected = chain(emissions.float(), tags, mask), marginals(chain.moves(), emissions.float(), mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = chain(emissions, tags, mask), marginals(chain.moves(), emissions, mask)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        assert torch.equal(one, other)


def test_marginals_without_gradients() -> None:
    chain = LinearChain(4)
    emissions = torch.randn(2, 6, 4)
    expected = marginals(chain.moves(), emissions, full(emissions))
    with torch.inference_mode():
        assert torch.equal(marginals(chain.moves(), emissions, full(emissions)), expected)
        assert viterbi(chain.moves(), emissions, full(emissions)).shape == (2, 6)


def test_the_chain_starts_small_and_learns() -> None:
    torch.manual_seed(0)
    chain = LinearChain(3)
    assert all(parameter.abs().max() <= 0.1 for parameter in chain.parameters())
    tags = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 0]])
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    optimizer = torch.optim.Adam(chain.parameters(), lr=0.2)
    for _ in range(80):
        optimizer.zero_grad()
        torch.autograd.backward(chain(torch.zeros(2, 4, 3), tags, mask).sum())
        optimizer.step()
    (best,) = viterbi(chain.moves(), torch.zeros(1, 4, 3), mask[:1]).tolist()
    assert [(tag + 1) % 3 for tag in best[:-1]] == best[1:]
