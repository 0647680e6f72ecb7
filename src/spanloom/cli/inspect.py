"""What is in a corpus: sizes, types, lengths, shapes, duplicates across splits, what is lost,
and the ceiling of each head: the share of the entities that it could ever find.

CORPUS is a folder with train.*, dev.* and test.* in any readable format, one file, a brat folder,
or a sample that comes with Spanloom: sample:flat, sample:nested, sample:mixed.

shapes, the first that holds
  discontinuous   with a gap between its words
  overlapping     shares words with another, neither inside the other
  nested          inside or around another
  flat            all others

examples
  spanloom inspect sample:mixed
  spanloom inspect corpus --examples 5
  spanloom inspect notes-brat --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spanloom.align import sentences
from spanloom.console import Progress, print_rich, terminal_width, wants_colour, wants_unicode
from spanloom.corpus import Corpus, columns_of, find_corpus
from spanloom.document import Sentence
from spanloom.drawing import draw
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import SHAPES
from spanloom.inspection import Inspector, Split, lengths
from spanloom.terminal import printable

if TYPE_CHECKING:
    from rich.table import Table

    from spanloom.heads.base import Scheme


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help="a folder of splits, a file, a brat folder, or sample:NAME")
    parser.add_argument("--from", dest="source_format", metavar="F", help="the format, if it is not to be found out")
    parser.add_argument("--columns", metavar="C", help="CoNLL columns in order: word, tag, pos, _ for the rest")
    parser.add_argument("--examples", metavar="N", type=int, default=2, help="sentences to draw (default: 2)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.examples < 0:
        raise InputError(f"--examples {args.examples}: a number from 0 on is expected")
    columns = columns_of(args.columns)
    corpus = find_corpus(args.corpus)
    inspector = Inspector(0 if args.json else args.examples)
    for name in corpus.splits:
        tally = Tally()
        documents = corpus.documents(name, tally, args.source_format, columns)
        with Progress(documents, f"reading {name}", unit="documents") as progress:
            inspector.add(name, progress, tally)
    _add_ceilings(inspector.splits, corpus, args.source_format, columns)
    if args.json:
        splits = {split.name: split.as_dict() for split in inspector.splits}
        print(json.dumps({"splits": splits}, ensure_ascii=False))
        return 0
    _show(args.corpus, inspector)
    return 0


def _add_ceilings(splits: list[Split], corpus: Corpus, format: str | None, columns: Sequence[str] | None) -> None:
    """What each head, fitted to the first split, could ever find in each; further readings, for types come first."""
    from spanloom.ceilings import ceiling, scheme_of
    from spanloom.heads import names

    def read(split: Split) -> Iterator[Sentence]:
        for document in corpus.documents(split.name, Tally(), format, columns):
            yield from sentences(document, Tally())

    types = sorted(splits[0].types)
    with Progress([(head, split) for head in names() for split in splits], "ceilings", unit="readings") as progress:
        schemes: dict[str, Scheme] = {}
        for head, split in progress if types else ():
            if head not in schemes:
                schemes[head] = scheme_of(head, types, read(splits[0]))
            split.heads[head] = ceiling(schemes[head], read(split)).as_dict()


def _show(corpus: str, inspector: Inspector) -> None:
    from rich.text import Text

    print_rich(Text(printable(corpus), "bold"))
    print_rich(_table(inspector.splits))
    for split in inspector.splits:
        for line in _remarks(split):
            print(f"{split.name}: {printable(line)}")
    for example in inspector.examples:
        print()
        print(draw(example, terminal_width(sys.stdout), wants_colour(sys.stdout), wants_unicode(sys.stdout)))


def _table(splits: list[Split]) -> Table:
    """The figures that every split has, a column a split."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for split in splits:
        table.add_column(split.name, justify="right")

    def row(name: str, *values: int | str) -> None:
        table.add_row(Text(printable(name)), *(value if isinstance(value, str) else f"{value:,}" for value in values))

    row("documents", *(split.documents for split in splits))
    row("sentences", *(split.sentences for split in splits))
    row("  without entities", *(split.without_entities for split in splits))
    row("words", *(split.words for split in splits))
    row("  a sentence: mean 99% most", *(_lengths(split.sentence_lengths) for split in splits))
    row("entities", *(split.entities for split in splits))
    row("  words of one: mean 99% most", *(_lengths(split.entity_lengths) for split in splits))
    row("distinct names", *(split.names for split in splits))
    table.add_section()
    for type in sorted({type for split in splits for type in split.types}):
        row(type, *(split.types[type] for split in splits))
    table.add_section()
    for head in splits[0].heads:
        cells = (f"{split.heads[head]['recall']:.2f}" if head in split.heads else "-" for split in splits)
        row(f"ceiling of {head} (recall)", *cells)
    table.add_section()
    for shape in SHAPES:
        row(f"({shape})", *(split.shapes[shape] for split in splits))
    return table


def _lengths(counts: Counter[int]) -> str:
    figures = lengths(counts)
    return f"{figures['mean']:.1f}  {figures['p99']:3}  {figures['max']:3}"


def _remarks(split: Split) -> Iterator[str]:
    """What a person should know before training, worst first."""
    for line in split.lost.lines():
        yield f"lost or changed: {line}"
    if split.twice:
        yield f"{split.twice:,} entities stand there twice"
    for other, count in split.also_in.items():
        if count:
            yield f"{count:,} of {split.sentences:,} sentences ({_share(count, split.sentences)}) also stand in {other}"
    if split.contradicted:
        yield f"{split.contradicted:,} sentences stand there before, with other entities"
    if split.repeated:
        yield f"{split.repeated:,} sentences stand there before"
    if split.name != "train" and split.names_in_train:
        yield f"{_share(split.names_in_train, split.names)} of its distinct names also stand in train"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
