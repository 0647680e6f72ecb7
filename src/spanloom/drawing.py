r"""Entities drawn under their text, so that nested, overlapping and discontinuous ones can be told apart.

    Severe pain in the left knee and hip was reported by Dr. Marlow .
                       ╰───────╯ Location                ╰────────╯ Person
           ╰───────────────────╯ Finding
           ╰──────────────╯╌╌╌╌╌╌╌╌╌╌╰─╯ Finding

The text is cut into rows; under each row lie lanes, the inner entities nearest to the text. A bracket without
a corner goes on in the next row, dots join the fragments of one entity, and an arrow at the border of a row
says that the dots go on beyond it. `Finding#1` and `Finding#2` are told apart by number only where two
entities of one type cross the same border.

Nothing of a document reaches the terminal raw: what would move the cursor, hide or reorder text is replaced.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, count, groupby
from operator import itemgetter
from typing import NamedTuple

from spanloom.document import Document, Entity, Span
from spanloom.terminal import UNKNOWN, VARIATION_SELECTORS, WIDTHS, Row, cells, colours_of, painted, printable, wrap


class Pen(NamedTuple):
    """The marks of a drawing, each one cell wide."""

    left: str
    line: str
    right: str
    single: str
    dots: str
    resumed: str
    continued: str
    cut: str
    unknown: str


BOX = Pen("╰", "─", "╯", "┴", "╌", "‹", "›", "…", UNKNOWN)
ASCII = Pen("\\", "_", "/", "|", ".", "<", ">", "~", "?")
NARROWEST = 20


def draw(document: Document, width: int = 80, colour: bool = False, unicode: bool = True) -> str:
    """The document's text with its entities beneath, in rows of at most `width` (at least 20) cells.

    With `unicode=False` the marks are ASCII; the characters of the text stay its own.
    """
    if not document.text:
        return "(empty)"
    pen = BOX if unicode else ASCII
    text = printable(document.text, pen.unknown)
    width = max(width, NARROWEST)
    rows = wrap(text, width)
    strokes = trace(document.entities, rows, width, pen)
    colours = colours_of(entity.type for entity in document.entities) if colour else {}
    while len(rows) > 1 and rows[-1].width == 0 and len(rows) - 1 not in strokes:
        rows.pop()  # the line break at the end of a file
    drawn: list[str] = []
    for number, row in enumerate(rows):
        beneath = sorted(strokes.get(number, ()), key=lambda stroke: stroke.order)
        drawn.append(coloured(text, row, beneath, colours))
        lanes = pack(beneath, width, pen)
        drawn.extend(lane.drawn(colours) for lane in lanes)
        if lanes and number + 1 < len(rows) and rows[number + 1].width:
            drawn.append("")
    return "\n".join(drawn)


# ---- labels ----


def label_of(type: str, pen: Pen) -> str:
    """A type's name on one line; even a nameless type has to be seen."""
    return " ".join(printable(type, pen.unknown).translate(VARIATION_SELECTORS).split()) or pen.unknown


def shortened(label: str, width: int, pen: Pen) -> str:
    if cells(label) <= width:
        return label
    ends = list(accumulate(map(WIDTHS.__getitem__, label)))
    return label[: bisect_right(ends, width - 1)] + pen.cut


# ---- strokes: one entity under one row ----


class Part(NamedTuple):
    """What one row shows of one fragment: characters, cells, and whether it goes on in other rows."""

    characters: Span
    left: int
    right: int
    enters: bool
    leaves: bool


@dataclass(frozen=True, slots=True)
class Stroke:
    """The bracket of one entity under one row with its label, not yet placed in a lane."""

    entity: Entity
    column: int
    bracket: str
    label: str
    parts: list[Part]
    goes_on: bool

    @property
    def order(self) -> tuple[int, int, str, tuple[Span, ...]]:
        """Inner before outer, then as in the text."""
        entity = self.entity
        return entity.end - entity.start, entity.start, entity.type, entity.fragments


