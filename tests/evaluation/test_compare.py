"""Two files against each other: the same figures as on words, however either side is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.document import Document, Entity, Mention
from spanloom.errors import InputError
from spanloom.evaluation.compare import compare, mentions_by_rank
from spanloom.evaluation.metric import Result, Score, Scorer

Words = list[str]
Annotated = tuple[Words, list[Mention], list[Mention]]


@st.composite
def sentence(draw: st.DrawFn) -> Annotated:
    """Words with gold and predicted mentions of every shape; some predictions are right."""
    words = draw(st.lists(st.text("ab漢😀é", min_size=1, max_size=3), max_size=7))
    if not words:
        return words, [], []
    places = st.sets(st.integers(0, len(words) - 1), min_size=1, max_size=5).map(lambda chosen: tuple(sorted(chosen)))
    mentions = st.lists(st.builds(Mention, st.sampled_from("AB"), places), max_size=5)
    gold = draw(mentions)
    return words, gold, draw(st.permutations(draw(mentions) + gold[::2]))


def document(
    id: str,
    sentences: Sequence[tuple[Words, list[Mention]]],
    blanks: str = " ",
    line: str = "\n",
    as_words: bool = True,
) -> Document:
    """A document from words; every word of an entity is a fragment of its own."""
    text, layout, entities = "", [], []
    for words, mentions in sentences:
        spans = []
        for word in words:
            text += blanks
            spans.append((len(text), len(text) + len(word)))
            text += word
        text += line
        layout.append(tuple(spans))
        entities += [Entity(mention.type, tuple(spans[word] for word in mention.words)) for mention in mentions]
    return Document(id, text, tuple(entities), tuple(layout) if as_words else None)


def cut(parts: list[Annotated], borders: set[int], side: int, **how: str | bool) -> Iterator[Document]:
    """The sentences as documents that end at the given places; side 1 holds gold, 2 the predictions."""
    places = sorted({0, len(parts), *(border for border in borders if border < len(parts))})
    for first, last in pairwise(places):
        chosen = [(part[0], part[side]) for part in parts[first:last]]
        yield document(f"{first}-{last}", chosen, **how)  # type: ignore[arg-type]


@given(st.lists(sentence(), max_size=7), st.sets(st.integers(1, 6)), st.sets(st.integers(1, 6)), st.booleans())
def test_characters_give_the_figures_of_words(
    parts: list[Annotated], gold_borders: set[int], predicted_borders: set[int], as_words: bool
) -> None:
    scorer = Scorer()
    for _, gold, predicted in parts:
        scorer.add(gold, predicted)
    one = cut(parts, gold_borders, 1)
    other = cut(parts, predicted_borders, 2, blanks="\u00a0 ", line="", as_words=as_words)
    assert compare(one, other, "gold", "predicted") == scorer.result()


@given(st.lists(sentence(), max_size=6), st.sets(st.integers(1, 6)), st.sets(st.integers(1, 6)))
def test_a_file_against_itself_is_flawless(parts: list[Annotated], one: set[int], other: set[int]) -> None:
    result = compare(cut(parts, one, 1), cut(parts, other, 1, blanks="\t"), "gold", "predicted")
    assert result.micro.correct == result.micro.gold == result.micro.predicted


@given(st.lists(sentence(), min_size=1, max_size=5), st.data())
def test_another_character_is_found_and_named(parts: list[Annotated], data: st.DataObject) -> None:
    texts = ["".join(part[0]) for part in parts]
    length = sum(map(len, texts))
    if not length:
        return
    changed = data.draw(st.integers(0, length - 1))
    whole = "".join(texts)
    other = [Document("p", whole[:changed] + "#" + whole[changed + 1 :])]
    with pytest.raises(InputError, match=r"differ in document .*#"):
        compare(cut(parts, data.draw(st.sets(st.integers(1, 5))), 1), other, "gold", "predicted")


def texts(*texts: str) -> list[Document]:
    return [Document(str(place), text) for place, text in enumerate(texts, 1)]


def scored(gold: Iterable[Document], predicted: Iterable[Document]) -> Result:
    return compare(gold, predicted, "gold.jsonl", "pred.ann")


def refusal(gold: Iterable[Document], predicted: Iterable[Document]) -> str:
    with pytest.raises(InputError) as caught:
        scored(gold, predicted)
    return str(caught.value)


def test_other_text_names_files_document_and_place() -> None:
    said = refusal(texts("a b", "severe left knee pain"), [Document("x", "ab severe  right knee pain")])
    assert said == (
        "gold.jsonl and pred.ann differ in document '2' (document 'x' of pred.ann): "
        "gold has 'severe left knee pain', predicted has 'ab severe right knee pain'; "
        "evaluate files made from the same text"
    )
    said = refusal(texts("one two"), texts("one too"))
    assert said.startswith(
        "gold.jsonl and pred.ann differ in document '1': gold has 'one two', predicted has 'one too';"
    )


def test_a_long_text_is_shown_around_the_difference_only() -> None:
    said = refusal(texts("x " * 1000 + "here" + " y" * 1000), texts("x " * 1000 + "hare" + " y" * 1000))
    assert "here" in said
    assert "hare" in said
    assert len(said) < 250


def test_an_early_end_names_the_first_document_without_a_partner() -> None:
    assert refusal(texts("a", "b", "", "c", "d"), texts("a", "b")) == (
        "pred.ann ends early: document '4' of gold.jsonl has no partner; evaluate files made from the same text"
    )
    assert refusal([], texts("a")).startswith("gold.jsonl ends early: document '1' of pred.ann has no partner")
    assert refusal(texts("a b", "cd"), texts("a", "bc")).startswith("pred.ann ends within document '2' of gold.jsonl")


def test_documents_without_visible_text_need_no_partner() -> None:
    assert scored(texts("", "a", " \n", "b", ""), texts("a", "b")).sentences == 5
    assert scored(texts("a", "b"), texts("\t", "a", "", "", "b", "")).sentences == 2
    assert scored([], texts("", " ")) == scored([], [])


def test_sentences_are_golds() -> None:
    words = [document("1", [(["a"], []), (["b"], []), ([], [])]), document("2", [(["c"], [])])]
    assert scored(words, texts("abc")).sentences == 4
    assert scored(texts("abc"), words).sentences == 1


def test_blanks_at_the_edges_and_between_fragments_do_not_count() -> None:
    gold = [Document("1", "left knee  pain", (Entity("A", ((0, 9),)), Entity("A", ((5, 15),))))]
    predicted = [Document("1", "left knee pain", (Entity("A", ((0, 4), (5, 10))), Entity("A", ((5, 9), (10, 14)))))]
    result = scored(gold, predicted)
    assert result.micro == Score(2, 2, 2)
    assert result.shapes["overlapping"] == Score(2, 2, 2, 2)


def test_off_the_word_borders_is_compared_by_character() -> None:
    gold = [Document("1", "unhappy", (Entity("A", ((2, 7),)),))]
    assert scored(gold, [Document("1", "unhappy", (Entity("A", ((0, 7),)),))]).micro == Score(1, 1, 0)
    assert scored(gold, [Document("1", "un happy", (Entity("A", ((3, 8),)),))]).micro == Score(1, 1, 1)


def test_an_entity_of_blanks_counts_and_meets_only_its_like() -> None:
    blank = Entity("A", ((1, 2),))
    gold = [Document("1", "a b", (blank, Entity("A", ((0, 3),)))), Document("2", "  ", (blank,))]
    result = scored(gold, gold)
    assert result.micro == Score(3, 3, 3)
    assert result.shapes["flat"].gold == 3
    assert scored(gold, texts("ab")).micro == Score(3, 0, 0)
    assert scored(gold, [Document("1", "ab", (Entity("A", ((0, 1),)), Entity("A", ((1, 2),))))]).micro == Score(3, 2, 0)


def test_ranks_leave_blanks_out() -> None:
    entity = Entity("A", ((1, 4), (6, 7)), 0.5)
    assert mentions_by_rank(Document("1", "ab c\nde", (entity,)), 10) == [Mention("A", (11, 12, 14))]


def test_streams_are_read_side_by_side() -> None:
    read: list[str] = []

    def stream(name: str, text: str) -> Iterator[Document]:
        for place in range(1000):
            read.append(name)
            yield Document(str(place), text if place < 10 else name)

    refusal(stream("g", "same"), stream("p", "same"))
    assert read.count("g") == read.count("p") == 11
