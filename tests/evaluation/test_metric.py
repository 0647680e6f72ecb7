"""The metric against a twin in sets, seqeval's figures, and worked vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.document import Mention
from spanloom.evaluation.metric import Counts, Macro, Score, Scorer
from spanloom.evaluation.shapes import SHAPES, shapes_of

SEQEVAL: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "seqeval_figures.json").read_text(encoding="utf-8")
)["corpora"]

MENTION = st.builds(
    Mention,
    st.sampled_from("ABC"),
    st.sets(st.integers(0, 5), min_size=1, max_size=4).map(lambda words: tuple(sorted(words))),
    st.sampled_from([None, 0.5]),
)
SENTENCE = st.tuples(st.lists(MENTION, max_size=6), st.lists(MENTION, max_size=6)).flatmap(
    # Some of gold is found, or random sentences would hardly ever agree.
    lambda pair: st.tuples(st.just(pair[0]), st.permutations([*pair[1], *pair[0][::2]]))
)


def score(sentences: list[tuple[list[Mention], list[Mention]]]) -> Scorer:
    scorer = Scorer(keep_sentences=True)
    for gold, predicted in sentences:
        scorer.add(gold, predicted)
    return scorer


@given(st.lists(SENTENCE, max_size=5))
def test_counts_are_those_of_plain_sets(sentences: list[tuple[list[Mention], list[Mention]]]) -> None:
    result = score(sentences).result()
    gold = {(k, mention) for k, sentence in enumerate(sentences) for mention in sentence[0]}
    predicted = {(k, mention) for k, sentence in enumerate(sentences) for mention in sentence[1]}

    assert result.micro == Score(len(gold), len(predicted), len(gold & predicted))
    assert result.sentences == len(sentences)
    assert list(result.types) == sorted({mention.type for _, mention in gold | predicted})
    for name, counted in result.types.items():
        ours = {item for item in gold if item[1].type == name}
        theirs = {item for item in predicted if item[1].type == name}
        assert counted == Score(len(ours), len(theirs), len(ours & theirs))
    assert tuple(result.shapes) == SHAPES
    for shape, counted in result.shapes.items():
        ours = {item for item in gold if shapes_of(sentences[item[0]][0])[item[1]] == shape}
        theirs = {item for item in predicted if shapes_of(sentences[item[0]][1])[item[1]] == shape}
        assert counted == Score(len(ours), len(theirs), len(ours & predicted), len(theirs & gold))


@given(st.lists(SENTENCE, max_size=4))
def test_percentages_are_those_of_the_counts(sentences: list[tuple[list[Mention], list[Mention]]]) -> None:
    result = score(sentences).result()
    for one in [result.micro, *result.types.values(), *result.shapes.values()]:
        right = one.correct if one.correct_predicted is None else one.correct_predicted
        assert one.precision == (100 * right / one.predicted if one.predicted else 0)
        assert one.recall == (100 * one.correct / one.gold if one.gold else 0)
        both = one.precision + one.recall
        assert one.f1 == pytest.approx(2 * one.precision * one.recall / both if both else 0)


def mentions_of(tags: str) -> list[Mention]:
    """A line of well-formed BIO tags as mentions."""
    found: list[tuple[str, list[int]]] = []
    for at, tag in enumerate(tags.split()):
        if tag.startswith("B-"):
            found.append((tag[2:], [at]))
        elif tag.startswith("I-"):
            found[-1][1].append(at)
    return [Mention(type, tuple(words)) for type, words in found]


@pytest.mark.parametrize("corpus", SEQEVAL, ids=range(len(SEQEVAL)))
def test_flat_figures_are_seqevals(corpus: dict[str, Any]) -> None:
    pairs = zip(corpus["gold"], corpus["predicted"], strict=True)
    result = score([(mentions_of(gold), mentions_of(predicted)) for gold, predicted in pairs]).result()

    def figures(of: Score | Macro) -> Any:
        return pytest.approx([of.precision, of.recall, of.f1], abs=1e-5)

    assert corpus["micro"] == figures(result.micro)
    assert corpus["types"].keys() == result.types.keys()
    for name, expected in corpus["types"].items():
        assert expected == figures(result.types[name])
    # Over there a type that is only predicted takes part in the mean; here the mean is over gold's types.
    if not result.types_only_predicted:
        assert corpus["macro"] == figures(result.macro)
    assert {shape for shape, of in result.shapes.items() if of.gold or of.predicted} <= {"flat"}


def test_seqevals_figures_hold_enough() -> None:
    assert len(SEQEVAL) == 40
    assert sum(0 < corpus["micro"][2] < 100 for corpus in SEQEVAL) > 20


def test_worked_vector() -> None:
    result = score(
        [
            ([Mention("W", (2,)), Mention("D", (3, 4))], [Mention("W", (1, 2)), Mention("W", (3, 4))]),
            (
                [Mention("W", (0,)), Mention("L", (2, 3, 4)), Mention("D", (5,))],
                [Mention("W", (0,)), Mention("L", (2, 3)), Mention("L", (4,)), Mention("D", (5,))],
            ),
            ([], [Mention("L", (2,))]),
        ]
    ).result()
    correct, spurious, missed = 2, 5, 3
    assert result.micro == Score(correct + missed, correct + spurious, correct)
    assert result.micro.precision == pytest.approx(100 * 2 / 7)
    assert result.micro.recall == 40.0
    assert result.micro.f1 == pytest.approx(100 * 4 / 12)
    # W: P 1/3, R 1/2; L: nothing; D: P 1, R 1/2.
    assert result.macro.precision == pytest.approx(100 * (1 / 3 + 1) / 3)
    assert result.macro.recall == pytest.approx(100 / 3)
    assert result.macro.f1 == pytest.approx(100 * (2 / 5 + 2 / 3) / 3)
    assert result.macro.types == 3


def test_the_order_of_nested_mentions_does_not_matter() -> None:
    outer, inner, twin = Mention("ORG", (0, 1, 2)), Mention("LOC", (2,)), Mention("PER", (2,))
    result = score([([outer, inner, twin], [twin, outer, inner]), ([inner, outer], [outer, inner])]).result()
    assert result.micro == Score(5, 5, 5)
    assert (result.micro.f1, result.macro.f1, result.shapes["nested"].f1) == (100.0, 100.0, 100.0)


def test_duplicates_collapse_and_probabilities_do_not_matter() -> None:
    result = score([([Mention("A", (1,))] * 3, [Mention("A", (1,), 0.2), Mention("A", (1,), 0.9)])]).result()
    assert result.micro == Score(1, 1, 1)


def test_type_and_every_word_must_be_right() -> None:
    gold = [Mention("A", (1, 2, 4))]
    for near in (Mention("B", (1, 2, 4)), Mention("A", (1, 2, 3, 4)), Mention("A", (1, 2)), Mention("A", (1, 4))):
        assert score([(gold, [near])]).result().micro == Score(1, 1, 0)


def test_types_of_one_side_stay_in_the_denominators_and_are_named() -> None:
    result = score([([Mention("A", (0,)), Mention("B", (1,))], [Mention("A", (0,)), Mention("C", (1,))])]).result()
    assert result.types_only_in_gold == ("B",)
    assert result.types_only_predicted == ("C",)
    assert result.micro == Score(2, 2, 1)
    assert result.macro == Macro(50.0, 50.0, 50.0, 2)


def test_a_shape_has_its_own_correct_on_each_side() -> None:
    # Found, but flat in gold and nested among the predictions.
    both, extra = Mention("A", (1,)), Mention("A", (1, 2))
    shapes = score([([both], [both, extra])]).result().shapes
    assert shapes["flat"] == Score(1, 0, 1, 0)
    assert shapes["nested"] == Score(0, 2, 0, 1)
    assert (shapes["flat"].recall, shapes["flat"].precision, shapes["flat"].f1) == (100.0, 0.0, 0.0)
    assert (shapes["nested"].recall, shapes["nested"].precision, shapes["nested"].f1) == (0.0, 50.0, 0.0)


@pytest.mark.parametrize("sentences", [[], [([], [])]])
def test_nothing_at_all_is_zero(sentences: list[tuple[list[Mention], list[Mention]]]) -> None:
    result = score(sentences).result()
    assert result.micro == Score(0, 0, 0)
    assert (result.micro.precision, result.micro.recall, result.micro.f1) == (0.0, 0.0, 0.0)
    assert result.macro == Macro(0.0, 0.0, 0.0, 0)
    assert result.types == {}
    assert all(score.f1 == 0.0 for score in result.shapes.values())


def test_json_keeps_its_shape() -> None:
    scorer = score([([Mention("A", (0,)), Mention("B", (1,))], [Mention("A", (0,))])])
    printed = scorer.result().as_dict({"off the word borders": 2}, 0.5)
    found = {"precision": 100.0, "recall": 100.0, "f1": 100.0, "gold": 1, "predicted": 1, "correct": 1}
    missed = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "gold": 1, "predicted": 0, "correct": 0}
    nothing = {**missed, "gold": 0, "correct_predicted": 0}
    both = {"precision": 100.0, "recall": 50.0, "f1": 200 / 3, "gold": 2, "predicted": 1, "correct": 1}
    assert json.loads(json.dumps(printed)) == {
        "micro": both,
        "macro": {"precision": 50.0, "recall": 50.0, "f1": 50.0, "types": 2},
        "types": {"A": found, "B": missed},
        "shapes": {
            "flat": {**both, "correct_predicted": 1},
            "nested": nothing,
            "overlapping": nothing,
            "discontinuous": nothing,
        },
        "lost": {"off the word borders": 2},
        "sentences": 1,
        "seconds": 0.5,
    }


def test_rows_are_kept_only_when_asked_for() -> None:
    sentences = [([Mention("A", (0,))], [Mention("A", (0,)), Mention("A", (1,))]), ([], [])]
    assert score(sentences).rows == [Counts(1, 2, 1), Counts(0, 0, 0)]
    scorer = Scorer()
    scorer.add(*sentences[0])
    assert scorer.rows == []


def test_one_text_may_stand_for_several_sentences() -> None:
    scorer = Scorer()
    scorer.add([], [], sentences=3)
    assert scorer.result().sentences == 3
