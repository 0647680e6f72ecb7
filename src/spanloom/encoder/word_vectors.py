"""Files of word vectors as GloVe and word2vec write them: a line a word, the word and then its numbers.

Such a file may be larger than memory. It is gone through once, mapped and not read, and what is kept
are the vectors of wanted words. A first line with two whole numbers says how many words follow and how
long their vectors are; without it the first word's vector tells the length.
"""

from __future__ import annotations

import gzip
import mmap
import zlib
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator
from itertools import takewhile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spanloom.errors import InputError, several, shorten

Vectors = NDArray[np.float32]

GZIP_MAGIC = b"\x1f\x8b"


def check_file(name: str) -> Path:
    """The file of that name, refused at once where there is none."""
    path = Path(name).expanduser()
    if not path.exists():
        raise InputError("there is no such file of word vectors (encoder.word_vectors)", path)
    if not path.is_file():
        raise InputError("is not a file; encoder.word_vectors names a GloVe or word2vec text file", path)
    return path


def read_vectors(name: str, wanted: Collection[str]) -> tuple[list[str], Vectors]:
    """Those of the wanted words that a file has, in its order, and their vectors [words, d]; of two lines the first."""
    path = check_file(name)
    found: dict[str, Vectors] = {}
    announced: int | None = None
    width = words = 0
    for number, raw in enumerate(_lines(path), 1):
        line = raw.rstrip(b" \r\n")
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
            announced, width = _first_line(line)
            if not width:
                raise InputError("a word and its numbers are expected", path, number)
            if announced is not None:
                continue
        if not line:
            continue
        words += 1
        try:
            text, numbers = _parted(line, width)
            if text in wanted and text not in found:
                found[text] = _vector(numbers)
        except UnicodeDecodeError as error:
            said = f"byte 0x{error.object[error.start]:02x} is not UTF-8; a text file is expected, none in binary form"
            raise InputError(said, path, number) from None
        except ValueError as error:
            raise InputError(str(error), path, number) from None
    if announced is not None and words != announced:
        said = f"holds {several(words, 'word')} where its first line announces {announced:,}"
        raise InputError(f"{said}; it is cut short or damaged", path)
    if not found:
        raise InputError(f"has a vector for none of the corpus's {several(len(wanted), 'word')}", path)
    return list(found), np.stack(list(found.values()))


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            magic = file.read(2)
            if magic == GZIP_MAGIC:
                with gzip.open(path, "rb") as unpacked:
                    yield from unpacked
            elif magic:  # nothing of an empty file can be mapped
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    yield from iter(mapped.readline, b"")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError("the gzip file is damaged or cut short; pack it again", path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None


def _first_line(line: bytes) -> tuple[int | None, int]:
    """How many words are announced, None where the line is a word's own, and the length of a vector."""
    parts = line.split(b" ")
    if len(parts) == 2 and all(part.isdigit() and len(part) < 13 for part in parts):
        return int(parts[0]), int(parts[1])
    return None, sum(1 for _ in takewhile(_is_number, reversed(parts[1:])))


def _parted(line: bytes, width: int) -> tuple[str, bytes]:
    """A word and its numbers, from the right: the words of some files have blanks inside, though no numbers there."""
    if not line.isascii():
        line.decode("utf-8")
    word, _, numbers = line.partition(b" ")
    if (blanks := line.count(b" ")) != width:
        word = line.rsplit(b" ", width)[0] if blanks > width else word
        numbers = line[len(word) + 1 :]
        further = sum(map(_is_number, word.split(b" ")[1:]))
        if blanks < width or further:
            said = several(min(blanks, width) + further, "number")
            raise ValueError(f"{said} behind the word, where {width} are expected")
    return word.decode("utf-8"), numbers


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(numbers: bytes) -> Vectors:
    parts = numbers.split(b" ")
    try:
        vector = np.array([*map(float, parts)])
    except ValueError:
        wrong = next(text for text in parts if not _is_number(text))
        raise ValueError(f"'{shorten(wrong.decode())}' is no number") from None
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():
        raise ValueError("a number is not finite, or too large")
    return vector.astype(np.float32)
