"""Pooling over spans: the running form and the doubling form against a masked maximum, bit for bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spanloom.layers.span_pooling import Maxima, running_maxima


def masked(vectors: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Every word for every span, those outside masked: [K, W, d], then the maximum."""
    words = torch.arange(len(vectors))
    inside = (start[:, None] <= words) & (words < end[:, None])
    return vectors.expand(len(start), -1, -1).masked_fill(~inside[..., None], -torch.inf).amax(1)


def all_spans(n_words: int, longest: int) -> tuple[Tensor, Tensor]:
    spans = [(i, j) for i in range(n_words) for j in range(i + 1, min(n_words, i + longest) + 1)]
    start, end = torch.tensor(spans, dtype=torch.int64).reshape(-1, 2).unbind(1)
    return start, end


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 10**6))
def test_doubling_equals_the_masked_maximum_bit_for_bit(n_words: int, longest: int, seed: int) -> None:
    vectors = torch.randn(n_words, 5, generator=torch.Generator().manual_seed(seed))
    start, end = all_spans(n_words, longest)
    assert torch.equal(Maxima(vectors, longest).of(start, end), masked(vectors, start, end))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_doubling_equals_running(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    vectors = torch.randn(50, 7).to(dtype)
    maxima = Maxima(vectors, 50)
    for length, pooled in enumerate(running_maxima(vectors[None], 50), 1):
        start = torch.arange(50 - length + 1)
        assert torch.equal(maxima.of(start, start + length), pooled[0])


def test_gradients_are_those_of_the_masked_maximum() -> None:
    torch.manual_seed(0)
    vectors = torch.randn(20, 6, dtype=torch.float64, requires_grad=True)
    start, end = all_spans(20, 20)
    weight = torch.randn(len(start), 6, dtype=torch.float64)
    fast, slow = (
        torch.autograd.grad((pooled * weight).sum(), vectors)[0]
        for pooled in (Maxima(vectors, 20).of(start, end), masked(vectors, start, end))
    )
    torch.testing.assert_close(fast, slow, atol=3e-14, rtol=0)


@pytest.mark.parametrize(("n_words", "longest", "rows"), [(8, 8, 8 + 7 + 5 + 1), (8, 3, 8 + 7), (1, 9, 1), (0, 0, 0)])
def test_the_table_has_no_more_rows_than_are_asked_for(n_words: int, longest: int, rows: int) -> None:
    maxima = Maxima(torch.zeros(n_words, 2), longest)
    assert len(maxima.table) == rows
    nothing = torch.zeros(0, dtype=torch.int64)
    assert maxima.of(nothing, nothing).shape == (0, 2)
