"""F1 against speed of a trained diffusion model, by the steps it takes and the spans it begins with.

    python benchmarks/steps.py runs/d corpus/test.jsonl [--steps 1,2,5,10,20] [--spans 10,30,60,120] [--plot steps.png]

The encoder reads each sentence once for all settings; sentences a second are over its time and the setting's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import spanloom
from spanloom import formats
from spanloom.errors import Tally
from spanloom.sweeping import Setting, Sweep

Point = tuple[int, int]
"""Steps and spans."""
Figures = tuple[float, float]
"""F1 and sentences a second."""


def measure(folder: Path, file: Path, points: Sequence[Point], precision: str) -> dict[Point, Figures]:
    settings = [Setting({"steps": steps, "spans": spans}, 0.0) for steps, spans in points]
    sweep = Sweep(spanloom.load(folder, precision=precision), settings)
    for _ in sweep.read(formats.read(file, Tally())):
        pass
    found = {}
    for point, setting in zip(points, settings, strict=True):
        result = setting.result
        found[point] = result.micro.f1, result.sentences / (sweep.encoder_seconds + setting.seconds)
    return found


def report(found: Mapping[Point, Figures], steps: Sequence[int], spans: Sequence[int]) -> str:
    """A Markdown table: a row for each number of steps, F1 and sentences a second for each number of spans."""
    lines = [f"| steps | {' | '.join(f'{count} spans' for count in spans)} |", "|---" * (len(spans) + 1) + "|"]
    for count in steps:
        cells = [f"{f1:.2f}, {speed:.0f}/s" for f1, speed in (found[count, each] for each in spans)]
        lines.append(f"| {count} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(found: Mapping[Point, Figures], steps: Sequence[int], spans: Sequence[int], file: Path) -> None:
    """A line for each number of spans; along it the steps."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4), layout="constrained")
    for count in spans:
        f1, speed = zip(*(found[each, count] for each in steps), strict=True)
        axes.plot(speed, f1, marker="o", label=f"{count} spans")
        for each, x, y in zip(steps, speed, f1, strict=True):
            axes.annotate(str(each), (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axes.set(xlabel="sentences a second", ylabel="F1", xscale="log")
    axes.legend(title="numbers are steps")
    figure.savefig(file, dpi=120)


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a trained diffusion model")
    parser.add_argument("file", type=Path, help="sentences with gold")
    parser.add_argument("--steps", type=numbers, default=[1, 2, 5, 10, 20])
    parser.add_argument("--spans", type=numbers, default=[10, 30, 60, 120])
    parser.add_argument("--plot", type=Path, metavar="FILE", help="the same as a picture (needs matplotlib)")
    parser.add_argument("--precision", default="auto")
    options = parser.parse_args()
    points = list(product(options.steps, options.spans))
    found = measure(options.folder, options.file, points, options.precision)
    print(report(found, options.steps, options.spans))
    if options.plot:
        plot(found, options.steps, options.spans, options.plot)


if __name__ == "__main__":
    main()
