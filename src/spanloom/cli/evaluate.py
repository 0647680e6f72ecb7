"""Score a trained model on a file with gold, or a file of predictions against a file of gold.

    spanloom evaluate FOLDER FILE      the model of FOLDER on FILE
    spanloom evaluate GOLD PRED        two files of the same text, each in any format

An entity is right when its type and every one of its words are right. Duplicates count once, and
order does not matter. In two files the cut into documents, sentences and words may differ; the text
itself, blanks apart, may not. Gold that a model cannot express stays in the denominators.

examples
  spanloom evaluate runs/b corpus/test.jsonl --json
  spanloom evaluate runs/bl corpus/test.jsonl --decode tagger
  spanloom evaluate gold-brat predicted.jsonl
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from itertools import tee
from pathlib import Path

from spanloom import formats
from spanloom.cli.predict import configure_model, load_recogniser, refuse_unfinished
from spanloom.console import Progress, print_rich
from spanloom.corpus import holds_splits
from spanloom.document import Document
from spanloom.errors import InputError, Tally
from spanloom.evaluation.compare import compare


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER|GOLD", type=Path, help="a trained model, or what is right")
    parser.add_argument("file", metavar="FILE|PRED", type=Path, help="what is right, or what is to be scored")
    parser.add_argument("--json", action="store_true", help="one JSON object, percentages")
    configure_model(parser)


def run(args: argparse.Namespace) -> int:
    from spanloom.evaluation.report import render

    refuse_unfinished(args.folder)
    for path in (args.folder, args.file):
        if path.is_dir() and not (path / "config.json").is_file() and holds_splits(path):
            raise InputError("is a corpus of splits; name the file of one of them", path)
    tally = Tally()
    began = time.perf_counter()
    if (args.folder / "config.json").is_file():
        formats.source_format(args.file)  # refuses a wrong file before the model is loaded
        ner = load_recogniser(args)
        ner.lost = tally  # what decoding has to leave out is told beside what reading did
        began = time.perf_counter()
        # gold is read once: scored, and, without its entities, given to the model
        gold, words = tee(formats.read(args.file, tally))
        predicted: Iterable[Document] = ner.documents(words)
        names = str(args.file), str(args.folder)
    else:
        given = {
            "--decode": args.decode,
            "--set": args.set or None,
            "--precision": args.precision,
            "--batch-words": args.batch_words,
        }
        idle = [name for name, value in given.items() if value is not None]
        if idle:
            raise InputError(f"{', '.join(idle)}: for a model, and two files are compared here; leave it out")
        gold, predicted = formats.read(args.folder, tally), formats.read(args.file, tally)
        names = str(args.folder), str(args.file)
    with Progress(gold, f"scoring {args.file}", unit="documents") as progress:
        result = compare(progress, predicted, *names)
    seconds = time.perf_counter() - began
    if args.json:
        print(json.dumps(result.as_dict(tally.counts, seconds)))
    else:
        print_rich(render(result, tally.counts))
    return 0
