"""Plans of batches: nothing lost, equal work, the same for the same seed."""

from __future__ import annotations

import random
from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from spanloom.batching import cut, padded_cost, plan_epoch

COSTS = st.lists(st.integers(1, 600).map(float), min_size=1, max_size=300)


@given(COSTS, st.integers(1, 2000))
def test_a_cut_keeps_the_order_and_the_budget(costs: list[float], budget: int) -> None:
    order = list(range(len(costs)))
    random.Random(len(costs)).shuffle(order)
    batches = cut(costs, order, budget)
    assert list(chain.from_iterable(batches)) == order
    assert all(batches)
    for batch in batches:
        assert len(batch) == 1 or padded_cost(costs, batch) <= budget


@given(COSTS, st.integers(1, 2000))
def test_a_cut_goes_on_while_there_is_room(costs: list[float], budget: int) -> None:
    batches = cut(costs, range(len(costs)), budget)
    for batch, following in pairwise(batches):
        assert padded_cost(costs, [*batch, following[0]]) > budget


def test_nothing_makes_no_batch() -> None:
    assert cut([], [], 10) == []
    assert plan_epoch([], 4, "1/0") == []


@given(COSTS, st.integers(1, 40), st.integers(0, 9))
def test_every_sentence_is_seen_once_within_the_budget(costs: list[float], batch: int, seed: int) -> None:
    plan = plan_epoch(costs, batch, f"{seed}/0")
    assert sorted(chain.from_iterable(plan)) == list(range(len(costs)))
    budget = batch * sum(costs) / len(costs)
    for each in plan:
        assert len(each) == 1 or padded_cost(costs, each) <= budget


@given(COSTS, st.integers(1, 40), st.integers(1, 9))
def test_the_number_of_batches_is_a_multiple(costs: list[float], batch: int, multiple: int) -> None:
    plan = plan_epoch(costs, batch, "1/0", multiple)
    assert len(plan) % multiple == 0
    assert all(plan)
    seen = sorted(chain.from_iterable(plan))
    if len(costs) >= multiple * -(-len(plan_epoch(costs, batch, "1/0")) // multiple):
        assert seen == list(range(len(costs)))
    else:  # fewer sentences than batches: some are seen twice, none is left out
        assert set(seen) == set(range(len(costs)))
        assert all(len(each) == 1 for each in plan)


@given(COSTS, st.integers(1, 40), st.integers(1, 4))
def test_the_seed_alone_decides(costs: list[float], batch: int, multiple: int) -> None:
    plan = plan_epoch(costs, batch, "7/3", multiple)
    state = random.getstate()
    random.seed(1)
    assert plan_epoch(costs, batch, "7/3", multiple) == plan
    random.setstate(state)


def test_epochs_and_seeds_differ() -> None:
    costs = [float(1 + i % 40) for i in range(500)]
    plans = [plan_epoch(costs, 16, seed) for seed in ("1/0", "1/1", "2/0")]
    assert plans[0] != plans[1] != plans[2] != plans[0]


def test_batches_carry_equal_work() -> None:
    """With lengths as they are in real corpora, most batches are nearly full, and little of them is padding."""
    draw = random.Random(1)
    costs = [float(2 + int(draw.lognormvariate(3, 0.6))) for _ in range(5000)]
    plan = plan_epoch(costs, 16, "1/0")
    budget = 16 * sum(costs) / len(costs)
    work = sorted(padded_cost(costs, batch) for batch in plan)
    assert work[len(work) // 10] > 0.8 * budget
    assert sum(work) < 1.06 * sum(costs)
    assert 0.95 < len(plan) / (5000 / 16) < 1.15


def test_long_and_short_batches_are_mixed() -> None:
    costs = [float(1 + i % 50) for i in range(2000)]
    lengths = [len(batch) for batch in plan_epoch(costs, 8, "1/0")]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)
