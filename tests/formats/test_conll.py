"""Columns: the tag schemes, the columns' order, document borders, and what columns cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from spanloom import formats
from spanloom.align import WordSentence, from_words, sentences
from spanloom.document import Document, Mention
from spanloom.errors import InputError, Tally

Spans = list[tuple[int, int, str]]


def read(lines: str, folder: Path, columns: list[str] | None = None) -> tuple[list[Document], Tally]:
    path = folder / "in.conll"
    path.write_text(lines, encoding="utf-8")
    tally = Tally()
    return list(formats.read(path, tally, "conll", columns)), tally


def spans(tags: str, folder: Path) -> tuple[Spans, Tally]:
    """The entities that one sentence's tags spell: first word, last word, type."""
    (document,), tally = read("\n".join(f"w{i} {tag}" for i, tag in enumerate(tags.split())), folder)
    (sentence,) = sentences(document, Tally())
    return [(m.words[0], m.words[-1], m.type) for m in sentence.mentions], tally


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB2", "B-D I-D O B-W B-W I-W B-D"),
        ("IOB1", "I-D I-D O I-W B-W I-W I-D"),
        ("BIOES", "B-D E-D O S-W B-W E-W S-D"),
        ("BILOU", "B-D L-D O U-W B-W L-W U-D"),
        ("BMES", "B-D E-D O S-W B-W E-W S-D"),
    ],
)
def test_one_annotation_in_every_scheme(scheme: str, tags: str, tmp_path: Path) -> None:
    found, tally = spans(tags, tmp_path)
    assert found == [(0, 1, "D"), (3, 3, "W"), (4, 5, "W"), (6, 6, "D")]
    assert tally.total() == 0


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O B-D I-D", [(2, 3, "D")]),
        ("I-D I-D O", [(0, 1, "D")]),
        ("B-W I-D I-D", [(0, 0, "W"), (1, 2, "D")]),
        ("B-D B-D I-D", [(0, 0, "D"), (1, 2, "D")]),
        ("O I-W O I-W I-W", [(1, 1, "W"), (3, 4, "W")]),
        ("B-W I-W I-D B-D", [(0, 1, "W"), (2, 2, "D"), (3, 3, "D")]),
        ("I-D B-D I-D I-W", [(0, 0, "D"), (1, 2, "D"), (3, 3, "W")]),
        ("B-D O I-D", [(0, 0, "D"), (2, 2, "D")]),
        ("B-A-B I-A-B", [(0, 1, "A-B")]),
        ("B-D M-D E-D S-D", [(0, 2, "D"), (3, 3, "D")]),
        ("B-D E-D E-D I-D", [(0, 1, "D"), (2, 2, "D"), (3, 3, "D")]),
    ],
)
def test_ill_formed_tags_are_read_as_conlleval_reads_them(tags: str, expected: Spans, tmp_path: Path) -> None:
    assert spans(tags, tmp_path)[0] == expected


def test_an_entity_that_does_not_begin_with_b_is_told_with_its_line(tmp_path: Path) -> None:
    _, tally = spans("B-D O I-D", tmp_path)
    assert tally.counts == {"entities that do not begin with B-, taken as they stand": 1}
    assert tally.examples["entities that do not begin with B-, taken as they stand"][0].endswith("in.conll:3 I-D")


def test_four_columns_take_the_second_for_the_part_of_speech(tmp_path: Path) -> None:
    (document,), _ = read("EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n", tmp_path)
    (sentence,) = sentences(document, Tally())
    assert (sentence.words, sentence.pos) == (("EU", "rejects"), ("NNP", "VBZ"))
    assert sentence.mentions == (Mention("ORG", (0,)),)


def test_columns_can_be_named(tmp_path: Path) -> None:
    (document,), _ = read("1\tEU\tB-ORG\tNNP\n2\trejects\tO\tVBZ\n", tmp_path, ["_", "word", "tag", "pos"])
    (sentence,) = sentences(document, Tally())
    assert (sentence.words, sentence.pos) == (("EU", "rejects"), ("NNP", "VBZ"))


def test_docstart_lines_border_documents_and_may_name_them(tmp_path: Path) -> None:
    lines = "-DOCSTART- -X- -X- O\n\na O\n\nb O\n\n-DOCSTART- (a 7)\tO\n\nc O\n"
    documents, tally = read(lines, tmp_path)
    assert [(d.id, d.text) for d in documents] == [("1", "a\nb"), ("a 7", "c")]
    assert tally.total() == 0