def trace(entities: Iterable[Entity], rows: list[Row], width: int, pen: Pen) -> dict[int, list[Stroke]]:
    """The strokes under each row, by the row's number."""
    starts = [row.start for row in rows]
    seen = [(entity, parts_of(entity, rows, starts, width)) for entity in entities]
    numbers = numbers_of([(entity.type, min(parts), max(parts)) for entity, parts in seen])
    strokes: dict[int, list[Stroke]] = defaultdict(list)
    for (entity, parts), told_apart in zip(seen, numbers, strict=True):
        first, last = min(parts), max(parts)
        name = label_of(entity.type, pen) + told_apart
        score = "" if entity.score is None else " " + f"{entity.score:.2f}".removeprefix("0")
        for number in range(first, last + 1):
            if number in parts or rows[number].width:
                beneath = parts.get(number, [])
                column, bracket = outline(beneath, rows[number].width, number > first, number < last, width, pen)
                label = shortened(name + score if number == first else name, width, pen)
                strokes[number].append(Stroke(entity, column, bracket, label, beneath, number < last))
    return strokes


def parts_of(entity: Entity, rows: list[Row], starts: list[int], width: int) -> dict[int, list[Part]]:
    """What can be seen of an entity, by the number of the row; at least one cell."""
    parts: dict[int, list[Part]] = defaultdict(list)
    for start, end in entity.fragments:
        for number in range(bisect_right(starts, start) - 1, bisect_right(starts, end - 1)):
            row = rows[number]
            low, high = max(start, row.start), min(end, row.end)
            if low < high:
                right = max(row.column(high), 1)
                left = min(row.column(low), right - 1)
                leaves = number + 1 < len(rows) and end > starts[number + 1]
                parts[number].append(Part((low, high), left, right, start < row.start, leaves))
    if not parts:  # nothing but a line break, or the blanks at which a row was wrapped
        number = bisect_right(starts, entity.start) - 1
        at = min(rows[number].width, width - 1)
        parts[number] = [Part((0, 0), at, at + 1, False, False)]
    return parts


def numbers_of(reaches: list[tuple[str, int, int]]) -> list[str]:
    """`#1`, `#2`, ... for entities (type, first row, last row) of one type that cross the same border of rows."""
    crossing = Counter((type, row) for type, first, last in reaches for row in range(first, last))
    taken: dict[tuple[str, int], set[int]] = defaultdict(set)
    numbers = []
    for type, first, last in reaches:
        borders = [(type, row) for row in range(first, last)]
        number = 0
        if any(crossing[border] > 1 for border in borders):
            number = next(n for n in count(1) if not any(n in taken[border] for border in borders))
            for border in borders:
                taken[border].add(number)
        numbers.append(f"#{number}" if number else "")
    return numbers


def outline(parts: list[Part], row: int, came: bool, goes: bool, width: int, pen: Pen) -> tuple[int, str]:
    """Column and marks of a bracket under a row of `row` cells: lines under the parts, dots between them."""
    resumed = came and not (parts and parts[0].enters)
    continued = goes and not (parts and parts[-1].leaves)
    left = 0 if resumed else parts[0].left
    right = parts[-1].right if parts and not continued else row
    if parts and continued:
        right = min(max(row, parts[-1].right + 2), width)
    marks = [pen.dots] * (right - left)
    bare = {0, right - left - 1}  # the ends that an arrow may take without hiding a whole part
    for part in merged(parts):
        low, high = part.left - left, part.right - left
        marks[low:high] = pen.line * (high - low)
        enters, leaves = came and part.enters, goes and part.leaves
        if not enters:
            marks[low] = pen.left
        if not leaves:
            marks[high - 1] = pen.right if high - low > 1 or enters else pen.single
        if high - low == 1:
            bare.discard(low)
    if resumed and 0 in bare:
        marks[0] = pen.resumed
    if continued and len(marks) - 1 in bare:
        marks[-1] = pen.continued
    return left, "".join(marks)


def merged(parts: list[Part]) -> list[Part]:
    """Parts that touch, or share a cell, as one: there is no room for dots between them."""
    joined: list[Part] = []
    for part in parts:
        if joined and part.left <= joined[-1].right:
            last = joined.pop()
            part = part._replace(left=last.left, right=max(last.right, part.right), enters=last.enters)
        joined.append(part)
    return joined


# ---- lanes ----


