"""The table as it is printed without colours and without a terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO, StringIO, TextIOWrapper

from rich.console import Console

from spanloom.document import Mention
from spanloom.evaluation.metric import Macro, Result, Score, Scorer
from spanloom.evaluation.report import MEANING, render
from spanloom.evaluation.shapes import SHAPES


def printed(result: Result, lost: Mapping[str, int] | None = None, title: str = "", width: int = 80) -> str:
    out = StringIO()
    Console(file=out, width=width, force_terminal=False).print(render(result, lost or {}, title))
    return out.getvalue()


def result_of(gold: list[Mention], predicted: list[Mention]) -> Result:
    scorer = Scorer()
    scorer.add(gold, predicted)
    return scorer.result()


DRUG, DOSE = Mention("Drug", (0,)), Mention("Dose", (1, 3))


def row(text: str, name: str) -> list[str]:
    return next(line.split()[1:] for line in text.splitlines() if line.split()[:1] == [name])


def test_every_figure_is_there() -> None:
    text = printed(result_of([DRUG, DOSE], [DRUG, Mention("Form", (4,))]), title="dev.jsonl")
    assert text.startswith("dev.jsonl: 1 sentence\n")
    assert row(text, "micro") == ["50.00", "50.00", "50.00", "2", "2", "1"]
    assert row(text, "macro") == ["of", "2", "types", "50.00", "50.00", "50.00"]
    assert row(text, "Drug") == ["100.00", "100.00", "100.00", "1", "1", "1"]
    assert row(text, "(discontinuous)") == ["0.00", "0.00", "0.00", "1", "0", "0"]
    assert row(text, "(nested)") == ["-", "-", "-", "0", "0", "0"]
    assert "Never predicted: Dose." in text
    assert "not a type of gold: Form." in text


def test_it_says_what_the_scores_mean() -> None:
    text = printed(result_of([], []))
    assert " ".join(MEANING.split()) in " ".join(text.split())
    assert "Lost" not in text
    assert "Two numbers" not in text


def test_two_numbers_of_correct_where_the_sides_differ() -> None:
    text = printed(result_of([DRUG], [DRUG, Mention("Drug", (0, 1))]))
    assert row(text, "(flat)")[-1] == "1/0"
    assert row(text, "(nested)")[-1] == "0/1"
    assert "Two numbers" in text


def test_losses_come_most_frequent_first() -> None:
    lines = printed(result_of([], []), {"nested": 3, "off the word borders": 1234}).splitlines()
    at = lines.index("Lost on the way:")
    assert lines[at + 1 : at + 3] == ["  1,234 off the word borders", "  3 nested"]


def test_plain_output_has_no_codes_and_keeps_to_its_width() -> None:
    huge = Score(1_234_567, 1_234_567, 1_234_567, 123_456)
    result = Result(
        Score(1_234_567, 1_234_567, 1_234_567),
        Macro(100.0, 100.0, 100.0, 300),
        {"a_type_whose_name_never_ends_" * 4: Score(1, 1, 1), "with blanks " * 9: Score(1, 1, 1)},
        dict.fromkeys(SHAPES, huge),
        1_000_000,
    )
    for width in (80, 60):
        text = printed(result, width=width)
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text
    assert row(printed(result), "micro")[-3:] == ["1,234,567"] * 3


def test_names_are_printed_and_not_obeyed() -> None:
    text = printed(result_of([Mention("[b]x[/b]", (0,)), Mention(":bug:", (1,))], []))
    assert row(text, "[b]x[/b]")
    assert row(text, ":bug:")


def test_an_output_of_ascii_alone_will_do() -> None:
    raw = BytesIO()
    out = TextIOWrapper(raw, encoding="ascii")
    Console(file=out, width=80).print(render(result_of([DRUG], [DRUG]), {}, "dev"))
    out.flush()
    assert b"micro" in raw.getvalue()


def test_evaluation_brings_no_rich_until_it_prints() -> None:
    code = "import sys, spanloom.evaluation.report, spanloom.evaluation.compare; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
