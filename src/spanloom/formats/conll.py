"""CoNLL columns: a word a line, an empty line after each sentence.

    -DOCSTART- (a7)  O

    Left             B-Finding
    knee             I-Finding

Columns are separated by tabs where a line has one, else by blanks. The first is the word, the last
the tag, and the second of three or more a part of speech, unless `columns` says otherwise, as in
`word,_,pos,tag`. The tags may be IOB1, IOB2 (BIO), BIOES, BILOU or BMES: they are read by one set
of rules that gives each scheme its own meaning (see `entities_of`). Sentences behind a -DOCSTART-
line belong to one document, named by what stands in brackets there; without such lines every
sentence is a document of its own.

Written are tabs and IOB2. Columns hold neither nested, overlapping nor discontinuous entities: of
those that share words the longest is kept (of equally long ones the leftmost), and the rest counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from spanloom.align import WordSentence, from_words, sentences
from spanloom.document import Document, Mention, Sentence, runs
from spanloom.errors import InputError, Tally
from spanloom.formats.files import read_lines

DOCSTART = "-DOCSTART-"
COLUMNS = ("word", "pos", "tag", "_")
TAG = re.compile(r"(?:[BIOESULM]-\S.*|O)", re.DOTALL)
BREAKS = re.compile(r"[\t\n\r]")
OPENS, SINGLE, CLOSES = "B", "SU", "EL"


@dataclass(slots=True)
class _Rows:
    """The lines of one sentence so far."""

    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    pos: list[str] = field(default_factory=list)
    first_line: int = 0
    width: int = 0


def read(path: Path, tally: Tally, columns: Sequence[str] | None = None) -> Iterator[Document]:
    layout = _Layout(columns)
    scheme = _Scheme()
    number = 0
    group: list[WordSentence] | None = None  # None: no -DOCSTART- so far, every sentence for itself
    name: str | None = None
    for docstart, rows in _sentences(path, layout, tally):
        if docstart is not None:
            if group is not None:
                number += 1
                yield from_words(name or str(number), group)
            group, name = [], docstart
        elif rows is not None:
            mentions = entities_of(rows.tags, scheme, path, rows.first_line)
            sentence = WordSentence(rows.words, mentions, rows.pos or None)
            if group is not None:
                group.append(sentence)
            else:
                number += 1
                yield from_words(str(number), [sentence])
    if group is not None:
        yield from_words(name or str(number + 1), group)
    scheme.tell(tally)


class _Layout:
    """Which column is the word, the tag, the part of speech."""

    def __init__(self, columns: Sequence[str] | None) -> None:
        if columns is not None:
            wrong = [column for column in columns if column not in COLUMNS]
            if wrong:
                raise InputError(f"--columns: {wrong[0]!r} is no column; use word, tag, pos and _ for the others")
            for column in ("word", "tag", "pos"):
                count = columns.count(column)
                if count > 1 or (count == 0 and column != "pos"):
                    raise InputError(f"--columns: {column!r} stands there {count} times; name it once")
        self.columns = columns

    def split(self, line: str, path: Path, number: int) -> tuple[list[str], str, str, str | None]:
        """The cells of a line, and of them the word, the tag and the part of speech."""
        cells = cells_of(line)
        if self.columns is not None:
            if len(cells) != len(self.columns):
                raise InputError(f"{len(cells)} columns where --columns names {len(self.columns)}", path, number)
            pos = cells[self.columns.index("pos")] if "pos" in self.columns else None
            return cells, cells[self.columns.index("word")], cells[self.columns.index("tag")], pos
        if len(cells) < 2:
            raise InputError("one column; a word and a tag are expected (empty lines end a sentence)", path, number)
        return cells, cells[0], cells[-1], cells[1] if len(cells) > 2 else None


def cells_of(line: str) -> list[str]:
    """Only tabs and plain blanks separate: other blanks are words in some languages, and parts of words in tweets."""
    return line.rstrip("\t ").split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]


def _sentences(path: Path, layout: _Layout, tally: Tally) -> Iterator[tuple[str | None, _Rows | None]]:
    """Each sentence as rows, and each -DOCSTART- as its name ("" for none)."""
    rows = _Rows()
    for number, line in read_lines(path):
        if not line.strip(" \t"):
            if rows.words:
                yield None, rows
                rows = _Rows()
            continue
        if "\r" in line:
            raise InputError("a carriage return inside a line; end lines with LF or CRLF", path, number)
        if line.startswith(DOCSTART) and line.split()[0] == DOCSTART:
            if rows.words:
                yield None, rows
                rows = _Rows()
            named = re.match(re.escape(DOCSTART) + r"\s+\((.+)\)", line)
            yield named[1] if named else "", None
            continue
        if line.startswith("#") and not TAG.fullmatch(cells_of(line)[-1]):
            tally.add("comment lines", line)
            continue
        cells, word, tag, pos = layout.split(line, path, number)
        if not word:
            raise InputError("the word is empty", path, number)
        if not TAG.fullmatch(tag):
            raise InputError(
                f"{tag!r} is no tag; O, B-TYPE, I-TYPE (or E-, S-, L-, U-, M-) are expected"
                + ("; --columns says which column holds it" if layout.columns is None else ""),
                path,
                number,
            )
        if not rows.words:
            rows.first_line, rows.width = number, len(cells)
        elif len(cells) != rows.width:
            raise InputError(f"{len(cells)} columns, but {rows.width} in the sentence's first line", path, number)
        rows.words.append(word)
        rows.tags.append(tag)
        if pos is not None:
            rows.pos.append(pos)
    if rows.words:
        yield None, rows


@dataclass(slots=True)
class _Scheme:
    """How entities begin in this file: tells IOB1 from IOB2 with slips."""

    opened_by_b: int = 0
    opened_by_i: list[str] = field(default_factory=list)
    count_i: int = 0
    closed: bool = False

    def inside_opens(self, where: str) -> None:
        self.count_i += 1
        if len(self.opened_by_i) < 3:
            self.opened_by_i.append(where)

    def tell(self, tally: Tally) -> None:
        """In IOB1 a B stands only behind an entity of its type; elsewhere an opening I is a slip."""
        if self.count_i and (self.opened_by_b or self.closed):
            reason = "entities that do not begin with B-, taken as they stand"
            for where in self.opened_by_i:
                tally.add(reason, where)
            tally.add(reason, count=self.count_i - len(self.opened_by_i))


def entities_of(tags: Sequence[str], scheme: _Scheme, path: Path, first_line: int) -> list[Mention]:
    """The entities that a sentence's tags spell, in any of the schemes.

    B opens an entity, S and U are one; E and L close one; any other letter goes on with an open
    entity of its type, and opens one where there is none. That is exact for well-formed IOB1, IOB2,
    BIOES, BILOU and BMES, and never fails on an ill-formed sequence.
    """
    mentions: list[Mention] = []
    start, open_type = 0, ""  # "" where no entity is open
    for position, tag in enumerate(tags):
        letter, _, type = tag.partition("-")
        goes_on = bool(open_type) and type == open_type and letter not in OPENS + SINGLE
        if open_type and not goes_on:
            mentions.append(Mention(open_type, tuple(range(start, position))))
        if letter == "O":
            open_type = ""
            continue
        if not goes_on:
            if letter == OPENS and open_type != type:
                scheme.opened_by_b += 1
            elif letter not in OPENS + SINGLE:
                scheme.inside_opens(f"{path}:{first_line + position} {tag}")
            start = position
        open_type = type
        if letter in SINGLE or letter in CLOSES:
            scheme.closed = True
            mentions.append(Mention(type, tuple(range(start, position + 1))))
            open_type = ""
    if open_type:
        mentions.append(Mention(open_type, tuple(range(start, len(tags)))))
    return mentions


def write(documents: Iterable[Document], file: IO[str], tally: Tally) -> None:
    grouped = False
    for number, document in enumerate(documents, 1):
        found = sentences(document, tally)
        with_words = sum(1 for sentence in found if sentence.words)
        grouped = grouped or with_words != 1 or document.id != str(number)
        if grouped:
            name = f" ({_cell(document.id, 'names of documents', tally)})" if document.id != str(number) else ""
            file.write(f"{DOCSTART}{name}\tO\n\n")
        for sentence in found:
            _write_sentence(sentence, file, tally)


def _write_sentence(sentence: Sentence, file: IO[str], tally: Tally) -> None:
    if not sentence.words:
        tally.add("sentences without words")
        return
    tags = ["O"] * len(sentence)
    for mention in outermost(sentence, tally):
        type = _cell(mention.type, "types", tally, edges=True)
        tags[mention.words[0]] = f"B-{type}"
        for inner in mention.words[1:]:
            tags[inner] = f"I-{type}"
    words = [_cell(word, "words", tally) for word in sentence.words]
    if sentence.pos is None:
        rows = [f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)]
    else:
        pos = [_cell(tag, "part-of-speech tags", tally, edges=True) for tag in sentence.pos]
        rows = [f"{word}\t{part}\t{tag}\n" for word, part, tag in zip(words, pos, tags, strict=True)]
    file.writelines(rows)
    file.write("\n")


def outermost(sentence: Sentence, tally: Tally) -> list[Mention]:
    """The mentions that one row of tags can hold: the longest first, those that share words with one left out."""
    kept: list[Mention] = []
    taken: dict[int, Mention] = {}
    if any(mention.score is not None for mention in sentence.mentions):
        tally.add("scores", count=sum(mention.score is not None for mention in sentence.mentions))
    for mention in sorted(dict.fromkeys(sentence.mentions), key=lambda m: (-len(m.words), m.words[0])):
        words = sentence.covered(mention.words)
        if len(list(runs(mention.words))) > 1:
            tally.add("discontinuous entities", words)
            continue
        others = {id(taken[word]): taken[word] for word in mention.words if word in taken}
        if others:
            inside = any(set(mention.words) <= set(other.words) for other in others.values())
            tally.add("nested entities" if inside else "overlapping entities", words)
            continue
        kept.append(mention)
        taken.update(dict.fromkeys(mention.words, mention))
    duplicates = len(sentence.mentions) - len(set(sentence.mentions))
    if duplicates:
        tally.add("entities that stand twice", count=duplicates)
    return kept


def _cell(text: str, what: str, tally: Tally, edges: bool = False) -> str:
    """A cell must not hold what ends one, nor look like the border of a document."""
    if text.isalnum():
        return text
    held = BREAKS.sub("_", text)
    if edges:  # blanks around a tag, or no tag at all, would not come back
        held = held.strip() or "_"
    if held.startswith(DOCSTART):
        held = "_" + held
    if held != text:
        tally.add(f"{what} that columns cannot hold, written with _", text)
    return held
