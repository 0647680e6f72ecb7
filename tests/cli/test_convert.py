"""`spanloom convert`, as a user runs it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import Run

NESTED = {
    "doc": "a",
    "tokens": ["left", "knee", "pain", "and", "swelling"],
    "entities": [
        {"type": "Finding", "indices": [0, 1, 2]},
        {"type": "Anatomy", "indices": [0, 1]},
        {"type": "Finding", "indices": [0, 1, 4]},
    ],
}


def write(path: Path, *records: object) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_what_columns_cannot_hold_is_told_by_reason_with_its_text(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", NESTED)
    done = spanloom("convert", "in.jsonl", "out.conll")
    assert (done.returncode, done.stdout) == (0, "")
    assert "in.jsonl: 1 document, words to conll" in done.stderr
    assert "lost or changed: 1 nested entities: left knee" in done.stderr
    assert "lost or changed: 1 discontinuous entities: left knee swelling" in done.stderr
    tags = [line.split("\t")[1] for line in (tmp_path / "out.conll").read_text().splitlines() if "\t" in line]
    assert tags == ["O", "B-Finding", "I-Finding", "I-Finding", "O", "O"]


def test_raw_text_becomes_words_with_what_does_not_fit_told(spanloom: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("Pain in the left knee and hip. She was unhappy.")
    (tmp_path / "in" / "a.ann").write_text("T1\tFinding 0 16;26 29\tPain in the left hip\nT2\tMood 41 46\thappy\n")
    done = spanloom("convert", "in", "out.jsonl", "--to", "words")
    assert done.returncode == 0, done.stderr
    assert "1 entities off the word borders: un[happy]." in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["doc"] for line in lines] == ["a", "a"]
    assert lines[0]["tokens"] == ["Pain", "in", "the", "left", "knee", "and", "hip", "."]
    assert lines[0]["entities"] == [{"type": "Finding", "indices": [0, 1, 2, 3, 6]}]
    assert lines[1]["entities"] == []


def test_json_lines_keep_the_kind_of_their_source(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "words.jsonl", NESTED)
    assert spanloom("convert", "words.jsonl", "brat").returncode == 0
    assert spanloom("convert", "brat", "text.jsonl.gz", "--to", "fragments").returncode == 0
    record = json.loads(gzip.decompress((tmp_path / "text.jsonl.gz").read_bytes()))
    assert record["text"] == "left knee pain and swelling"
    assert record["entities"][2] == {
        "type": "Finding",
        "text": "left knee swelling",
        "fragments": [[0, 9], [19, 27]],
        "indices": [0, 1, 4],
    }
    assert spanloom("convert", "text.jsonl.gz", "back.jsonl", "--to", "words").returncode == 0
    assert (tmp_path / "back.jsonl").read_text() == (tmp_path / "words.jsonl").read_text()


def test_a_folder_of_splits_becomes_one(spanloom: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for split in ("train", "test"):
        write(tmp_path / "in" / f"{split}.jsonl", NESTED)
    assert spanloom("convert", "in", "columns", "--to", "conll").returncode == 0
    assert {path.name for path in (tmp_path / "columns").iterdir()} == {"train.conll", "test.conll"}
    assert spanloom("convert", "in", "brat", "--to", "brat").returncode == 0
    assert {path.name for path in (tmp_path / "brat").iterdir()} == {"train", "test"}
    assert spanloom("convert", "brat", "again", "--to", "words").returncode == 0
    assert (tmp_path / "again" / "test.jsonl").read_text() == (tmp_path / "in" / "test.jsonl").read_text()


def test_neighbours_of_one_name_are_told_where_they_run_together(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"id": "a", "text": "One two."}, {"id": "a", "text": "Three."})
    done = spanloom("convert", "in.jsonl", "out.jsonl", "--to", "words")
    assert "lost or changed: 1 documents of the same name as the one before, read back as one with it: a" in done.stderr


def test_a_brat_folder_of_words_stays_words(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", NESTED)
    assert spanloom("convert", "in.jsonl", "brat").returncode == 0
    assert spanloom("convert", "brat", "back.jsonl").returncode == 0
    assert (tmp_path / "back.jsonl").read_text() == (tmp_path / "in.jsonl").read_text()


def test_a_linked_target_stays_a_link(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", NESTED)
    (tmp_path / "real.conll").write_text("before")
    (tmp_path / "link.conll").symlink_to("real.conll")
    assert spanloom("convert", "in.jsonl", "link.conll").returncode == 0
    assert (tmp_path / "link.conll").is_symlink()
    assert "B-Finding" in (tmp_path / "real.conll").read_text()


def test_nothing_that_a_corpus_says_reaches_the_terminal_raw(spanloom: Run, tmp_path: Path) -> None:
    evil = "X\x1b]0;own\x07"
    write(tmp_path / "in.jsonl", {"tokens": ["a"], "entities": [{"type": evil, "indices": [0]}], evil: 1, "\ud800": 1})
    for command in (["inspect", "in.jsonl"], ["evaluate", "in.jsonl", "in.jsonl"], ["convert", "in.jsonl", "o.conll"]):
        ran = spanloom(*command)
        assert ran.returncode == 0, ran.stderr
        assert "\x1b" not in ran.stdout + ran.stderr
    (tmp_path / "in.jsonl").write_text('{"\\u001b[31m": 1}')
    assert "\x1b" not in spanloom("inspect", "in.jsonl").stderr


def test_a_narrow_encoding_of_the_terminal_is_no_fault(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"tokens": ["ü"], "entities": [{"type": "Ü", "indices": [0]}]})
    for command in (["inspect", "in.jsonl"], ["inspect", "in.jsonl", "--json"], ["evaluate", "in.jsonl", "in.jsonl"]):
        assert spanloom(*command, PYTHONIOENCODING="ascii").returncode == 0


def test_a_reader_that_has_seen_enough_is_no_fault(tmp_path: Path) -> None:
    code = f"{sys.executable} -m spanloom inspect sample:mixed | head -1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_unknown_keys_are_told(spanloom: Run, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {**NESTED, "annotator": "hm"})
    done = spanloom("convert", "in.jsonl", "out.jsonl")
    assert 'lost or changed: 1 values of the unknown key "annotator"' in done.stderr


def test_convert_takes_little_memory_however_long_the_file(spanloom: Run, tmp_path: Path) -> None:
    """40 MB go through an address space that holds the program, but not the file beside it."""
    line = json.dumps({"tokens": ["word"] * 1000, "entities": [{"type": "X", "indices": [5]}]}) + "\n"
    with (tmp_path / "in.jsonl").open("w") as file:
        for _ in range(5000):
            file.write(line)
    assert (tmp_path / "in.jsonl").stat().st_size > 40e6
    ran = spanloom("convert", "in.jsonl", "out.conll", program=LIMITED)
    assert ran.returncode == 0, ran.stderr


LIMITED = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (48 << 20, 48 << 20)); "
    "from spanloom.cli import main; sys.exit(main())"
)
