"""The heads whose speed is measured, with their options, their plain twins, and what is hoped of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spanloom.heads import family_of
from spanloom.runs import Run, resolve

sys.path.append(str(Path(__file__).parents[1]))  # the plain twins are the tests'

from tests.heads import plain_diffusion, plain_locate_label, plain_w2ner


@dataclass(frozen=True, slots=True)
class System:
    """A head with options, and what is hoped of it: whole over encoder, and training step over encoder."""

    head: str
    options: dict[str, Any]
    whole: str = ""
    step: str = ""
    encoder: dict[str, Any] = field(default_factory=dict)
    twin: Callable[[Any], Any] | None = None
    twin_targets: tuple[str, ...] = ()
    """Of scores, and of loss and gradients; a twin whose loss is for reading alone has the first only."""

    def run(self, corpus: str, partner: System | None = None, **training: Any) -> Run:
        given = {"head": self.options, "encoder": self.encoder, "training": training}
        if partner is None:
            return resolve(corpus, self.head, None, [given])
        return resolve(corpus, self.head, None, [{**given, "partner": partner.options}], partner.head)


def of_preset(head: str, preset: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a preset's head and encoder, but for the language model and how it is read."""
    values = family_of(head).presets[preset]
    own = {name.removeprefix("head."): value for name, value in values.items() if name.startswith("head.")}
    return own, {"lstm": values["encoder.lstm"]}


WIDE, WIDE_ENCODER = of_preset("w2ner", "genia")

SYSTEMS = {
    "softmax": System("tagger", {"crf": False}, "<= 1.20", "<= 1.25"),
    "crf": System("tagger", {"crf": True}, "<= 1.30", "<= 1.25"),
    "span": System("span", {}, "<= 1.35", "<= 1.40"),
    "w2ner": System("w2ner", {}, twin=plain_w2ner.plain_of, twin_targets=(">= 3", ">= 2")),
    "w2ner-genia": System(
        "w2ner", WIDE, "<= 2.20", encoder=WIDE_ENCODER, twin=plain_w2ner.plain_of, twin_targets=(">= 3", ">= 2")
    ),
    "locate-label": System("locate-label", {}, "<= 1.80", twin=plain_locate_label.plain_of, twin_targets=(">= 4",)),
    "diffusion": System("diffusion", {}, twin=plain_diffusion.plain_of, twin_targets=(">= 2", ">= 2")),
    "diffusion-1": System(
        "diffusion", {"steps": 1, "spans": 30}, twin=plain_diffusion.plain_of, twin_targets=(">= 2", ">= 2")
    ),
}

BUNDLES = (("span", "softmax"), ("locate-label", "softmax"), ("w2ner", "span"))
"""Hosts with their partners."""
