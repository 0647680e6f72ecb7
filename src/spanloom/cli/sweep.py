"""Score one trained model with other options of decoding; the encoder reads each sentence once.

Each --over names an option and its values; several make a grid. What can be swept is what --set takes
at prediction (see spanloom train --head NAME --options), and the threshold.

Sweep on dev, and use what you chose on test with spanloom evaluate --set: what is chosen on test
flatters.

examples
  spanloom sweep runs/b corpus/dev.jsonl --over threshold=0,0.5,0.7,0.9
  spanloom sweep runs/span corpus/dev.jsonl --over head.overlap=flat,no-crossing,nested --over threshold=0,0.5
  spanloom sweep runs/b corpus/dev.jsonl --over head.legal=true,false --json
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spanloom import formats
from spanloom.cli.predict import configure_model, load_recogniser
from spanloom.console import Progress, print_rich
from spanloom.errors import InputError, Tally
from spanloom.options import parse_sets

if TYPE_CHECKING:
    from rich.console import RenderableType

    from spanloom.sweeping import Sweep

THRESHOLD = "threshold"
MOST = 1000


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a trained model")
    parser.add_argument("file", metavar="FILE", type=Path, help="what is right")
    parser.add_argument(
        "--over", metavar="O=A,B,C", action="append", required=True, help="an option with its values; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON a setting")
    configure_model(parser)


def run(args: argparse.Namespace) -> int:
    axes = [parse_axis(over) for over in args.over]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise InputError(f"--over names {max(names, key=names.count)} twice; put its values into one")
    points = [dict(zip(names, values, strict=True)) for values in product(*(values for _, values in axes))]
    if len(points) > MOST:
        raise InputError(f"--over makes {len(points):,} settings; {MOST:,} is the most")
    formats.source_format(args.file)
    thresholds = [_threshold(point.get(THRESHOLD, "0")) for point in points]
    ner = load_recogniser(args)

    from spanloom.sweeping import Setting, Sweep

    settings = []
    fixed = parse_sets(args.set, ("head",))["head"]
    for point, threshold in zip(points, thresholds, strict=True):
        options = {name.removeprefix("head."): value for name, value in point.items() if name != THRESHOLD}
        settings.append(Setting({**fixed, **options}, threshold))
    sweep = Sweep(ner, settings)
    tally = Tally()
    documents = sweep.read(formats.read(args.file, tally))
    with Progress(documents, f"scoring {args.file}", unit="documents") as progress:
        for _ in progress:
            pass
    if args.json:
        for point, setting in zip(points, settings, strict=True):
            found = setting.result.as_dict(tally.counts + setting.lost.counts, setting.seconds)
            print(json.dumps({"options": point, **found, "encoder_seconds": sweep.encoder_seconds}))
    else:
        print_rich(_table(names, points, sweep))
    return 0


def parse_axis(over: str) -> tuple[str, list[str]]:
    """`head.steps=1,2,5` as a name and the texts of its values."""
    name, equals, values = over.partition("=")
    found = [value.strip() for value in values.split(",")]
    name = name.strip()
    if not equals or not all(found) or not (name == THRESHOLD or name.startswith("head.")):
        raise InputError(f"--over {over!r}: head.option=value,value,... or threshold=value,... is expected")
    return name, list(dict.fromkeys(found))


def _threshold(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError(f"--over threshold={value}: a probability from 0 to 1 is expected")
    return number


def _table(names: list[str], points: list[dict[str, Any]], sweep: Sweep) -> RenderableType:
    """A row a setting, the best F1 in bold."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in names:
        table.add_column(Text(name), justify="right")
    for heading in ("precision", "recall", "F1", "predicted", "head s"):
        table.add_column(heading, justify="right")
    micro = [setting.result.micro for setting in sweep.settings]
    best = max(score.f1 for score in micro)
    for point, setting, score in zip(points, sweep.settings, micro, strict=True):
        numbers = [f"{figure:.2f}" for figure in (score.precision, score.recall, score.f1)]
        cells = [*point.values(), *numbers, f"{score.predicted:,}", f"{setting.seconds:.2f}"]
        table.add_row(*map(Text, cells), style="bold" if score.f1 == best else "")
    sentences, gold = sweep.settings[0].result.sentences, micro[0].gold
    note = f"{sentences:,} sentences, {gold:,} entities; the encoder took {sweep.encoder_seconds:.2f} s, once for all"
    return Group(table, Text(""), Text(note))
