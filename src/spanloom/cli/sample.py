"""Make a corpus of readable English to try things on: clinical notes, lab abstracts, news.

It is generated, not written by people: good for a first run and for tests, no measure of how a
model does on your text. Names in test occur nowhere in train, and several types share their names,
so that only the context tells them apart.

Writes train.jsonl, dev.jsonl and test.jsonl (70, 15 and 15 % of the sentences) into DIR.

shapes
  flat       entities side by side
  nested     and inside each other, some longer than ten words
  mixed      and overlapping, and discontinuous ("pain in the left [knee and] hip")

examples
  spanloom sample demo --shape mixed
  spanloom sample big --shape nested --sentences 20000 --seed 3
"""

from __future__ import annotations

import argparse
import shlex
from contextlib import ExitStack
from pathlib import Path

from spanloom.errors import InputError, Tally
from spanloom.formats import words
from spanloom.formats.files import can_write, replacing
from spanloom.terminal import printable

MOST_SENTENCES = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write; files of the same name are replaced")
    parser.add_argument("--shape", metavar="S", default="mixed", help="flat, nested or mixed (default: mixed)")
    parser.add_argument(
        "--sentences", metavar="N", type=int, default=2000, help="sentences in all three splits (default: 2000)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=1, help="equal seeds, equal corpora (default: 1)")


def run(args: argparse.Namespace) -> int:
    from spanloom.samples import generate
    from spanloom.samples.baseline import longest_match_f1

    folder: Path = args.folder
    can_write(folder.resolve(), folder=True)
    if args.sentences > MOST_SENTENCES:
        raise InputError(f"--sentences {args.sentences}: at most {MOST_SENTENCES:,}")
    splits = generate(args.shape, args.sentences, args.seed)
    made = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        with ExitStack() as whole:  # no file appears before all three are written
            for split, documents in splits.items():
                words.write(documents, whole.enter_context(replacing(folder / f"{split}.jsonl")), Tally())
    except BaseException:
        if made:
            folder.rmdir()
        raise
    for split, documents in splits.items():
        sentences = sum(len(document.words or ()) for document in documents)
        entities = sum(len(document.entities) for document in documents)
        print(f"{split:5}  {sentences:7,} sentences  {len(documents):6,} documents  {entities:7,} entities")
    f1 = longest_match_f1(splits["train"], splits["test"])
    print(f"the longest match of train's names reaches {f1:.1f} F1 on test")
    print(f"next: spanloom inspect {shlex.quote(printable(str(folder)))}")
    return 0