def test_without_docstart_every_sentence_is_a_document(tmp_path: Path) -> None:
    documents, _ = read("a O\n\n\n\nb O", tmp_path)
    assert [(d.id, d.text) for d in documents] == [("1", "a"), ("2", "b")]


def test_comments_are_counted_and_a_hash_is_a_word(tmp_path: Path) -> None:
    documents, tally = read("# text = a b\n# O\n#tag B-X\n", tmp_path)
    assert [d.text for d in documents] == ["# #tag"]
    assert tally.counts == {"comment lines": 1}


def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_words(tmp_path: Path) -> None:
    path = tmp_path / "in.conll"
    path.write_bytes(b"\xef\xbb\xbfa\tO\r\n\r\nb\tB-X\r\n")
    assert [d.text for d in formats.read(path, Tally())] == ["a", "b"]


def test_of_entities_that_share_words_the_longest_is_written_and_the_others_are_counted(tmp_path: Path) -> None:
    found = [
        Mention("X", (0,)),
        Mention("Y", (0, 1, 2)),
        Mention("Z", (2, 3)),
        Mention("X", (4, 6)),
        Mention("X", (5,)),
        Mention("W", (5,)),
        Mention("X", (5,)),
    ]
    tally = Tally()
    path = tmp_path / "out.conll"
    formats.write([from_words("1", [WordSentence(list("abcdefg"), found)])], path, "conll", tally)
    assert path.read_text() == "a\tB-Y\nb\tI-Y\nc\tI-Y\nd\tO\ne\tO\nf\tB-X\ng\tO\n\n"
    assert tally.counts == {
        "nested entities": 2,
        "overlapping entities": 1,
        "discontinuous entities": 1,
        "entities that stand twice": 1,
    }
    assert tally.examples["discontinuous entities"] == ["e g"]


def test_unicode_blanks_are_no_column_borders(tmp_path: Path) -> None:
    (document,), _ = read("\u3000 O\nNew\u00a0York B-LOC\n", tmp_path)
    (sentence,) = sentences(document, Tally())
    assert sentence.words == ("\u3000", "New\u00a0York")


def test_a_word_that_only_begins_like_a_border_is_a_word(tmp_path: Path) -> None:
    (document,), _ = read("-DOCSTART-foo B-X\n", tmp_path)
    assert document.text == "-DOCSTART-foo"


def test_columns_are_found_even_where_they_begin_like_json(tmp_path: Path) -> None:
    path = tmp_path / "in.conll"
    path.write_text("[ O\n{ B-X\n")
    assert [document.text for document in formats.read(path, Tally())] == ["[ {"]


def test_naming_columns_is_naming_the_format(tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("O a\nB-X b\n")
    assert [document.text for document in formats.read(path, Tally(), columns=["tag", "word"])] == ["a b"]


def test_an_empty_document_keeps_its_place(tmp_path: Path) -> None:
    documents = [from_words("1", [WordSentence([])]), from_words("2", [WordSentence(["a"])])]
    formats.write(documents, tmp_path / "out.conll", "conll", Tally())
    assert [d.text for d in formats.read(tmp_path / "out.conll", Tally())] == ["", "a"]


def test_blanks_around_types_and_empty_tags_are_told(tmp_path: Path) -> None:
    tally = Tally()
    document = from_words("1", [WordSentence(["a"], [Mention(" PER ", (0,))], [""])])
    formats.write([document], tmp_path / "out.conll", "conll", tally)
    assert (tmp_path / "out.conll").read_text() == "a\t_\tB-PER\n\n"
    assert tally.total() == 2


def test_a_tab_in_a_word_is_told(tmp_path: Path) -> None:
    tally = Tally()
    path = tmp_path / "out.conll"
    formats.write([from_words("1", [WordSentence(["a\tb", "-DOCSTART-", "c d"])])], path, "conll", tally)
    assert path.read_text() == "a_b\tO\n_-DOCSTART-\tO\nc d\tO\n\n"
    assert tally.total() == 2


@pytest.mark.parametrize(
    "text", ["He took vitamin B-12\nfor a year.\n", "He took vitamin B-12", "Type O\n\nNot that.\n"]
)
def test_prose_that_ends_a_line_like_a_tag_is_no_columns(text: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(text)
    with pytest.raises(InputError, match="not recognised"):
        formats.source_format(tmp_path / "notes.txt")
    (tmp_path / "train.txt").write_text("vitamin B-Drug\nB-12 I-Drug\n")
    assert formats.source_format(tmp_path / "train.txt") == "conll"
    (tmp_path / "one.conll").write_text("vitamin B-Drug\n")
    assert formats.source_format(tmp_path / "one.conll") == "conll"
