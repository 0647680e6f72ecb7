"""The scores as a table for people; `Result.as_dict` has the same for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spanloom.errors import several
from spanloom.evaluation.metric import Macro, Result, Score
from spanloom.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

MEANING = "Strict: a prediction is correct when its type and every one of its words are right. Percentages."


def render(result: Result, lost: Mapping[str, int], title: str = "") -> RenderableType:
    """Micro, macro, every type and every shape, then what a reader should know of these figures.

    `lost` counts by reason what never reached the metric. The table keeps to 80 columns without
    colours, and long names of types are folded.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("", overflow="fold")
    for heading in ("precision", "recall", "F1", "gold", "predicted", "correct"):
        table.add_column(heading, justify="right", overflow="fold")

    def row(name: str, numbers: list[str], style: str = "") -> None:
        # As Text, a type called "[b]" or ":bug:" is printed and not obeyed.
        table.add_row(Text(printable(name), style), *numbers)

    row("micro", _numbers(result.micro), "bold")
    row(f"macro of {several(result.macro.types, 'type')}", _percentages(result.macro), "bold")
    table.add_section()
    for name, score in result.types.items():
        row(name, _numbers(score))
    if result.types:
        table.add_section()
    for shape, score in result.shapes.items():
        row(f"({shape})", _numbers(score))

    heading = several(result.sentences, "sentence")
    lines = [Text(f"{title}: {heading}" if title else heading, "bold"), Text("")]
    return Group(*lines, table, Text(""), *(Text(printable(note)) for note in _notes(result, lost)))


def _notes(result: Result, lost: Mapping[str, int]) -> list[str]:
    notes = [MEANING]
    if any(score.correct != score.correct_predicted for score in result.shapes.values()):
        notes.append(
            "Shapes: each side's mentions by their shape among their own. "
            "Two numbers of correct ones are those of gold and those of the predictions."
        )
    if result.types_only_in_gold:
        notes.append(f"Never predicted: {', '.join(result.types_only_in_gold)}.")
    if result.types_only_predicted:
        notes.append(f"Predicted, but not a type of gold: {', '.join(result.types_only_predicted)}.")
    if lost:
        notes.append("Lost on the way:")
        notes.extend(f"  {count:,} {reason}" for reason, count in sorted(lost.items(), key=lambda item: -item[1]))
    return notes


def _numbers(score: Score) -> list[str]:
    """The cells of one row; percentages are blank where neither side holds anything."""
    percentages = _percentages(score) if score.gold or score.predicted else ["-"] * 3
    correct = f"{score.correct:,}"
    if score.correct_predicted not in (None, score.correct):
        correct += f"/{score.correct_predicted:,}"
    return [*percentages, f"{score.gold:,}", f"{score.predicted:,}", correct]


def _percentages(score: Score | Macro) -> list[str]:
    return [f"{percentage:.2f}" for percentage in (score.precision, score.recall, score.f1)]
