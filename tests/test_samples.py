"""The sample corpora: what they promise, measured on what they write."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from itertools import pairwise

import pytest

from spanloom.align import sentences
from spanloom.document import Document, Sentence
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import shapes_of
from spanloom.samples import SHAPES, generate
from spanloom.samples.baseline import longest_match_f1
from spanloom.samples.grammar import article, parse
from spanloom.samples.names import invent

TYPES = {"Anatomy", "Cell", "Drug", "Finding", "Gene", "Organization", "Person", "Place", "Procedure", "Protein"}

Corpus = dict[str, list[Document]]


@cache
def corpus(shape: str, size: int = 2000, seed: int = 1) -> Corpus:
    return generate(shape, size, seed)


def read(documents: Iterable[Document]) -> Iterator[Sentence]:
    lost = Tally()
    for document in documents:
        yield from sentences(document, lost)
    assert not lost.counts


@cache
def every(shape: str, size: int = 2000, seed: int = 1) -> list[Sentence]:
    return [sentence for documents in corpus(shape, size, seed).values() for sentence in read(documents)]


def entity_types(documents: Iterable[Document]) -> dict[str, set[str]]:
    """Lower-cased entity texts, fragments joined by a blank, with the types they occur with."""
    types: dict[str, set[str]] = {}
    for sentence in read(documents):
        for mention in sentence.mentions:
            text = " ".join(sentence.words[at] for at in mention.words).lower()
            types.setdefault(text, set()).add(mention.type)
    return types


def records(documents: Iterable[Document]) -> str:
    """The form of the corpora that come with the package: a sentence a line."""
    return "".join(
        json.dumps(
            {
                "doc": sentence.document,
                "tokens": list(sentence.words),
                "entities": [{"type": mention.type, "indices": list(mention.words)} for mention in sentence.mentions],
            },
            ensure_ascii=False,
        )
        + "\n"
        for sentence in read(documents)
    )


def shape_shares(shape: str) -> dict[str, float]:
    counts = Counter(kind for sentence in every(shape) for kind in shapes_of(sentence.mentions).values())
    return {kind: count / counts.total() for kind, count in counts.items()}


def test_equal_arguments_give_equal_corpora_and_others_do_not():
    assert generate("mixed", 300, seed=5) == generate("mixed", 300, seed=5)
    assert generate("mixed", 300, seed=5) != generate("mixed", 300, seed=6)


def test_another_process_with_other_hashes_writes_the_same_bytes():
    program = (
        "import hashlib; from spanloom.samples import generate; "
        "print(hashlib.sha256(repr(generate('mixed', 300, seed=5)).encode()).hexdigest())"
    )
    here = hashlib.sha256(repr(generate("mixed", 300, seed=5)).encode()).hexdigest()
    for hash_seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == here


@pytest.mark.parametrize("shape", SHAPES)
def test_corpora_of_the_package_are_what_the_generator_writes(shape):
    for split, documents in corpus(shape, 1200).items():
        shipped = (files("spanloom.samples") / "data" / shape / f"{split}.jsonl").read_text(encoding="utf-8")
        assert shipped == records(documents)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [10, 11, 37, 1200])
def test_as_many_sentences_as_asked_for(shape, size):
    counts = {split: sum(1 for _ in read(documents)) for split, documents in corpus(shape, size).items()}
    assert sum(counts.values()) == size
    assert min(counts.values()) >= 1
    assert abs(counts["train"] - 0.7 * size) <= 1
    assert counts["dev"] == counts["test"]


def test_documents_have_three_to_nine_sentences_and_ids_of_their_own():
    documents = [document for split in corpus("mixed").values() for document in split]
    assert {len(document.words or ()) for document in documents} == set(range(3, 10))
    assert len({document.id for document in documents}) == len(documents)
    domains = Counter(document.id.rpartition("-")[0] for document in documents)
    assert set(domains) == {"clinical", "lab", "news"}
    assert min(domains.values()) > len(documents) / 4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_entity_of_train_is_one_in_dev_or_test(shape, seed):
    splits = corpus(shape, 4000, seed)
    known = entity_types(splits["train"]).keys()
    for split in ("dev", "test"):
        assert not known & entity_types(splits[split]).keys()


@pytest.mark.parametrize("shape", SHAPES)
def test_names_change_type_with_the_context(shape):
    types = entity_types(corpus(shape)["train"])
    ambiguous = [text for text, found in types.items() if len(found) > 1]
    assert len(ambiguous) / len(types) > 0.1
    # A pool of its own serves each of these pairs.
    for pair in ({"Gene", "Protein"}, {"Person", "Place"}, {"Organization", "Drug"}):
        assert sum(pair <= types[text] for text in ambiguous) > 25


def test_names_of_train_also_name_nothing():
    known = entity_types(corpus("flat")["train"])
    idle = 0
    for sentence in read(corpus("flat")["train"]):
        marked = {at for mention in sentence.mentions for at in mention.words}
        idle += sum(word.lower() in known and at not in marked for at, word in enumerate(sentence.words))
    assert idle > 60


def test_a_flat_corpus_is_flat():
    assert set(shape_shares("flat")) == {"flat"}


def test_a_nested_corpus_is_flat_and_nested():
    shares = shape_shares("nested")
    assert set(shares) == {"flat", "nested"}
    assert 0.3 < shares["nested"] < 0.5


def test_a_mixed_corpus_has_every_shape():
    shares = shape_shares("mixed")
    assert 0.1 < shares["discontinuous"] < 0.15
    assert 0.17 < shares["nested"] < 0.27
    assert 0.02 < shares["overlapping"] < 0.08
    fragments = Counter(
        1 + sum(after > before + 1 for before, after in pairwise(mention.words))
        for sentence in every("mixed")
        for mention in sentence.mentions
    )
    assert set(fragments) == {1, 2, 3}
    assert fragments[3] > 20


@pytest.mark.parametrize("shape", ["nested", "mixed"])
def test_long_entities_hold_others(shape):
    long = 0
    for sentence in every(shape):
        for mention in sentence.mentions:
            assert len(mention.words) <= 18
            if len(mention.words) > 10:
                long += 1
                assert any(set(other.words) < set(mention.words) for other in sentence.mentions)
    assert long > 30


def test_entities_nest_three_levels_deep():
    depths = Counter(
        sum(set(inner.words) <= set(outer.words) for outer in sentence.mentions)
        for sentence in every("nested")
        for inner in sentence.mentions
    )
    assert depths[3] > 50


@pytest.mark.parametrize("shape", SHAPES)
def test_every_type_is_well_represented(shape):
    counts = Counter(mention.type for sentence in every(shape) for mention in sentence.mentions)
    assert set(counts) == TYPES
    assert min(counts.values()) >= 40


@pytest.mark.parametrize("shape", SHAPES)
def test_some_sentences_are_empty_and_most_are_not(shape):
    found = every(shape)
    assert 0.05 < sum(not sentence.mentions for sentence in found) / len(found) < 0.11
    assert 1.5 < sum(len(sentence.mentions) for sentence in found) / len(found) < 3


@pytest.mark.parametrize("shape", SHAPES)
def test_train_and_test_share_no_sentence(shape):
    train, test = ({sentence.words for sentence in read(corpus(shape)[split])} for split in ("train", "test"))
    assert not train & test


@pytest.mark.parametrize("shape", SHAPES)
def test_looking_names_up_does_not_get_far(shape):
    assert longest_match_f1(corpus(shape)["train"], corpus(shape)["test"]) < 50


def test_longest_match_counts_strictly():
    train, test = corpus("flat")["train"], corpus("flat")["test"]
    assert 50 < longest_match_f1(train, train) < 90  # names known, types by majority
    assert longest_match_f1([], test) == 0
    assert longest_match_f1(train, []) == 0


@pytest.mark.parametrize(("shape", "size"), [("flat", 5000), ("nested", 5000), ("mixed", 20_000)])
def test_a_sentence_is_always_annotated_alike(shape, size):
    seen: dict[tuple[str, ...], object] = {}
    for sentence in every(shape, size, seed=3):
        mentions = frozenset(sentence.mentions)
        assert len(mentions) == len(sentence.mentions)
        assert seen.setdefault(sentence.words, mentions) == mentions


@pytest.mark.parametrize("shape", SHAPES)
def test_sentences_read_like_sentences(shape):
    for sentence in every(shape):
        words = sentence.words
        text = " ".join(words)
        assert words[0][0].isupper() or words[0][0].isdigit(), text
        assert words[-1] == ".", text
        assert text.split() == list(words), text
        assert not re.search(r"[{}\[\]_]|\b(\w+) \1\b|, [,.]", text), text
        for word, following in pairwise(words):
            if word in ("a", "A", "an", "An"):
                assert word.lower() == article("a", following), text


@pytest.mark.parametrize(
    ("following", "expected"),
    [
        ("MRI", "an"),
        ("CT", "a"),
        ("82-year-old", "an"),
        ("18-year-old", "an"),
        ("48-year-old", "a"),
        ("uniform", "a"),
        ("electrician", "an"),
        ("Marlow", "a"),
    ],
)
def test_articles_follow_the_sound(following, expected):
    assert article("a", following) == expected


def test_a_document_is_text_with_its_words():
    document = corpus("mixed")["train"][0]
    assert document.words is not None
    assert document.text.split("\n") == [
        " ".join(document.text[start:end] for start, end in spans) for spans in document.words
    ]


def test_invented_names_belong_to_one_split():
    names = invent(4000, "seed")
    for kind in ("name", "code", "generic"):
        pools = [getattr(names[split], kind) for split in names]
        assert sum(map(len, pools)) == len(set().union(*pools)) == 4000


def test_templates_that_do_not_close_are_refused():
    for source in ("a [Drug b", "a ] b"):
        with pytest.raises(ValueError, match="close"):
            parse(source)


def test_an_unknown_shape_is_answered_with_those_there_are():
    with pytest.raises(InputError, match="flat, nested, mixed"):
        generate("round", 100, seed=1)


def test_too_small_a_sample_is_refused():
    with pytest.raises(InputError, match="at least 10"):
        generate("flat", 9, seed=1)
