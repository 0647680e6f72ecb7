"""What a format can hold comes back from it, by property and on the real corpora."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spanloom import formats
from spanloom.align import sentences
from spanloom.document import Document
from spanloom.errors import Tally
from tests.conftest import Run
from tests.strategies import plain_words, text_documents, word_documents


def there_and_back(documents: list[Document], format: str) -> tuple[list[Document], Tally]:
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("out" if format == "brat" else "out.txt")
        formats.write(documents, path, format, tally)
        return list(formats.read(path, tally, format)), tally


def scored(document: Document) -> list[object]:
    """Equality passes over scores; this does not."""
    return [(entity, entity.score) for entity in document.entities]


def numbered(*documents: Document) -> list[Document]:
    return [Document(str(n), d.text, d.entities, d.words, d.pos) for n, d in enumerate(documents, 1)]


def by_sentence(documents: list[Document]) -> list[object]:
    return [
        (document.id, sentence.words, sorted(sentence.mentions, key=repr), sentence.pos)
        for document in documents
        for sentence in sentences(document, Tally())
    ]


@given(st.lists(word_documents(), max_size=3).map(lambda d: numbered(*d)))
def test_words_hold_all_of_a_document_of_words(documents: list[Document]) -> None:
    back, tally = there_and_back(documents, "words")
    assert tally.total() == 0
    assert by_sentence(back) == by_sentence(documents)
    assert [d.text for d in back] == [d.text for d in documents]
    assert [sorted(scored(d), key=repr) for d in back] == [sorted(scored(d), key=repr) for d in documents]


@given(st.lists(word_documents() | text_documents(), max_size=3).map(lambda d: numbered(*d)))
def test_fragments_hold_every_document(documents: list[Document]) -> None:
    back, tally = there_and_back(documents, "fragments")
    assert tally.total() == 0
    assert back == documents
    assert list(map(scored, back)) == list(map(scored, documents))


@given(
    st.lists(word_documents(words=plain_words, flat=True, scored=False, empty=False), max_size=3).map(
        lambda d: numbered(*d)
    )
)
def test_columns_hold_flat_documents_of_words(documents: list[Document]) -> None:
    back, tally = there_and_back(documents, "conll")
    assert tally.total() == 0
    assert by_sentence(back) == by_sentence(documents)
    assert [d.text for d in back] == [d.text for d in documents]


@given(st.lists(text_documents(scored=False), max_size=3).map(lambda d: numbered(*d)))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_brat_holds_documents_of_text_with_their_fragments(documents: list[Document]) -> None:
    if not documents:
        return
    back, tally = there_and_back(documents, "brat")
    assert tally.total() == 0
    assert back == documents


@given(
    st.lists(word_documents(words=plain_words, scored=False, tagged=False, empty=False), min_size=1, max_size=3).map(
        lambda d: numbered(*d)
    )
)
def test_brat_holds_documents_of_words(documents: list[Document]) -> None:
    back, tally = there_and_back(documents, "brat")
    assert tally.total() == 0
    assert back == documents


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: bool(name.strip())
)


@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_brat_holds_any_name_inside_its_folder(ids: list[str]) -> None:
    documents = [Document(id, "x") for id in ids]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "deep" / "out"
        path.parent.mkdir()
        formats.write(documents, path, "brat", Tally())
        assert {file.name for file in Path(folder).iterdir()} == {"deep"}
        assert {file.name for file in path.parent.iterdir()} == {"out"}
        assert [document.id for document in formats.read(path, Tally())] == ids


@given(st.binary(max_size=80))
def test_a_text_comes_through_brat_byte_for_byte(raw: bytes) -> None:
    text = raw.decode("utf-8", errors="ignore")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in", Path(folder) / "out"
        source.mkdir()
        (source / "a.txt").write_bytes(text.encode())
        (source / "a.ann").write_bytes(b"")
        formats.write(formats.read(source, Tally()), target, "brat", Tally())
        assert (target / "a.txt").read_bytes() == text.encode()


CORPORA = ["wnut17", "ncbi_disease", "bc5cdr", "genia", "germeval2014", "craft"]
FLAT = {"wnut17", "ncbi_disease", "bc5cdr"}


@pytest.mark.parametrize("format", ["fragments", "brat", "conll"])
@pytest.mark.parametrize("corpus", CORPORA)
def test_real_corpora_come_back_byte_for_byte(
    corpus: str, format: str, corpora: Path, spanloom: Run, tmp_path: Path
) -> None:
    """Through the command line: words -> format -> words; columns hold the flat corpora only."""
    if format == "conll" and corpus not in FLAT:
        refused = spanloom("convert", corpora / corpus / "dev.jsonl.gz", "out.conll", "--strict")
        assert refused.returncode == 2
        assert "nested entities" in refused.stderr
        return
    source = corpora / corpus / "dev.jsonl.gz"
    target = tmp_path / {"brat": "out", "fragments": "out.jsonl.gz", "conll": "out.conll"}[format]
    there = spanloom("convert", source, target, "--to", format, "--strict")
    assert (there.returncode, there.stdout) == (0, "")
    back = spanloom("convert", target, "back.jsonl", "--to", "words", "--strict")
    assert back.returncode == 0, back.stderr
    assert ordered(gzip.decompress(source.read_bytes()).decode()) == ordered((tmp_path / "back.jsonl").read_text())
    if target.is_dir():
        shutil.rmtree(target)


def ordered(lines: str) -> list[str]:
    """Columns cannot keep the order in which the entities of a sentence were listed; nothing else may change."""
    records = [json.loads(line) for line in lines.splitlines()]
    for record in records:
        record["entities"].sort(key=lambda entity: (entity["indices"], entity["type"]))
    return [json.dumps(record, ensure_ascii=False) for record in records]
