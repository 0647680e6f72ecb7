"""Convert a corpus from one format to another, and tell what the target cannot hold.

The source's format is found by its content, the target's by its name: .jsonl, .conll, a name
without ending for a brat folder; a further .gz packs it. JSON lines stay lines of words for what
came as words, and lines of text with fragments for what came as text. A folder with train.*, dev.*
and test.* becomes such a folder.

formats
  words        {"tokens": ["Left", "knee", "pain"], "entities": [{"type": "Finding", "indices": [0, 1, 2]}]}
  fragments    {"id": "a7", "text": "Left knee pain", "entities": [{"type": "Finding", "fragments": [[0, 14]]}]}
  conll        columns: a word a line with its tag (IOB1, IOB2, BIOES, BILOU or BMES are read, IOB2 is written)
  brat         a folder of .txt and .ann files
  jsonl        words or fragments, whichever keeps more

examples
  spanloom convert notes-brat notes.jsonl
  spanloom convert train.conll train.jsonl.gz --columns word,pos,_,tag
  spanloom convert corpus corpus-brat --to brat
  spanloom convert nested.jsonl flat.conll --strict
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from spanloom import formats
from spanloom.console import Progress, say
from spanloom.corpus import columns_of, find_corpus
from spanloom.errors import InputError, Tally, several
from spanloom.formats import brat
from spanloom.formats.files import can_write, replacing_folder

ENDING = {"words": ".jsonl", "fragments": ".jsonl", "conll": ".conll", "brat": ""}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="a file, a brat folder, a folder of splits, or sample:NAME")
    parser.add_argument("target", metavar="OUT", type=Path, help="the file or folder to write")
    parser.add_argument("--from", dest="source_format", metavar="F", help="the source's format, if not to be found out")
    parser.add_argument("--to", dest="target_format", metavar="F", help="the target's format, if its name does not say")
    parser.add_argument("--columns", metavar="C", help="CoNLL columns in order: word, tag, pos, _ for the rest")
    parser.add_argument("--strict", action="store_true", help="refuse (exit 2) if anything at all would be lost")


def run(args: argparse.Namespace) -> int:
    columns = columns_of(args.columns)
    corpus = find_corpus(args.source)
    _refuse_same(corpus.splits.values(), args.target)
    if corpus.folder:
        if args.target_format is None:
            raise InputError(f"name the target's format with --to: {', '.join(formats.FORMATS)}", args.source)
        can_write(args.target, folder=True)
        reports: list[str] = []
        with replacing_folder(args.target) as folder:
            for split, source in corpus.splits.items():
                kind, format = _formats(source, args, columns)
                target = folder / (split + ENDING[format])
                reports += _convert(source, kind, target, format, columns, args.strict, split)
    else:
        (source,) = corpus.splits.values()
        kind, format = _formats(source, args, columns)
        can_write(args.target, folder=format == "brat")
        reports = _convert(source, kind, args.target, format, columns, args.strict, source.name)
    for report in reports:
        say(report)
    return 0


def _formats(source: Path, args: argparse.Namespace, columns: Sequence[str] | None) -> tuple[str, str]:
    """The source's format and the target's."""
    named = args.source_format or ("conll" if columns is not None and source.is_file() else None)
    kind = formats.source_format(source, named)
    as_words = kind == "brat" and brat.came_as_words(source)
    return kind, formats.target_format(args.target, args.target_format, formats.AS_WORDS if as_words else kind)


def _convert(
    source: Path, kind: str, target: Path, format: str, columns: Sequence[str] | None, strict: bool, name: str
) -> list[str]:
    """Converts one file, and gives what there is to say of it."""
    tally = Tally()
    documents = formats.read(source, tally, kind, columns)
    with Progress(documents, f"converting {name}", unit="documents") as progress:
        formats.write(progress, target, format, tally, strict)
    return [
        f"{name}: {several(progress.count, 'document')}, {kind} to {format}",
        *(f"  lost or changed: {line}" for line in tally.lines()),
    ]


def _refuse_same(sources: Iterable[Path], target: Path) -> None:
    if target.exists() and any(source.resolve() == target.resolve() for source in sources):
        raise InputError("is the source itself; name another target", target)
