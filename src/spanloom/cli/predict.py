"""Find entities in raw text, or in words, with a trained model.

Each FILE is raw text (one document; with --lines each line is one), or any format that Spanloom
reads, known by its content; - is standard input, raw text. Gold that a file may hold is passed over.
Sentences are sorted by length some 2,000 at a time: standard input is answered when so many have come, or at its end.
Written is a line of JSON a document, in the order of the input, documents without entities too.

formats
  jsonl    JSON lines of text with fragments; for what came as words also its tokens
  conll    columns, IOB2: flat entities only, the rest counted
  brat     a folder of .txt and .ann files (--output)
  text     drawn for people

examples
  spanloom predict runs/b notes.txt
  spanloom predict runs/b notes/*.txt --format brat --output notes-brat
  spanloom predict runs/bl notes.txt --decode tagger
  cat notes.txt | spanloom predict runs/b - --lines --threshold 0.8
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spanloom import formats
from spanloom.console import Progress, say, terminal_width, wants_colour, wants_unicode
from spanloom.document import Document
from spanloom.errors import InputError, Tally
from spanloom.formats.files import BOM, can_write, read_lines, read_text, replacing
from spanloom.options import check_prediction, parse_sets
from spanloom.runs import output_folder

if TYPE_CHECKING:
    from spanloom.predictor import Recogniser

OUTPUTS = ("jsonl", "conll", "brat", "text")
WRITTEN = {"jsonl": "fragments", "conll": "conll"}
RAW = "text"
TEXT_FILE = re.compile(r"\.txt(\.gz)?$", re.IGNORECASE)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a trained model")
    parser.add_argument("files", metavar="FILE", nargs="+", help="text, or any readable format; - is standard input")
    parser.add_argument("--from", dest="source_format", metavar="F", help="the files' format: text, words, ...")
    parser.add_argument("--lines", action="store_true", help="each line of a raw text is a document")
    parser.add_argument("--threshold", metavar="X", type=float, default=0.0, help="only entities scored X or more")
    parser.add_argument("--format", metavar="F", default="jsonl", help="jsonl, conll, brat or text (default: jsonl)")
    parser.add_argument("--output", metavar="PATH", type=Path, help="the file or folder to write; else standard output")
    configure_model(parser)


def configure_model(parser: argparse.ArgumentParser) -> None:
    """What every command that uses a model has."""
    parser.add_argument(
        "--decode", metavar="NAME", help="of two heads that were trained together, the one to decode with"
    )
    parser.add_argument("--precision", metavar="P", help="auto, fp32 or bf16 (default: auto)")
    parser.add_argument("--batch-words", metavar="N", type=int, help="work in one batch (default: 1024)")
    parser.add_argument("--set", metavar="head.O=V", action="append", default=[], help="an option of decoding")


def run(args: argparse.Namespace) -> int:
    if args.format not in OUTPUTS:
        raise InputError(f"--format {args.format}: it is one of {', '.join(OUTPUTS)}")
    if args.format == "brat" and args.output is None:
        raise InputError("--format brat writes a folder; name it with --output")
    if args.source_format not in (None, RAW, formats.JSONL, *formats.FORMATS):
        raise InputError(formats.unknown_format(args.source_format))
    if "-" in args.files and args.source_format not in (None, RAW):
        raise InputError(f"--from {args.source_format}: standard input is raw text; save it to a file first")
    if args.output is not None:
        can_write(args.output, folder=args.format == "brat")
    for file in args.files:
        if file != "-" and not Path(file).exists():
            raise InputError("there is no such file", file)
        if args.lines and file != "-" and (kind := _kind(Path(file), args.source_format)) != RAW:
            raise InputError(f"--lines is for raw text, and this is {kind}; leave it out", file)
    ner = load_recogniser(args, args.threshold)
    tally = Tally()
    found = ner.documents(read_all(args.files, args.source_format, args.lines, tally))
    with Progress(found, "predicting", unit="documents") as progress:
        _write(progress, args, tally)
    tally.update(ner.lost)
    for line in tally.lines():
        say(f"lost or changed: {line}")
    return 0


def load_recogniser(args: argparse.Namespace, threshold: float = 0.0) -> Recogniser:
    """The model that a command line names."""
    precision = "auto" if args.precision is None else args.precision
    batch_words = 1024 if args.batch_words is None else args.batch_words
    check_prediction(precision, batch_words, threshold)
    decode = parse_sets(args.set, ("head",))["head"]
    refuse_unfinished(args.folder)
    if not (args.folder / "config.json").is_file():
        raise InputError("is no model folder: config.json is missing", args.folder)
    folder = output_folder(args.folder, args.decode)

    from spanloom.predictor import load

    return load(folder, options=decode, threshold=threshold, precision=precision, batch_words=batch_words)


def refuse_unfinished(folder: Path) -> None:
    """Says what to do with a run that was stopped before it had a model."""
    kept = folder / "training"
    if (kept / "run.json").is_file() and not ((folder / "config.json").exists() or (kept / "curve.jsonl").exists()):
        said = "holds a run that was stopped in its first epoch, and no model yet"
        raise InputError(f"{said}; go on with it: spanloom train --resume {folder}", folder)


def read_all(files: list[str], format: str | None, lines: bool, tally: Tally) -> Iterator[Document]:
    """The documents of all files, one after the other."""
    for name in files:
        if name == "-":
            yield from _raw_stream(lines)
            continue
        path = Path(name)
        kind = _kind(path, format)
        if kind == RAW:
            yield from _raw(path, lines)
        else:
            yield from formats.read(path, tally, kind)


def _kind(path: Path, format: str | None) -> str:
    """The format that is named, or that a file's content tells; what tells of none is raw text."""
    if format is not None:
        return format
    try:
        return formats.source_format(path)
    except InputError:
        if path.suffix in formats.ENDINGS and path.suffix:  # damaged, and no text
            raise
        return RAW


def _raw(path: Path, lines: bool) -> Iterator[Document]:
    if lines:
        yield from (Document(f"{path.name}:{number}", line) for number, line in read_lines(path))
    else:
        yield Document(path.name, read_text(path))


def _raw_stream(lines: bool) -> Iterator[Document]:
    raw = sys.stdin.buffer
    try:
        if lines:
            for number, line in enumerate(raw, 1):
                text = line.decode("utf-8").removeprefix(BOM if number == 1 else "")
                yield Document(f"-:{number}", text.removesuffix("\n").removesuffix("\r"))
        else:
            yield Document("-", raw.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"byte 0x{error.object[error.start]:02x} is not UTF-8", "standard input") from None


def _write(documents: Progress[Document], args: argparse.Namespace, tally: Tally) -> None:
    if args.format == "text":
        from spanloom.drawing import draw

        to_terminal = args.output is None
        width, colour = terminal_width(sys.stdout), to_terminal and wants_colour(sys.stdout)
        unicode = not to_terminal or wants_unicode(sys.stdout)
        drawn = (f"{document.id}\n{draw(document, width, colour, unicode)}\n\n" for document in documents)
        if args.output is None:
            sys.stdout.writelines(drawn)
        else:
            with replacing(args.output) as file:
                file.writelines(drawn)
        return
    if args.output is None:
        formats.WRITERS[WRITTEN[args.format]](documents, sys.stdout, tally)
    elif args.format == "brat":  # notes.txt stands under its own name, not as notes.txt.txt
        named = (replace(document, id=TEXT_FILE.sub("", document.id)) for document in documents)
        formats.write(named, args.output, "brat", tally)
    else:
        formats.write(documents, args.output, WRITTEN[args.format], tally)
