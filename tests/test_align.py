"""Characters to words and back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.align import ACROSS, EDGE_BLANK, OFF_WORD, WordSentence, entities, fragments, from_words, sentences
from spanloom.document import Document, Entity, Mention, runs
from spanloom.errors import Tally
from tests.strategies import text_documents, word_documents

TEXT = "Pain in the left knee and hip. She was unhappy."


def place(*found: tuple[int, int], text: str = TEXT) -> tuple[list[tuple[int, ...]], Tally]:
    tally = Tally()
    made = sentences(Document("d", text, (Entity("X", found),)), tally)
    return [mention.words for sentence in made for mention in sentence.mentions], tally


def test_an_entity_on_word_borders_becomes_a_mention() -> None:
    words, tally = place((0, 21))
    assert words == [(0, 1, 2, 3, 4)]
    assert tally.total() == 0


def test_fragments_become_one_discontinuous_mention() -> None:
    words, tally = place((0, 16), (26, 29))
    assert words == [(0, 1, 2, 3, 6)]
    assert tally.total() == 0


def test_what_is_off_the_word_borders_is_counted_with_its_text_and_never_moved() -> None:
    words, tally = place((41, 46))
    assert words == []
    assert tally.counts == {OFF_WORD: 1}
    assert tally.examples[OFF_WORD] == ["un[happy]."]


def test_what_crosses_sentences_is_counted_with_its_text() -> None:
    for found in [((26, 34),), ((0, 4), (31, 34))]:
        words, tally = place(*found)
        assert words == []
        assert tally.counts == {ACROSS: 1}


def test_blanks_at_the_edges_are_told() -> None:
    words, tally = place((4, 7))
    assert words == [(1,)]
    assert tally.counts == {EDGE_BLANK: 1}


@pytest.mark.parametrize("found", [(4, 5), (0, 0)])
def test_an_entity_of_blanks_alone_is_off_the_words(found: tuple[int, int]) -> None:
    words, tally = place(found)
    assert words == []
    assert tally.counts == {OFF_WORD: 1}


def test_lost_annotations_stay_in_the_document() -> None:
    document = Document("d", TEXT, (Entity("X", ((41, 46),)),))
    sentences(document, Tally())
    assert document.entities == (Entity("X", ((41, 46),)),)


def test_from_words_joins_words_by_blanks_and_sentences_by_lines() -> None:
    document = from_words(
        "d",
        [
            WordSentence(["a", "bc"], [Mention("X", (0, 1))]),
            WordSentence([]),
            WordSentence(["d"], [Mention("Y", (0,))]),
        ],
    )
    assert document.text == "a bc\n\nd"
    assert document.words == (((0, 1), (2, 4)), (), ((6, 7),))
    assert document.entities == (Entity("X", ((0, 4),)), Entity("Y", ((6, 7),)))


@given(word_documents())
def test_words_align_there_and_back(document: Document) -> None:
    tally = Tally()
    made = sentences(document, tally)
    assert tally.total() == 0
    back = [entity for sentence in made for entity in entities(sentence, sentence.mentions)]
    assert sorted(back, key=repr) == sorted(document.entities, key=repr)
    again = from_words(document.id, [WordSentence(s.words, s.mentions, s.pos) for s in made])
    assert (again.text, again.words, again.pos) == (document.text, document.words, document.pos)


@given(text_documents())
def test_every_word_of_a_text_reproduces_it_and_mentions_cover_what_was_annotated(document: Document) -> None:
    tally = Tally()
    made = sentences(document, tally)
    for sentence in made:
        assert [document.text[start:end] for start, end in sentence.spans] == list(sentence.words)
        for mention in sentence.mentions:
            covered = {i for word in mention.words for i in range(*sentence.spans[word])}
            annotated = [
                {i for start, end in entity.fragments for i in range(start, end)}
                for entity in document.entities
                if entity.type == mention.type
            ]
            assert any(covered <= characters for characters in annotated)
    crossed = sum(len(sentence.mentions) for sentence in made)
    assert crossed + tally.counts[OFF_WORD] + tally.counts[ACROSS] == len(document.entities)


@given(st.sets(st.integers(0, 30), min_size=1))
def test_runs_cover_exactly_the_positions(positions: set[int]) -> None:
    found = list(runs(sorted(positions)))
    assert {i for start, end in found for i in range(start, end)} == positions
    assert all(left[1] < right[0] for left, right in pairwise(found))


def test_fragments_keep_the_blanks_between_neighbours() -> None:
    assert fragments((0, 1, 3), [(0, 1), (2, 3), (4, 5), (6, 7)]) == ((0, 3), (6, 7))
