"""Sample corpora out of a seed: clinical notes, lab abstracts and news that nobody wrote.

For trying the software where there is no data yet. The text reads like the real thing, and the
annotation follows from the sentence as it reads; the names in dev and test are new, so that only
what was learned about the words around a name finds them.

    corpus = generate("nested", sentences=1200, seed=1)
    corpus["train"][0].text
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

from spanloom.align import WordSentence, from_words
from spanloom.document import Document, Mention
from spanloom.errors import InputError
from spanloom.samples.clinical import CLINICAL, PATIENTS
from spanloom.samples.grammar import Domain, Exhausted, Template, Writer, parse
from spanloom.samples.lab import LAB
from spanloom.samples.names import SPLITS, Names, invent
from spanloom.samples.news import NEWS

SHAPES = ("flat", "nested", "mixed")
FEWEST_SENTENCES = 10

_DOMAINS = (CLINICAL, LAB, NEWS)


class _Recipe(NamedTuple):
    """How often a sentence is of each kind; the rest is flat."""

    plain: float
    deep: float
    broken: float


_RECIPES = {
    "flat": _Recipe(plain=0.095, deep=0.20, broken=0.0),
    "nested": _Recipe(plain=0.095, deep=0.42, broken=0.0),
    "mixed": _Recipe(plain=0.095, deep=0.13, broken=0.20),
}


def generate(shape: str, sentences: int, seed: int) -> dict[str, list[Document]]:
    """A corpus of `sentences` sentences: 70 % train, 15 % dev, 15 % test.

    `shape` is "flat", "nested" (flat and nested) or "mixed" (overlapping and discontinuous as
    well). The same arguments give the same corpus, to the byte, on every machine.
    """
    if shape not in SHAPES:
        raise InputError(f"no shape {shape!r}; there are {', '.join(SHAPES)}")
    if sentences < FEWEST_SENTENCES:
        raise InputError(f"a sample needs at least {FEWEST_SENTENCES} sentences, not {sentences}")
    small = (sentences * 15 + 50) // 100
    sizes = {"train": sentences - 2 * small, "dev": small, "test": small}
    # The more sentences, the more names; few enough that most of them come back as another type.
    names = invent(min(4000, max(120, sentences // 8)), f"spanloom/{seed}")
    counters = dict.fromkeys((domain.name for domain in _DOMAINS), 0)
    corpus = {}
    for split in SPLITS:
        random = Random(f"spanloom/{shape}/{sentences}/{seed}/{split}")
        corpus[split] = list(_documents(shape, sizes[split], split, names[split], random, counters))
    return corpus


def _documents(
    shape: str, sentences: int, split: str, names: Names, random: Random, counters: dict[str, int]
) -> Iterator[Document]:
    desks = [_Desk(domain, Writer(_parsed(domain.rules), names, split, random), random) for domain in _DOMAINS]
    while sentences:
        length = min(sentences, 3 + int(random.random() * 7))
        if 0 < sentences - length < 3:
            length = sentences if sentences < 10 else sentences - 3
        desk = desks[int(random.random() * len(desks))]
        counters[desk.name] += 1
        written = desk.write(_RECIPES[shape], length)
        if shape == "flat":
            written = [sentence._replace(mentions=_outermost(sentence.mentions)) for sentence in written]
        yield from_words(f"{desk.name}-{counters[desk.name]:04d}", written)
        sentences -= length


class _Desk:
    """Writes the documents of one domain, without using a template twice in a document."""

    def __init__(self, domain: Domain, writer: Writer, random: Random) -> None:
        self.name, self._writer, self._random = domain.name, writer, random
        self._openings = _each(domain.openings)
        self._flat, self._deep, self._broken = _each(domain.flat), _each(domain.deep), _each(domain.broken)
        self._plain = _each(domain.plain)
        self._used: set[int] = set()

    def write(self, recipe: _Recipe, sentences: int) -> list[WordSentence]:
        self._used.clear()
        if self.name == CLINICAL.name:
            self._writer.bound = PATIENTS[int(self._random.random() * len(PATIENTS))]
        return [self._sentence(recipe, opening=not at) for at in range(sentences)]

    def _sentence(self, recipe: _Recipe, opening: bool) -> WordSentence:
        while True:
            template = self._unused(self._openings if opening else self._kind(recipe))
            with suppress(Exhausted):
                return self._writer.sentence(template)

    def _kind(self, recipe: _Recipe) -> list[Template]:
        draw = self._random.random()
        if draw < recipe.plain:
            return self._plain
        if draw < recipe.plain + recipe.deep:
            return self._deep
        return self._broken if draw < recipe.plain + recipe.deep + recipe.broken else self._flat

    def _unused(self, templates: list[Template]) -> Template:
        for _ in range(20):
            template = templates[int(self._random.random() * len(templates))]
            if id(template) not in self._used:
                break
        self._used.add(id(template))
        return template


def _each(sources: tuple[str, ...]) -> list[Template]:
    return [parse(source) for source in sources]


def _parsed(rules: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[Template, ...]]:
    return {rule: tuple(_each(alternatives)) for rule, alternatives in rules.items()}


def _outermost(mentions: Sequence[Mention]) -> list[Mention]:
    """Without what lies inside another: what is left of nested annotation in a flat corpus."""
    return [
        mention
        for mention in mentions
        if not any(other is not mention and set(mention.words) < set(other.words) for other in mentions)
    ]
