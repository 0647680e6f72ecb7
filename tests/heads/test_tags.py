"""Tags: the numbers of legal moves, the way there and back, and the reading of ill-formed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.document import Mention, Sentence
from spanloom.errors import Tally
from spanloom.heads.tags import Tags, TagScheme
from tests.strategies import flat_mentions

TYPES = ("Finding", "Drug", "A-B", "O", "Zelle", "基因")
schemes = st.sampled_from(["bio", "bilou"])

Found = list[tuple[int, int, str]]


def sentence(size: int, mentions: Sequence[Mention] = ()) -> Sentence:
    return Sentence(
        tuple(f"w{i}" for i in range(size)), tuple((3 * i, 3 * i + 2) for i in range(size)), tuple(mentions)
    )


def decoded(tags: Tags, rows: Sequence[Sequence[int]], rubbish: int = 0) -> list[Found]:
    """Through one padded batch; behind the sentences stands rubbish."""
    width = max(map(len, rows), default=0)
    padded = np.array([[*row, *[rubbish] * (width - len(row))] for row in rows], np.int64).reshape(len(rows), width)
    mask = np.arange(width) < np.array([len(row) for row in rows], np.int64)[:, None]
    found: list[Found] = [[] for _ in rows]
    for row, start, end, type in zip(*tags.decode(padded, mask), strict=True):
        found[row].append((int(start), int(end), tags.types[type]))
    return found


def plainly_decoded(names: Sequence[str]) -> Found:
    """The slow twin: one sentence's tags by name, one after the other."""
    found: Found = []
    begun: tuple[int, str] | None = None
    for position, name in enumerate([*names, "O"]):
        letter, _, type = name.partition("-")
        if begun and (letter not in ("I", "L") or type != begun[1]):
            found.append((begun[0], position, begun[1]))
            begun = None
        if letter != "O" and begun is None:
            begun = position, type
        if begun and letter in ("U", "L"):
            found.append((begun[0], position + 1, type))
            begun = None
    return found


@pytest.mark.parametrize(
    ("scheme", "n_types", "legal"), [("bilou", 1, 13), ("bilou", 2, 33), ("bio", 1, 8), ("bio", 2, 19), ("bio", 0, 1)]
)
def test_number_of_legal_moves(scheme: TagScheme, n_types: int, legal: int) -> None:
    tags = Tags(scheme, TYPES[:n_types])
    assert int(tags.legal().transitions.sum()) == legal
    assert tags.legal().transitions.shape == (len(tags), len(tags))


def test_names_in_order() -> None:
    assert Tags("bio", ("x", "A-B")).names == ("O", "B-x", "I-x", "B-A-B", "I-A-B")
    assert Tags("bilou", ("x", "y")).names == ("O", "B-x", "I-x", "L-x", "U-x", "B-y", "I-y", "L-y", "U-y")


