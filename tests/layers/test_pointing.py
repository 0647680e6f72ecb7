"""Words for spans, some at a time: the same scores and gradients as all at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from spanloom.layers import pointing
from spanloom.layers.pointing import point


def plain(words: Tensor, spans: Tensor, weight: Tensor) -> Tensor:
    return (words[:, None] + spans[:, :, None]).relu() @ weight


def parts(shape: tuple[int, int, int, int], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    n, k, m, d = shape
    draw = torch.Generator().manual_seed(1)
    made = [torch.randn(*size, generator=draw, dtype=dtype) for size in ((n, m, d), (n, k, d), (d,))]
    words, spans, weight = (each.requires_grad_() for each in made)
    return words, spans, weight


SHAPES = [(2, 7, 5, 4), (1, 1, 1, 1), (3, 4, 0, 2), (2, 0, 3, 2), (0, 3, 2, 2)]


@pytest.mark.parametrize("at_once", [1, 100, 1 << 18])
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_and_gradients(shape: tuple[int, int, int, int], at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setitem(pointing.AT_ONCE, "cpu", at_once)
    given = parts(shape)
    ours, theirs = point(*given), plain(*given)
    assert torch.allclose(ours, theirs)
    with torch.no_grad():
        assert torch.equal(point(*given), ours)
    wanted = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2), dtype=ours.dtype)
    for one, other in zip(
        torch.autograd.grad(ours, given, wanted), torch.autograd.grad(theirs, given, wanted), strict=True
    ):
        assert torch.allclose(one, other)


def test_the_gradient_is_that_of_small_differences() -> None:
    assert torch.autograd.gradcheck(point, parts((2, 3, 4, 3)))


def test_autocast_leaves_it_alone() -> None:
    given = parts((2, 3, 4, 8), torch.float32)
    exact = point(*given)
    with torch.autocast("cpu", torch.bfloat16):
        rough = point(*given)
        with torch.no_grad():
            assert torch.equal(point(*given), exact)
    assert torch.equal(rough, exact)
    for one, other in zip(
        torch.autograd.grad(rough.sum(), given), torch.autograd.grad(exact.sum(), given), strict=True
    ):
        assert torch.equal(one, other)
