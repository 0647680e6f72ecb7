"""brat standoff: a folder with a `.txt` and an `.ann` file for each document.

    T1<tab>Finding 0 16;26 29<tab>Pain in the left hip

Fragments stay fragments. Folders in the folder are read too; a document's id is its path without
the ending. A `.txt` without `.ann` is a document without annotations. Lines other than text-bound
annotations (relations, events, attributes, notes) are counted and left out.

Beside the documents stands `annotation.conf`, which brat asks for, and, where the documents came as
words, `spanloom.json`: it says that blanks separate words and lines are sentences, so that the
folder reads back as the words it was written from, and in which order. brat passes over that file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spanloom.document import Document, Entity, Span
from spanloom.errors import InputError, Tally
from spanloom.formats.files import read_lines, read_text
from spanloom.formats.fragments import check_text, ordered

LAYOUT = "spanloom.json"
WORD = re.compile(r"\S+")
TEXT_BOUND = re.compile(
    r"(T[^\t]*)\t(\S.*?)[ ](\d{1,15}[ ]\d{1,15}(?:;\d{1,15}[ ]\d{1,15})*)[ ]*(?:\t(.*))?", re.DOTALL
)
OTHERS = {
    "R": "relations",
    "*": "relations",
    "E": "events",
    "A": "attributes",
    "M": "attributes",
    "N": "normalisations",
    "#": "notes",
}
LONGEST_NAME = 200  # bytes; file systems allow 255, and an ending comes behind it


def read(path: Path, tally: Tally) -> Iterator[Document]:
    if not path.is_dir():
        raise InputError("brat standoff is a folder of .txt and .ann files; name the folder", path)
    files = _files(path)
    texts = {_name(file, path): file for file in files if file.suffix.lower() == ".txt"}
    anns = {_name(file, path): file for file in files if file.suffix.lower() == ".ann"}
    for name, file in anns.items():
        if name not in texts:
            raise InputError("has no .txt file of the same name beside it", file)
    if not texts:
        raise InputError("holds neither train.*, dev.* or test.* nor .txt and .ann files", path)
    if len(texts) + len(anns) < len(files):
        raise InputError("holds two files whose names differ in capitals only; rename one", path)
    layout = _layout(path / LAYOUT)
    place = {name: number for number, name in enumerate(layout.get("order", []))}
    as_words = layout.get("words") == "blanks"
    for name in sorted(texts, key=lambda name: (place.get(name, len(place)), natural(name))):
        text = read_text(_inside(texts[name], path))
        entities = tuple(_entities(_inside(anns[name], path), text, tally)) if name in anns else ()
        id = unquote(name)
        # only a name that we would write ourselves is unquoted: no two files may share an id
        id = id if _file_name(id) == name else name
        yield Document(id, text, entities, words_and_lines(text) if as_words else None)


def _files(root: Path) -> list[Path]:
    """The .txt and .ann files of a folder and those below; hidden ones are a system's own."""

    def stop(error: OSError) -> None:
        raise InputError(f"cannot be read: {error.strerror}", error.filename) from None

    found = []
    for folder, below, names in os.walk(root, onerror=stop):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in below:
            if (Path(folder) / name).is_symlink():
                raise InputError("is a link to a folder; copy the folder into its place", Path(folder) / name)
        for name in sorted(names):
            file = Path(folder) / name
            if name.startswith("."):
                continue
            if name.lower().endswith((".txt.gz", ".ann.gz")):
                raise InputError("is gzipped; unpack it first", file)
            if file.suffix.lower() in (".txt", ".ann"):
                found.append(file)
    return found


def _name(file: Path, root: Path) -> str:
    name = file.relative_to(root).with_suffix("").as_posix()
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError("its name is not UTF-8; rename it", ascii(str(file))) from None
    return name


def _inside(file: Path, root: Path) -> Path:
    if not file.resolve().is_relative_to(root.resolve()):
        raise InputError("is a link that leads out of its folder; copy the file into it", file)
    return file


def came_as_words(path: Path) -> bool:
    """Whether a folder was written from words, and reads back as such."""
    return _layout(path / LAYOUT).get("words") == "blanks"


def words_and_lines(text: str) -> tuple[tuple[Span, ...], ...]:
    """Words between blanks, sentences between line feeds, each as long as it is: what came as words is not cut."""
    lines = []
    at = 0
    for line in text.split("\n"):
        lines.append(tuple((at + word.start(), at + word.end()) for word in WORD.finditer(line)))
        at += len(line) + 1
    return tuple(words for words in lines if words)


