"""The formats: one file each, with `read` and `write` that speak `Document`.

    words        JSON lines of words, one sentence a line
    fragments    JSON lines of text with character fragments, one document a line
    conll        columns, a word a line
    brat         a folder of .txt and .ann files

`read` finds the format by what a file holds when none is named, and unpacks gzip by itself. Every
reader and writer streams: no more than one document is held in memory.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spanloom.document import Document
from spanloom.errors import InputError, Tally
from spanloom.formats import brat, conll, fragments, words
from spanloom.formats.files import gzipped, read_lines, replacing, replacing_folder, without_gz

FORMATS = ("words", "fragments", "conll", "brat")
JSONL = "jsonl"
"""As a target: `words` for what came as words, else `fragments`. As a source: either of the two."""

AS_WORDS = "brat, as words"
"""What a brat folder is to `target_format` if it was written from words."""

ENDINGS = {
    ".jsonl": JSONL,
    ".json": JSONL,
    ".conll": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".bioes": "conll",
    ".bilou": "conll",
    ".tsv": "conll",
    "": "brat",
}


WRITERS = {"words": words.write, "fragments": fragments.write, "conll": conll.write}
"""The formats that are one stream of text."""


def read(
    path: Path, tally: Tally, format: str | None = None, columns: Sequence[str] | None = None
) -> Iterator[Document]:
    """The documents of a file or brat folder; what its format holds beyond them is counted in `tally`."""
    if columns is not None and format is None and not path.is_dir():
        format = "conll"
    format = source_format(path, format)
    if columns is not None and format != "conll":
        raise InputError(f"--columns is for CoNLL columns, and this is {format}", path)
    if format == "conll":
        return conll.read(path, tally, columns)
    return {"words": words.read, "fragments": fragments.read, "brat": brat.read}[format](path, tally)


def source_format(path: Path, format: str | None = None) -> str:
    """The format that is named, checked against what is there, or the one that is found."""
    if format not in (None, JSONL, *FORMATS):
        raise InputError(unknown_format(format))
    if path.is_dir():
        if format not in (None, "brat"):
            raise InputError(f"is a folder, and {format} is a file", path)
        return "brat"
    if format in FORMATS:
        if not path.exists():
            raise InputError("there is no such file", path)
        return format
    found = detect(path)
    if format == JSONL and found == "conll":
        raise InputError("holds columns, not JSON lines", path)
    return found


def detect(path: Path) -> str:
    """The format of a file by its first line that is not empty, or its first two."""
    lines = ((number, line) for number, line in read_lines(path) if line and not line.isspace())
    for number, line in lines:
        if line.startswith(conll.DOCSTART):
            return "conll"
        if _ends_in_tag(line):
            # a line of prose may end in "vitamin B-12"; two such lines, or a name that says so, are columns
            if ENDINGS.get(without_gz(path).suffix.lower()) == "conll" or "\t" in line:
                return "conll"
            if _ends_in_tag(next(lines, (0, ""))[1]):
                return "conll"
            break
        first = line.lstrip()[0]
        if first == "[":
            raise InputError("a JSON array; write one object a line", path, number)
        if first == "{":
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError("not JSON: one whole object is expected on each line", path, number) from None
            if "text" in found:
                return "fragments"
            if "tokens" in found:
                return "words"
            keys = ", ".join(f'"{key}"' for key in list(found)[:5])
            raise InputError(f'neither "tokens" nor "text" among the keys {keys}', path, number)
        if not line.startswith("#"):
            break
    else:
        raise InputError("the file is empty", path)
    raise InputError("the format is not recognised; name it with --from: " + ", ".join(FORMATS), path, number)


def _ends_in_tag(line: str) -> bool:
    cells = conll.cells_of(line)
    return len(cells) > 1 and conll.TAG.fullmatch(cells[-1]) is not None


def target_format(path: Path, format: str | None, source: str) -> str:
    """The format to write: the one named, or the one the target's name ends in; JSON lines keep the source's kind."""
    if format is None:
        format = ENDINGS.get(without_gz(path).suffix.lower())
        if format is None:
            raise InputError(f"which format? Name it with --to: {', '.join(FORMATS)}", path)
    if format not in (JSONL, *FORMATS):
        raise InputError(unknown_format(format))
    if format == JSONL:
        return "words" if source in ("words", "conll", AS_WORDS) else "fragments"
    if format == "brat" and gzipped(path):
        raise InputError("a brat folder cannot be gzipped; name it without .gz", path)
    return format


def unknown_format(format: str) -> str:
    near = difflib.get_close_matches(format, (JSONL, *FORMATS), n=1)
    return f"{format!r} is no format" + (f"; did you mean {near[0]}?" if near else f"; use {', '.join(FORMATS)}")


def write(documents: Iterable[Document], path: Path, format: str, tally: Tally, strict: bool = False) -> None:
    """Writes documents; nothing stands under the name before all of it does.

    With `strict`, anything that the format cannot hold (all that `tally` counts) is refused, and
    nothing is written.
    """
    if format == "brat":
        with replacing_folder(path) as folder:
            brat.write(documents, folder, tally)
            _refuse_losses(path, tally, strict)
        return
    with replacing(path) as file:
        WRITERS[format](documents, file, tally)
        _refuse_losses(path, tally, strict)


def _refuse_losses(path: Path, tally: Tally, strict: bool) -> None:
    if strict and tally.total():
        raise InputError(f"not written, as --strict asks: {'; '.join(tally.lines())}", path)