@dataclass(slots=True)
class Lane:
    """One row of brackets and labels. The cells in use are the bits of whole numbers."""

    pieces: list[tuple[int, str, str]] = field(default_factory=list)
    brackets: int = 0
    labels: int = 0

    def add(self, column: int, drawn: str, type: str, bracket: int = 0, label: int = 0) -> bool:
        """Places a piece if it is free: brackets may touch, labels keep two blanks from what is not their own."""
        if bracket & (self.brackets | spread(self.labels)) or spread(label) & (self.brackets | self.labels):
            return False
        self.pieces.append((column, drawn, type))
        self.brackets |= bracket
        self.labels |= label
        return True

    def drawn(self, colours: dict[str, int]) -> str:
        line, at = "", 0
        for column, piece, type in sorted(self.pieces):
            line += " " * (column - at) + painted(piece, colours.get(type))
            at = column + cells(piece)
        return line


def pack(strokes: Iterable[Stroke], width: int, pen: Pen) -> list[Lane]:
    """Each stroke in the first lane with room for it that lies beneath everything it spans."""
    lanes: list[Lane] = []
    for stroke in strokes:
        bits = mask(stroke.column, len(stroke.bracket))
        depth = next((at + 1 for at in reversed(range(len(lanes))) if lanes[at].brackets & bits), 0)
        while not placed(stroke, lanes, depth, width, pen):
            depth += 1
    return [lane for lane in lanes if lane.pieces]


def placed(stroke: Stroke, lanes: list[Lane], depth: int, width: int, pen: Pen) -> bool:
    """Puts a stroke into the lane at `depth`: its label right of the bracket, inside, left, or in the lane below."""
    lanes.extend(Lane() for _ in range(depth + 2 - len(lanes)))
    lane, below = lanes[depth : depth + 2]
    column, bracket, label = stroke.column, stroke.bracket, stroke.label
    size = cells(label)
    end, ahead = column + len(bracket), column - 1 - size
    bits = mask(column, len(bracket))

    beside = [(column, f"{bracket} {label}", mask(end + 1, size))] if end + 1 + size <= width else []
    within = [(column, written, 0)] if (written := inside(bracket, label, pen)) else []
    before = [(ahead, f"{label} {bracket}", mask(ahead, size))] if ahead >= 0 else []
    # What stands right of a bracket that goes on reads as its end. Left is for brackets at the border alone:
    # lanes are read from left to right, a bracket and then its label.
    choices = (within + beside if stroke.goes_on else beside + within) or before
    if any(lane.add(at, drawn, stroke.entity.type, bits, taken) for at, drawn, taken in choices):
        return True
    if choices:  # an emptier lane will do
        return False
    under = min(column, width - size)
    taken = mask(under, size)
    if spread(taken) & (below.brackets | below.labels) or not lane.add(column, bracket, stroke.entity.type, bits):
        return False
    return below.add(under, label, stroke.entity.type, label=taken)


def inside(bracket: str, label: str, pen: Pen) -> str:
    """The label written into a line, or into the dots of a gap, that is long enough; else nothing."""
    size = cells(label)
    # A line keeps a mark at either end, be it a corner; dots keep a dot, else the gap would look closed.
    for marks, spare in ((pen.line, 1), (pen.line, 0), (pen.dots, 1)):
        at = bracket.find(marks * (size + 2 + 2 * spare), 1 - spare, len(bracket) - 1 + spare)
        if at >= 0:
            return f"{bracket[: at + spare]} {label} {bracket[at + spare + size + 2 :]}"
    return ""


def mask(column: int, size: int) -> int:
    return ((1 << size) - 1) << column


def spread(bits: int) -> int:
    return bits | bits << 1 | bits << 2 | bits >> 1 | bits >> 2


def coloured(text: str, row: Row, strokes: list[Stroke], colours: dict[str, int]) -> str:
    """A row of text, each character in the colour of the innermost entity around it."""
    owners: list[str | None] = [None] * (row.end - row.start)
    for stroke in reversed(strokes if colours else []):
        for part in stroke.parts:
            start, end = part.characters
            owners[start - row.start : end - row.start] = [stroke.entity.type] * (end - start)
    shown = text[row.start : row.end]
    if not any(owners):
        return shown.translate(VARIATION_SELECTORS)
    pieces = []
    for owner, group in groupby(zip(owners, shown, strict=True), key=itemgetter(0)):
        piece = "".join(character for _, character in group).translate(VARIATION_SELECTORS)
        pieces.append(painted(piece, colours.get(owner) if owner is not None else None))
    return "".join(pieces)