def natural(id: str) -> list[tuple[int, int, str]]:
    """A key that puts "2" before "10"."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", id) if part]


def _layout(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        layout = json.loads(read_text(file))
    except (json.JSONDecodeError, RecursionError):
        layout = None
    order = layout.get("order", []) if isinstance(layout, dict) else None
    if not isinstance(order, list) or not all(isinstance(id, str) for id in order):
        raise InputError("is damaged; remove it, and the folder is read as plain brat standoff", file)
    return dict(layout)


def _entities(ann: Path, text: str, tally: Tally) -> Iterator[Entity]:
    for line, content in read_lines(ann):
        if not content.strip():
            continue
        if content[0] in OTHERS:
            tally.add(OTHERS[content[0]], content)
            continue
        found = TEXT_BOUND.fullmatch(content)
        if found is None:
            expected = "T1<tab>TYPE START END[;START END ...]<tab>TEXT"
            raise InputError(f"not an annotation of brat's; {expected} is expected", ann, line)
        _, type, offsets, claimed = found.groups()
        spans = []
        for pair in offsets.split(";"):
            start, end = (int(edge) for edge in pair.split(" "))
            if not start < end <= len(text):
                where = f"the text has {len(text)} characters, and start must be below end"
                raise InputError(f"{start} {end} is not in the text: {where}", ann, line)
            spans.append((start, end))
        if claimed is not None:  # in the order in which the fragments were written
            check_text(Entity(type, tuple(spans)), claimed, text, ann, line)
        yield Entity(type, ordered(spans, tally))


def write(documents: Iterable[Document], folder: Path, tally: Tally) -> None:
    """Writes into an empty folder."""
    names: dict[str, int] = {}
    types: dict[str, None] = {}
    as_words: bool | None = None
    made = {folder}
    for document in documents:
        if as_words is None:
            as_words = document.words is not None
        name = _free_name(document.id, names, tally)
        _tell_lost_words(document, as_words, tally)
        target = folder / f"{name}.txt"
        if target.parent not in made:
            target.parent.mkdir(parents=True)
            made.add(target.parent)
        # newline="": the text's own line breaks, byte for byte
        with target.open("w", encoding="utf-8", newline="") as file:
            file.write(document.text)
        with target.with_suffix(".ann").open("w", encoding="utf-8", newline="") as file:
            for number, entity in enumerate(document.entities, 1):
                type = _type(entity.type, tally)
                types[type] = None
                offsets = ";".join(f"{start} {end}" for start, end in entity.fragments)
                shown = re.sub(r"[\t\n\r]", " ", entity.text)
                file.write(f"T{number}\t{type} {offsets}\t{shown}\n")
                if entity.score is not None:
                    tally.add("scores")
    listed = "".join(f"{type}\n" for type in sorted(types))
    (folder / "annotation.conf").write_text(
        f"[entities]\n{listed}[relations]\n[events]\n[attributes]\n", encoding="utf-8"
    )
    layout: dict[str, Any] = {}
    if as_words:
        layout |= {"words": "blanks", "sentences": "lines"}
    if list(names) != sorted(names, key=natural):
        layout["order"] = list(names)
    if layout:
        (folder / LAYOUT).write_text(json.dumps(layout, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _tell_lost_words(document: Document, as_words: bool, tally: Tally) -> None:
    """Counts what will not read back from blanks and lines."""
    if (document.words is not None) != as_words:
        came, others = ("texts", "words") if as_words else ("words", "texts")
        tally.add(f"documents that came as {came} among {others}, read back as {others}", document.id)
    if document.words is None:
        return
    if document.pos is not None:
        tally.add("part-of-speech tags", count=sum(map(len, filter(None, document.pos))))
    read_back = words_and_lines(document.text)
    if read_back != document.words:
        found = {span for sentence in read_back for span in sentence}
        for sentence in document.words:
            if not sentence:
                tally.add("sentences without words")
            for start, end in sentence:
                if (start, end) not in found:
                    tally.add("words with blanks in them, read back as several", document.text[start:end])


def _free_name(id: str, names: dict[str, int], tally: Tally) -> str:
    """A file's name for a document: its id, where that is safe and free."""
    name = _file_name(id)
    if len(name.encode()) > LONGEST_NAME:
        tally.add("names of documents that are too long for a file, shortened", id)
        short = _file_name(id.replace("/", " ")).encode()[:100].decode(errors="ignore").rpartition("%")
        name = f"{short[0] or short[2]}-{hashlib.sha256(id.encode()).hexdigest()[:16]}"
    free = name
    while free in names:
        names[name] += 1
        free = f"{name}~{names[name]}"
    if free != name:
        tally.add("documents with the name of an earlier one, renamed", free)
    names[free] = 1
    return free


def _file_name(id: str) -> str:
    """An id as a relative path that can lead nowhere but down; reads back by unquoting."""
    parts = id.split("/")
    *folders, file = parts if all(parts) else [id]
    # a folder called a.txt would stand in the way of a document called a
    safe = [re.sub(r"\.(?=(txt|ann)$)", "%2E", _safe(folder), flags=re.IGNORECASE) for folder in folders]
    return "/".join([*safe, _safe(file)])


def _safe(part: str) -> str:
    """One component: no character that a system forbids, and no dot or blank at its ends."""
    return re.sub(r'[%\x00-\x1f\x7f-\x9f\\/:*?"<>|]|^[. ]|[. ]$', lambda found: _quoted(found[0]), part)


def _quoted(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _type(type: str, tally: Tally) -> str:
    """A type as brat knows it: without blanks."""
    held = "_".join(type.split())
    if held != type:
        tally.add("types with blanks, written with _", type)
    return held
