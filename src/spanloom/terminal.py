"""Text on a terminal: what may be shown of it, how wide it is, where its rows end, and in which colours.

A document is somebody else's text. What would move the cursor, hide or reorder characters is replaced
before it is printed, one character for one, so that every offset stays true.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from zlib import crc32

from spanloom.document import Span

UNKNOWN = "\ufffd"
"""Stands for what must not be shown; where that cannot be encoded, a question mark does."""


class Shown(dict[int, str]):
    """A table for `str.translate`, one character for one, so that offsets stay true."""

    def __init__(self, unknown: str) -> None:
        # Hangul fillers are letters that nobody sees.
        super().__init__({ord(blank): " " for blank in "\t\v\f\r\x85\u2028\u2029\u3164\uffa0"} | {ord("\n"): "\n"})
        self.unknown = unknown

    def __missing__(self, code: int) -> str:
        # Control, format (bidi, zero width), surrogate, private and unassigned: moves, hides or has no known width.
        character = chr(code)
        self[code] = self.unknown if unicodedata.category(character)[0] == "C" else character
        return self[code]


TABLES = {unknown: Shown(unknown) for unknown in (UNKNOWN, "?")}
VARIATION_SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))
"""They change the width of what they follow, in some terminals only; deleted when a text is put out."""


def printable(text: str, unknown: str = UNKNOWN) -> str:
    """`text` in its own length and lines, with nothing in it that a terminal would obey."""
    return text.translate(TABLES[unknown])


class Widths(dict[str, int]):
    """Cells a character takes: two for most of East Asia and emoji, none for combining marks."""

    def __missing__(self, character: str) -> int:
        from rich.cells import cell_len

        self[character] = cell_len(character)
        return self[character]


WIDTHS = Widths()


def cells(text: str) -> int:
    return len(text) if text.isascii() else sum(map(WIDTHS.__getitem__, text))


# ---- rows ----


@dataclass(frozen=True, slots=True)
class Row:
    """One row of text: the characters [start, end); what was blank at its end is not drawn."""

    start: int
    end: int
    columns: Sequence[int]
    """The cells before each character of the line that the row was cut from."""
    line: int
    """Where that line starts in the text."""

    def column(self, character: int) -> int:
        return self.columns[character - self.line] - self.columns[self.start - self.line]

    @property
    def width(self) -> int:
        return self.column(self.end)


def wrap(text: str, width: int) -> list[Row]:
    """The text in rows: lines stay lines, long ones break at a blank, between wide characters, or hard."""
    rows = []
    at = 0
    for line in text.split("\n"):
        # A range is a list of columns that costs nothing.
        columns = range(len(line) + 1) if line.isascii() else [0, *accumulate(map(WIDTHS.__getitem__, line))]
        for start, end in breaks(line, columns, width):
            rows.append(Row(at + start, at + end, columns, at))
        at += len(line) + 1
    return rows


def breaks(line: str, columns: Sequence[int], width: int) -> Iterator[Span]:
    """Where the rows of one line start and end, blanks at their ends left out."""
    start, length = 0, len(line.rstrip(" "))
    while columns[length] - columns[start] > width:
        limit = bisect_right(columns, columns[start] + width) - 1
        cut = limit
        if line[limit] != " " and not WIDTHS[line[limit]] == WIDTHS[line[limit - 1]] == 2:
            blank = line.rfind(" ", start, limit)
            if blank > start and not line[start:blank].isspace():
                cut = blank
        yield start, start + len(line[start:cut].rstrip(" "))
        start = cut
        while line[start] == " ":
            start += 1
    yield start, length


# ---- colours ----

PALETTE = (32, 166, 28, 133, 160, 30, 99, 94, 168, 64, 61, 131)
"""Colours of a 256-colour terminal that can be read on black and on white."""

given: dict[str, int] = {}
"""The colours handed out so far: a type keeps its colour from document to document."""


def colours_of(types: Iterable[str]) -> dict[str, int]:
    """A colour a type, by its name; another one as long as there are any where two names want the same."""
    colours = {}
    for type in sorted(set(types)):
        at = crc32(type.encode(errors="surrogatepass")) % len(PALETTE)
        if type not in given and len(given) < len(PALETTE):
            turns = PALETTE[at:] + PALETTE[:at]
            given[type] = next(colour for colour in turns if colour not in given.values())
        colours[type] = given.get(type, PALETTE[at])
    return colours


def painted(text: str, colour: int | None) -> str:
    return text if colour is None or not text else f"\x1b[38;5;{colour}m{text}\x1b[39m"
