"""Tiny language models for the tests of the encoder: each kind is built once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from spanloom.encoder.language_models import load
from tests.encoder import tiny

Loaded = tuple[PreTrainedModel, PreTrainedTokenizerFast]


@pytest.fixture(autouse=True, scope="package")
def one_thread() -> Iterator[None]:
    """Threads that wait for each other take longer than anything a tiny model does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny language model, by kind. Not to be changed."""
    return cache(lambda kind: tiny.save(kind, tmp_path_factory.mktemp(kind)))


@pytest.fixture(scope="session")
def loaded(folder_of: Callable[[str], Path]) -> Callable[[str], Loaded]:
    """A tiny language model and its tokenizer, by kind. Whoever changes it loads its own."""

    @cache
    def of(kind: str) -> Loaded:
        model, tokenizer = load(str(folder_of(kind)))
        return model.eval(), tokenizer

    return of
