"""brat standoff: fragments stay fragments, other annotations are counted, nothing leaves the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spanloom import formats
from spanloom.align import WordSentence, from_words
from spanloom.document import Document, Entity, Mention
from spanloom.errors import InputError, Tally


def folder(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        (path / name.replace("_", ".")).write_text(content, encoding="utf-8", newline="")
    return path


def read(path: Path) -> tuple[list[Document], Tally]:
    tally = Tally()
    return list(formats.read(path, tally)), tally


def test_fragments_stay_fragments(tmp_path: Path) -> None:
    text = "Pain in the left knee and hip."
    source = folder(tmp_path / "in", a_txt=text, a_ann="T7\tFinding 0 16;26 29\tPain in the left hip\n")
    (document,), tally = read(source)
    assert document == Document("a", text, (Entity("Finding", ((0, 16), (26, 29))),))
    assert tally.total() == 0


def test_fragments_that_touch_words_next_to_each_other_are_kept_apart(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a_txt="left\nknee", a_ann="T1\tX 0 4;5 9\tleft knee\n")
    formats.write(formats.read(source, Tally()), tmp_path / "out", "brat", Tally())
    assert (tmp_path / "out" / "a.ann").read_text() == "T1\tX 0 4;5 9\tleft knee\n"


def test_an_entity_over_a_line_break_is_written_on_one_line(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a_txt="left\r\nknee", a_ann="T1\tX 0 10\tleft  knee\n")
    formats.write(formats.read(source, Tally()), tmp_path / "out", "brat", Tally())
    assert (tmp_path / "out" / "a.ann").read_text() == "T1\tX 0 10\tleft  knee\n"
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"left\r\nknee"


def test_relations_and_notes_are_counted(tmp_path: Path) -> None:
    lines = "T1\tX 0 1\ta\nR1\tOf Arg1:T1 Arg2:T1\nA1\tNeg T1\n"
    lines += "#1\tAnnotatorNotes T1\thm\nE1\tX:T1\nN1\tReference T1 A:1\tx\n"
    (document,), tally = read(folder(tmp_path / "in", a_txt="a", a_ann=lines))
    assert len(document.entities) == 1
    assert tally.counts == {"relations": 1, "attributes": 1, "notes": 1, "events": 1, "normalisations": 1}


def test_fragments_that_overlap_are_merged_and_told(tmp_path: Path) -> None:
    (document,), tally = read(folder(tmp_path / "in", a_txt="abcdef", a_ann="T1\tX 2 5;0 3\tcde abc\n"))
    assert document.entities == (Entity("X", ((0, 5),)),)
    assert tally.counts == {"entities whose fragments overlap, merged": 1}


def test_a_text_without_ann_is_a_document_without_annotations(tmp_path: Path) -> None:
    (document,), _ = read(folder(tmp_path / "in", a_txt="a"))
    assert document.entities == ()


def test_documents_come_in_natural_order_and_from_folders_below(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", **{f"{n}_txt": "x" for n in (10, 9, 100)})
    folder(source / "b", c_txt="y", c_ann="")
    assert [document.id for document in read(source)[0]] == ["9", "10", "100", "b/c"]


def test_the_order_of_documents_comes_back(tmp_path: Path) -> None:
    documents = [Document(id, "x") for id in ("b", "a", "../../c", "a")]
    tally = Tally()
    formats.write(documents, tmp_path / "out", "brat", tally)
    assert [document.id for document in read(tmp_path / "out")[0]] == ["b", "a", "../../c", "a~2"]
    assert tally.counts == {"documents with the name of an earlier one, renamed": 1}
    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_names_too_long_for_a_file_are_shortened_and_told(tmp_path: Path) -> None:
    tally = Tally()
    formats.write([Document("é" * 400, "x"), Document("é" * 401, "y")], tmp_path / "out", "brat", tally)
    assert [document.text for document in read(tmp_path / "out")[0]] == ["x", "y"]
    assert tally.counts == {"names of documents that are too long for a file, shortened": 2}


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    source = folder(tmp_path / "in")
    (source / "a.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(InputError, match="leads out of its folder"):
        read(source)


def test_hidden_files_are_no_documents_and_capitals_are_no_matter(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a_TXT="x", a_ANN="T1\tX 0 1\tx\n")
    (source / "._a.txt").write_text("junk")
    folder(source / ".ipynb_checkpoints", a_txt="x")
    (document,), _ = read(source)
    assert document == Document("a", "x", (Entity("X", ((0, 1),)),))


def test_fragments_written_out_of_order_are_checked_in_their_order(tmp_path: Path) -> None:
    (document,), tally = read(folder(tmp_path / "in", a_txt="left knee", a_ann="T1\tX 5 9;0 4\tknee left\n"))
    assert document.entities == (Entity("X", ((0, 4), (5, 9))),)
    assert tally.total() == 0


def test_names_that_look_like_files_stand_in_nobodys_way(tmp_path: Path) -> None:
    ids = ["x", "x.txt/b", "\x80" * 200]
    formats.write([Document(id, "t") for id in ids], tmp_path / "out", "brat", Tally())
    assert [document.id for document in read(tmp_path / "out")[0]][:2] == ids[:2]


def test_a_file_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    source = folder(tmp_path / "in", a_txt="x")
    (source / os.fsdecode(b"\xe4.txt")).write_text("x")
    with pytest.raises(InputError, match="not UTF-8"):
        read(source)


def test_annotation_conf_lists_the_types(tmp_path: Path) -> None:
    document = from_words("1", [WordSentence(["a", "b"], [Mention("Cell line", (0,)), Mention("DNA", (1,))])])
    tally = Tally()
    formats.write([document], tmp_path / "out", "brat", tally)
    conf = (tmp_path / "out" / "annotation.conf").read_text()
    assert conf == "[entities]\nCell_line\nDNA\n[relations]\n[events]\n[attributes]\n"
    assert tally.counts == {"types with blanks, written with _": 1}


def test_words_that_blanks_do_not_give_back_are_told(tmp_path: Path) -> None:
    tally = Tally()
    documents = [from_words("1", [WordSentence(["a b", "c"], (), ["X", "Y"]), WordSentence([])]), Document("2", "text")]
    formats.write(documents, tmp_path / "out", "brat", tally)
    assert tally.counts == {
        "words with blanks in them, read back as several": 1,
        "part-of-speech tags": 2,
        "sentences without words": 1,
        "documents that came as texts among words, read back as words": 1,
    }


def test_long_sentences_and_words_come_back_whole(tmp_path: Path) -> None:
    """A segmenter of raw text cuts sentences of more than 512 words, and words of more than 1,000 characters."""
    sentence = WordSentence(["word"] * 700 + ["x" * 3000], [Mention("Long", tuple(range(100, 701)))])
    document = from_words("1", [sentence, WordSentence(["end"])])
    tally = Tally()
    formats.write([document], tmp_path / "out", "brat", tally)
    assert read(tmp_path / "out")[0] == [document]
    assert tally.total() == 0
