"""Spanloom finds named entities of every shape in text: flat, nested, overlapping, discontinuous.

import spanloom

ner = spanloom.load("runs/b")
for entity in ner("Pain in the left knee.").entities:
    print(entity.type, entity.text, entity.fragments, entity.score)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanloom.predictor import load as load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> object:
    """`spanloom.load` brings torch along only when it is asked for."""
    if name == "load":
        from spanloom.predictor import load

        return load
    raise AttributeError(f"module 'spanloom' has no attribute {name!r}")
