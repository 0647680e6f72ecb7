"""`spanloom predict`, as a user runs it: what goes in, in which order it comes out, and in which format."""

from __future__ import annotations

import gzip
import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from spanloom import align, formats
from spanloom.cli import main
from spanloom.cli.predict import read_all
from spanloom.document import Document
from spanloom.errors import Tally
from tests import engine
from tests.conftest import Run

TEST = engine.corpus() / "test.jsonl"


def texts() -> list[str]:
    return [document.text for document in engine.documents()[:4]]


def predicted(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    assert main(["predict", str(engine.model_folder()), *map(str, arguments), "--precision", "fp32"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_files_come_out_in_their_order_empty_ones_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, three = texts()[:3]
    for name, text in (("b.txt", one), ("empty.txt", ""), ("a.txt", two)):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    with gzip.open(tmp_path / "c.txt.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(three)
    found = predicted(capsys, *(tmp_path / name for name in ("b.txt", "empty.txt", "a.txt", "c.txt.gz")))
    assert [each["id"] for each in found] == ["b.txt", "empty.txt", "a.txt", "c.txt.gz"]
    assert [each["text"] for each in found] == [one, "", two, three]
    assert found[1]["entities"] == []
    entities = [entity for each in found for entity in each["entities"]]
    assert entities
    for each in found:
        for entity in each["entities"]:
            assert set(entity) == {"type", "text", "fragments", "score"}
            assert entity["text"] == " ".join(each["text"][start:end] for start, end in entity["fragments"])
            assert 0 <= entity["score"] <= 1


def test_each_line_may_be_a_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [text.replace("\n", " ") for text in texts()]
    raw = ("\r\n".join([lines[0], "", *lines[1:]]) + "\n").encode()
    (tmp_path / "notes.txt").write_bytes(raw)
    found = predicted(capsys, tmp_path / "notes.txt", "--lines")
    assert [each["text"] for each in found] == [lines[0], "", *lines[1:]]
    assert [each["id"] for each in found] == [f"notes.txt:{number}" for number in range(1, 6)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    piped = predicted(capsys, "-", "--lines")
    assert [each["entities"] for each in piped] == [each["entities"] for each in found]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    (whole,) = predicted(capsys, "-")
    assert whole["text"].encode() == raw


def test_a_byte_order_mark_on_standard_input_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\ufeffleft\r\nknee\n".encode())))
    found = read_all(["-"], None, True, Tally())
    assert [(each.id, each.text) for each in found] == [("-:1", "left"), ("-:2", "knee")]


def test_words_stay_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = predicted(capsys, TEST)
    documents = engine.documents("test")
    assert [each["id"] for each in found] == [document.id for document in documents]
    for each, document in zip(found, documents, strict=True):
        sentences = align.sentences(document, Tally())
        words = [word for sentence in sentences for word in sentence.words]
        flat = [token for tokens in each["tokens"] for token in (tokens if isinstance(tokens, list) else [tokens])]
        assert flat == words
        assert all("indices" in entity for entity in each["entities"])


def test_a_threshold_leaves_out_what_is_less_sure(capsys: pytest.CaptureFixture[str]) -> None:
    free, strict = (predicted(capsys, TEST, "--threshold", threshold) for threshold in ("0", "0.9"))
    sure = [entity for each in free for entity in each["entities"] if entity["score"] >= 0.9]
    assert [entity for each in strict for entity in each["entities"]] == sure
    assert 0 < len(sure) < sum(len(each["entities"]) for each in free)


@pytest.mark.parametrize("format", ["jsonl", "conll", "brat", "text"])
def test_what_is_written_can_be_read(format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = predicted(capsys, TEST)
    out = tmp_path / "out"
    assert predicted(capsys, TEST, "--format", format, "--output", out) == []
    if format == "text":
        drawn = out.read_text(encoding="utf-8")
        assert all(entity["type"] in drawn for each in expected for entity in each["entities"])
        return
    read = list(formats.read(out, Tally()))
    found = [[(entity.type, entity.text.split()) for entity in sorted_entities(document)] for document in read]
    assert found == [
        sorted_by_place([(entity["type"], entity["text"].split(), entity["fragments"]) for entity in each["entities"]])
        for each in expected
    ]


def test_a_text_keeps_its_name_in_a_brat_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in zip(("a.txt", "b.md"), texts(), strict=False):
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    out = tmp_path / "out"
    predicted(capsys, tmp_path / "a.txt", tmp_path / "b.md", "--format", "brat", "--output", out)
    names = {path.name for path in out.iterdir()}
    assert names == {"annotation.conf", "a.txt", "a.ann", "b.md.txt", "b.md.ann"}
    assert (out / "a.txt").read_bytes() == (tmp_path / "a.txt").read_bytes()


def sorted_entities(document: Document) -> list[Any]:
    return sorted(document.entities, key=lambda entity: (entity.fragments, entity.type))


def sorted_by_place(entities: list[tuple[str, list[str], list[list[int]]]]) -> list[tuple[str, list[str]]]:
    return [(type, words) for type, words, _ in sorted(entities, key=lambda each: (each[2], each[0]))]


def raw_mixed(folder: Path) -> tuple[Path, list[Document]]:
    """What the grid model was trained on, as raw text with fragments: gold, and a file of lines."""
    documents = list(formats.read(engine.root() / "mixed" / "train.jsonl", Tally()))
    gold, sentences = [], 0
    for document in documents:
        sentences += len(document.words or ())
        if sentences > 24:
            break
        gold.append(Document(document.id, document.text, document.entities))
    formats.write(iter(gold), folder / "gold.jsonl", "fragments", Tally())
    return folder / "gold.jsonl", gold


def test_entities_of_every_shape_are_found_in_raw_text(
    spanloom: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a model to brat fragments and back to scores by shape: a gap stays a gap all the way."""
    model = engine.every_shape()
    gold_file, gold = raw_mixed(tmp_path)
    for document in gold:
        (tmp_path / f"{document.id}.txt").write_text(document.text, encoding="utf-8", newline="")
    files = [tmp_path / f"{document.id}.txt" for document in gold]
    ran = spanloom("predict", model, *files, "--format", "brat", "--output", "brat", "--precision", "fp32")
    assert ran.returncode == 0, ran.stderr
    annotations = "".join(file.read_text() for file in sorted((tmp_path / "brat").rglob("*.ann")))
    assert any(";" in line.split("\t")[1] for line in annotations.splitlines() if line.startswith("T"))
    found = list(formats.read(tmp_path / "brat", Tally()))
    by_text = {document.text: set(document.entities) for document in found}
    gaps = [entity for document in gold for entity in document.entities if len(entity.fragments) > 1]
    right = [e for document in gold for e in document.entities if e in by_text[document.text]]
    assert gaps
    assert all(entity in right for entity in gaps)
    assert main(["evaluate", str(model), str(gold_file), "--json", "--precision", "fp32"]) == 0
    shapes = json.loads(capsys.readouterr().out)["shapes"]
    assert shapes["discontinuous"]["recall"] == 100
    assert shapes["nested"]["recall"] == 100
    drawn = spanloom("predict", model, *islice(files, 3), "--format", "text", "--precision", "fp32")
    assert "╌" in drawn.stdout
    flat = spanloom("predict", model, *files, "--format", "conll", "--output", "flat.conll", "--precision", "fp32")
    assert "discontinuous entities" in flat.stderr  # what CoNLL cannot hold is counted
