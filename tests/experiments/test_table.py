"""The table of an experiment: means, deviations and differences, checked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spanloom.document import Document, Entity
from spanloom.evaluation.compare import compare
from spanloom.experiments.table import Record, spread, table

WORDS = tuple((i * 2, i * 2 + 1) for i in range(10))
TEXT = "a b c d e f g h i j"


def document(number: int, *words: int) -> Document:
    entities = tuple(Entity("X", (WORDS[word],)) for word in words)
    return Document(str(number), TEXT, entities, (WORDS,))


GOLD = [document(n, 0, 4) for n in range(50)]
GOOD = [document(n, 0, 4) for n in range(45)] + [document(n, 0) for n in range(45, 50)]
BAD = [document(n, 0) for n in range(40)] + [document(n, 5) for n in range(40, 50)]
PREDICTED = {"good": GOOD, "bad": BAD}


def record(system: str, seed: int, predictions: str, **changes: Any) -> Record:
    scores = compare(GOLD, PREDICTED[predictions], "gold", "predicted").as_dict({}, 1.0)
    made = {"system": system, "seed": seed, "corpus": "c", "scores": scores, "dev_f1": None}
    return {**made, "sentences_per_second": [30.0, 50.0], "predictions": predictions, **changes}


def rows(records: list[Record], baseline: str | dict[str, str] | None) -> list[dict[str, str]]:
    text = table(records, baseline, lambda _: iter(GOLD), lambda record: iter(PREDICTED[record["predictions"]]))
    lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def test_rows_hold_means_and_deviations() -> None:
    records = [record("one", 1, "good", dev_f1=80.0), record("one", 2, "bad", dev_f1=90.0), record("two", 1, "bad")]
    one, two = rows(records, None)
    f1 = [each["scores"]["micro"]["f1"] for each in records]
    assert one["F1"] == spread(f1[:2])
    assert one["dev F1"] == "85.00 ± 7.07"
    assert (one["seeds"], two["seeds"]) == ("1 2", "1")
    assert two["dev F1"] == "-"
    assert two["F1"] == f"{f1[2]:.2f}"
    assert one["sentences/s"] == "40"
    assert "to one" not in one


def test_the_difference_to_the_baseline_has_an_interval() -> None:
    records = [record(system, seed, system) for system in ("bad", "good") for seed in (1, 2)]
    bad, good = rows(records, "bad")
    assert bad["to bad"] == bad["p"] == ""
    difference = records[2]["scores"]["micro"]["f1"] - records[0]["scores"]["micro"]["f1"]
    assert good["to bad"] == f"{difference:+.2f}"
    low, high = (float(each) for each in good["95 %"].split(" to "))
    assert 0 < low < difference < high
    assert float(good["p"]) < 0.01


def test_systems_may_have_baselines_of_their_own() -> None:
    records = [record(system, 1, predictions) for system, predictions in (("a", "bad"), ("b", "good"), ("c", "good"))]
    a, b, c = rows(records, {"b": "a", "c": "b"})
    (expected,) = (each["to a"] for each in rows(records, "a")[1:2])
    assert [each["to its baseline"] for each in (a, b, c)] == ["", f"{expected} (a)", "+0.00 (b)"]


def test_only_seeds_that_both_have_are_compared() -> None:
    records = [record("bad", 1, "bad"), record("good", 2, "good")]
    assert rows(records, "bad")[1]["to bad"] == ""
    records.append(record("good", 1, "bad"))
    assert rows(records, "bad")[1]["to bad"] == "+0.00"


def test_shapes_are_told_where_there_are_several() -> None:
    nested = record("one", 1, "good")
    assert "flat" not in rows([nested], None)[0]
    nested["scores"]["shapes"]["nested"] = {"gold": 3, "recall": 50.0, "f1": 40.0}
    shown = rows([nested], None)[0]
    assert shown["nested"] == "50.00 / 40.00"
    assert "discontinuous" not in shown


@pytest.mark.parametrize(("values", "told"), [([50.0], "50.00"), ([50.0, 52.0], "51.00 ± 1.41")])
def test_a_single_value_has_no_deviation(values: list[float], told: str) -> None:
    assert spread(values) == told


def test_groups_of_lengths() -> None:
    text = table(
        [record("one", 1, "bad")], None, lambda _: iter(GOLD), lambda each: iter(PREDICTED[each["predictions"]]), [1, 2]
    )
    heading, _, row = (line.split("|")[1:-1] for line in text.splitlines()[:3])
    cells = dict(zip((cell.strip() for cell in heading), (cell.strip() for cell in row), strict=True))
    assert cells["1"] == f"{cells['R']} / {cells['F1']}"  # all entities are of one word
    assert cells["2+"] == "0.00 / 0.00"