@pytest.mark.parametrize("scheme", ["bio", "bilou"])
def test_legal_is_what_encoding_makes(scheme: TagScheme) -> None:
    """A sequence is legal exactly if the tags of the entities that it spells are the sequence itself."""
    tags = Tags(scheme, ("x", "y"))
    transitions, start, end = (table.tolist() for table in tags.legal())
    for length in (1, 2, 3, 4) if scheme == "bio" else (1, 2, 3):
        paths = list(product(range(len(tags)), repeat=length))
        for path, found in zip(paths, decoded(tags, paths), strict=True):
            mentions = [Mention(type, tuple(range(*span))) for *span, type in found]
            again = tuple(tags.encode(sentence(length, mentions), Tally()))
            legal = start[path[0]] and end[path[-1]] and all(transitions[a][b] for a, b in pairwise(path))
            assert legal == (again == path)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("O O B-D I-D", [(2, 4, "D")]),
        ("I-D I-D O", [(0, 2, "D")]),
        ("B-W I-D I-D", [(0, 1, "W"), (1, 3, "D")]),
        ("B-D B-D I-D", [(0, 1, "D"), (1, 3, "D")]),
        ("O I-W O I-W I-W", [(1, 2, "W"), (3, 5, "W")]),
        ("B-W I-W I-D B-D", [(0, 2, "W"), (2, 3, "D"), (3, 4, "D")]),
        ("I-D B-D I-D I-W", [(0, 1, "D"), (1, 3, "D"), (3, 4, "W")]),
        ("B-D O I-D", [(0, 1, "D"), (2, 3, "D")]),
        ("B-A-B I-A-B", [(0, 2, "A-B")]),
    ],
)
def test_label_combiner(names: str, expected: Found) -> None:
    tags = Tags("bio", ("W", "D", "A-B"))
    assert decoded(tags, [[tags.names.index(name) for name in names.split()]]) == [expected]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("B-D L-D U-D L-D", [(0, 2, "D"), (2, 3, "D"), (3, 4, "D")]),
        ("B-D I-D O", [(0, 2, "D")]),
        ("I-D I-D L-D I-D", [(0, 3, "D"), (3, 4, "D")]),
        ("B-W L-D", [(0, 1, "W"), (1, 2, "D")]),
        ("B-D U-D L-D", [(0, 1, "D"), (1, 2, "D"), (2, 3, "D")]),
    ],
)
def test_label_combiner_of_bilou(names: str, expected: Found) -> None:
    tags = Tags("bilou", ("W", "D"))
    assert decoded(tags, [[tags.names.index(name) for name in names.split()]]) == [expected]


@given(schemes, st.integers(1, 3), st.data())
def test_any_sequence_like_the_slow_twin(scheme: TagScheme, n_types: int, data: st.DataObject) -> None:
    tags = Tags(scheme, ("x", "y", "A-B")[:n_types])
    tag = st.integers(0, len(tags) - 1)
    rows = data.draw(st.lists(st.lists(tag, max_size=12), max_size=5))
    expected = [plainly_decoded([tags.names[tag] for tag in row]) for row in rows]
    assert decoded(tags, rows, rubbish=data.draw(tag)) == expected


@given(schemes, st.data())
def test_flat_mentions_come_back(scheme: TagScheme, data: st.DataObject) -> None:
    tags, tally = Tags(scheme, TYPES), Tally()
    size = data.draw(st.integers(0, 12))
    mentions = data.draw(flat_mentions(size))
    (found,) = decoded(tags, [tags.encode(sentence(size, mentions), tally)])
    assert found == [(m.words[0], m.words[-1] + 1, m.type) for m in mentions]
    assert tally.total() == 0


@pytest.mark.parametrize(
    ("mentions", "kept", "reason"),
    [
        ([Mention("x", (1, 2)), Mention("y", (0, 1, 2))], [(0, 3, "y")], "nested entities"),
        ([Mention("x", (1, 2)), Mention("y", (0, 1))], [(0, 2, "y")], "overlapping entities"),
        ([Mention("x", (2, 3)), Mention("y", (0, 1, 2))], [(0, 3, "y")], "overlapping entities"),
        ([Mention("y", (1, 2)), Mention("x", (1, 2))], [(1, 3, "x")], "second types of the same words"),
        ([Mention("x", (0, 2)), Mention("y", (1,))], [(1, 2, "y")], "discontinuous entities"),
        ([Mention("z", (0, 1, 2)), Mention("y", (1,))], [(1, 2, "y")], "entities of unknown types"),
        # The word that two kept mentions bracket belongs to neither alone.
        (
            [Mention("x", (0, 1, 2)), Mention("y", (3, 4, 5)), Mention("x", (2, 3))],
            [(0, 3, "x"), (3, 6, "y")],
            "overlapping entities",
        ),
        ([Mention("x", (1,)), Mention("x", (1,))], [(1, 2, "x")], None),
    ],
)
@pytest.mark.parametrize("scheme", ["bio", "bilou"])
def test_the_outermost_is_kept(scheme: TagScheme, mentions: list[Mention], kept: Found, reason: str | None) -> None:
    tags = Tags(scheme, ("x", "y"))
    for order in (mentions, mentions[::-1]):
        tally = Tally()
        assert decoded(tags, [tags.encode(sentence(6, order), tally)]) == [kept]
        assert tally.counts == ({reason: 1} if reason else {})
