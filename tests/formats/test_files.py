"""Files: gzip, line ends, and nothing half-written."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spanloom import formats
from spanloom.document import Document
from spanloom.errors import InputError, Tally
from spanloom.formats.files import read_lines, replacing, replacing_folder


def test_gzip_is_known_by_its_content_and_written_by_its_name(tmp_path: Path) -> None:
    documents = [Document("a", "x")]
    formats.write(documents, tmp_path / "out.jsonl.gz", "fragments", Tally())
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == b'{"id": "a", "text": "x", "entities": []}\n'
    (tmp_path / "out.jsonl.gz").rename(tmp_path / "odd.name")
    assert list(formats.read(tmp_path / "odd.name", Tally())) == documents


def test_equal_content_gives_equal_gzip_bytes(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        formats.write([Document("a", "x")], tmp_path / name, "fragments", Tally())
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffa\u2028b\x0bc\r\nd\re".encode())
    assert list(read_lines(tmp_path / "a")) == [(1, "a\u2028b\x0bc"), (2, "d\re")]


def fail_in_folder(target: Path) -> None:
    with replacing_folder(target) as beside:
        (beside / "half").write_text("x")
        raise KeyError


def fail_in_file(target: Path) -> None:
    with replacing(target) as file:
        file.write("half")
        raise KeyError


@pytest.mark.parametrize("folder", [False, True])
def test_a_failure_leaves_what_was_there(folder: bool, tmp_path: Path) -> None:
    target = tmp_path / "out"
    if folder:
        target.mkdir()
        with pytest.raises(KeyError):
            fail_in_folder(target)
        assert list(target.iterdir()) == []
    else:
        target.write_text("before")
        with pytest.raises(KeyError):
            fail_in_file(target)
        assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not an empty folder"), replacing_folder(tmp_path):
        pass


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_killed_conversion_leaves_nothing_behind(sent: signal.Signals, tmp_path: Path) -> None:
    """The conversion takes seconds, and is surely under way once its hidden folder is there."""
    source = tmp_path / "in.jsonl"
    with source.open("w") as file:
        for _ in range(300_000):
            file.write('{"tokens": ["a", "b", "c"], "entities": [{"type": "X", "indices": [0]}]}\n')
    entry = Path(sys.executable).with_name("spanloom")
    process = subprocess.Popen(
        [entry, "convert", source, tmp_path / "out.conll"],
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(
            sent, signal.SIG_DFL
        ),  # tests in the background ignore SIGINT, and so would it
    )
    while not any(path.suffix == ".part" for path in tmp_path.iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, sent)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + sent
    assert b"Traceback" not in said
    assert list(tmp_path.iterdir()) == [source]


def test_what_was_started_with_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    """Its parent ignores the hangup, and so does the child."""
    code = "import signal, sys; from spanloom.cli import main; main(['--version']); signal.raise_signal(signal.SIGHUP)"
    ran = subprocess.run(["nohup", sys.executable, "-c", code], capture_output=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode != 0
