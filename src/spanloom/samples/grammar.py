"""The engine: templates with marked entities, and the writer that fills them in.

A template is a line of words as they will be printed, with these marks between blanks:

- `{rule}` is replaced by one of the rule's alternatives, which are templates themselves.
- `{rule?}` is left out half the time. `{3-40}` is a number, and may stick to other text: `{3-40}-year-old`.
- `{name}`, `{code}`, `{generic}` are invented names of the split that is being written.
- `[Type ... ]` is an entity; it may hold others.
- `[1:Type ... ]` is a fragment of entity 1 of this template, `[1,2:Type ... ]` one that entities 1 and 2
  share: `[1,2:Finding pain in the ] [1:Finding left knee ] and [2:Finding hip ]`.

**Unseen entities.** Each text of words belongs to one split for good, by a checksum. An entity that
holds an invented name, or another entity, or `{rule!}` (a rule whose text must belong to the split)
is new on that account; any other entity is drawn again until its text belongs to the split.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar
from zlib import crc32

from spanloom.align import WordSentence
from spanloom.document import Mention
from spanloom.samples.names import Names


@dataclass(frozen=True)
class Domain:
    """What is written in one field: sentence templates by what their entities do, and their vocabulary."""

    name: str
    openings: tuple[str, ...]
    """First sentences of a document; flat."""
    flat: tuple[str, ...]
    deep: tuple[str, ...]
    """Entities inside entities."""
    broken: tuple[str, ...]
    """Entities in fragments, and those that overlap with them."""
    plain: tuple[str, ...]
    """No entity at all, however much it looks like one."""
    rules: Mapping[str, tuple[str, ...]]


class Text(NamedTuple):
    words: tuple[str, ...]


class Number(NamedTuple):
    """A word with numbers in it: "{40-80}-year-old" is the format "{}-year-old" with one range."""

    format: str
    ranges: tuple[tuple[int, int], ...]


class Slot(NamedTuple):
    rule: str
    optional: bool
    fresh: bool


class Mark(NamedTuple):
    """An entity, or with `numbers` a fragment of one or more entities of the template."""

    type: str
    numbers: tuple[int, ...]
    body: Template


Node = Text | Number | Slot | Mark
Template = tuple[Node, ...]
Choice = TypeVar("Choice", str, Template)

_RANGE = re.compile(r"\{(\d+)-(\d+)\}")


def parse(source: str) -> Template:
    """The tree of a template; ValueError where its marks do not close."""
    stack: list[list[Node]] = [[]]
    heads: list[tuple[str, tuple[int, ...]]] = []
    for token in source.split():
        if token.startswith("["):
            numbers, _, type = token[1:].rpartition(":")
            heads.append((type, tuple(int(number) for number in numbers.split(",") if number)))
            stack.append([])
        elif token == "]":
            if not heads:
                raise ValueError(f"closes what is not open: {source}")
            body = tuple(stack.pop())
            stack[-1].append(Mark(*heads.pop(), body))
        elif _RANGE.search(token):
            ranges = tuple((int(low), int(high)) for low, high in _RANGE.findall(token))
            stack[-1].append(Number(_RANGE.sub("{}", token), ranges))
        elif token.startswith("{"):
            rule = token[1:-1]
            stack[-1].append(Slot(rule.rstrip("?!"), rule.endswith("?"), rule.endswith("!")))
        elif stack[-1] and isinstance(last := stack[-1][-1], Text):
            stack[-1][-1] = Text((*last.words, token))
        else:
            stack[-1].append(Text((token,)))
    if heads:
        raise ValueError(f"does not close [{heads[-1][0]}: {source}")
    return tuple(stack[0])


_OWNERS = ("train",) * 14 + ("dev",) * 3 + ("test",) * 3


def owner(words: list[str]) -> str:
    """The split that a text belongs to: 14 texts in 20 to train, 3 each to dev and test."""
    return _OWNERS[crc32(" ".join(words).lower().encode()) % 20]


class Exhausted(Exception):  # noqa: N818 - not an error: another template will do
    """The split owns no text that this template could still say, or is very slow to find it."""


_PATIENCE = 300


class Writer:
    """Writes the sentences of one split in one domain."""

    def __init__(self, rules: Mapping[str, tuple[Template, ...]], names: Names, split: str, random: Random) -> None:
        self._rules, self._names, self._split, self._random = rules, names._asdict(), split, random
        self._words: list[str] = []
        self._mentions: list[Mention] = []
        self._said: list[str | Template] = []
        self._fresh = 0
        self.bound: dict[str, str] = {}
        """Rules that mean one word throughout a document, such as "he"."""

    def sentence(self, template: Template) -> WordSentence:
        """A sentence with its entities; without any, it is drawn again until its text belongs to the split."""
        for _ in range(_PATIENCE):
            self._words, self._mentions, self._said = [], [], []
            self._expand(template)
            if self._mentions or owner(self._words) == self._split:
                return self._finished()
        raise Exhausted

    def _finished(self) -> WordSentence:
        words = self._words
        words[0] = words[0][0].upper() + words[0][1:]
        for at, word in enumerate(words):
            if word in ("a", "A"):
                words[at] = article(word, words[at + 1])
        return WordSentence(words, sorted(self._mentions, key=lambda mention: (mention.words, mention.type)))

    def _expand(self, template: Template) -> None:
        fragments: dict[tuple[int, str], list[int]] = {}
        self._write(template, fragments)
        for (_, type), at in fragments.items():
            self._mentions.append(Mention(type, tuple(at)))

    def _write(self, template: Template, fragments: dict[tuple[int, str], list[int]]) -> None:
        words = self._words
        for node in template:
            if isinstance(node, Text):
                words.extend(node.words)
            elif isinstance(node, Slot):
                if not node.optional or self._random.random() < 0.5:
                    self._fill(node)
            elif isinstance(node, Number):
                draws = (low + int(self._random.random() * (high + 1 - low)) for low, high in node.ranges)
                words.append(node.format.format(*draws))
            elif node.numbers:
                start = len(words)
                self._write(node.body, fragments)
                for number in node.numbers:
                    fragments.setdefault((number, node.type), []).extend(range(start, len(words)))
            else:
                start = len(words)
                self._write_fresh(node.body, fragments)
                self._mentions.append(Mention(node.type, tuple(range(start, len(words)))))

    def _fill(self, slot: Slot) -> None:
        if (word := self.bound.get(slot.rule)) is not None:
            self._words.extend(word.split())
        elif (pool := self._names.get(slot.rule)) is not None:
            self._words.append(self._unsaid(pool))
            self._fresh += 1
        elif slot.fresh:
            self._write_fresh((Slot(slot.rule, optional=False, fresh=False),), {})
        else:
            self._expand(self._unsaid(self._rules[slot.rule]))

    def _write_fresh(self, template: Template, fragments: dict[tuple[int, str], list[int]]) -> None:
        """Writes what the other splits have not: see "Unseen entities" above."""
        words, mentions, said, fresh = len(self._words), len(self._mentions), len(self._said), self._fresh
        for _ in range(_PATIENCE):
            self._write(template, fragments)
            if self._fresh > fresh:
                return
            if owner(self._words[words:]) == self._split:
                self._fresh += 1
                return
            del self._words[words:], self._mentions[mentions:], self._said[said:]
        raise Exhausted

    def _unsaid(self, choices: tuple[Choice, ...]) -> Choice:
        """One of the choices, a name or plain words only if this sentence does not have them yet."""
        for _ in range(8):
            choice = choices[int(self._random.random() * len(choices))]
            if choice not in self._said:
                break
        if isinstance(choice, str) or (len(choice) == 1 and isinstance(choice[0], Text)):
            self._said.append(choice)
        return choice


_SPELLED_WITH_VOWEL = frozenset("AEFHILMNORSX")


def article(word: str, following: str) -> str:
    """The article by the sound that follows: "an MRI", "a CT", "an aunt", "a uniform"."""
    if following.isupper() and len(following) > 1:
        vowel = following[0] in _SPELLED_WITH_VOWEL
    else:
        vowel = following[0].lower() in "aeiou" and not following.lower().startswith(("uni", "one", "eu", "use"))
        vowel = vowel or following.startswith(("8", "11-", "18-", "hour", "honest"))
    return word + "n" if vowel else word
