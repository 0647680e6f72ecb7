import io
import os
import subprocess
import sys
from itertools import count

import pytest

from spanloom import console
from spanloom.console import Progress, say, terminal_width, wants_colour, wants_unicode, warn


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(Progress, "clock", clock)
    return clock


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("environment", "stream", "expected"),
    [
        ({}, Terminal(), True),
        ({}, io.StringIO(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"NO_COLOR": ""}, Terminal(), True),
        ({"FORCE_COLOR": "1"}, io.StringIO(), True),
        ({"FORCE_COLOR": "0"}, Terminal(), False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, Terminal(), False),
    ],
)
def test_colour(monkeypatch, environment, stream, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(stream) is expected


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", True), ("utf-16", True), ("ascii", False), ("latin-1", False), ("cp437", False)],
)
def test_unicode(encoding, expected):
    assert wants_unicode(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is expected


def test_unicode_without_an_encoding():
    assert not wants_unicode(io.StringIO())


@pytest.mark.parametrize(("columns", "expected"), [(0, 80), (5, 20), (100, 100), (400, 120)])
def test_width(monkeypatch, columns, expected):
    stream = Terminal()
    monkeypatch.setattr(stream, "fileno", lambda: 2)
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((columns, 24)))
    assert terminal_width(stream) == expected
    assert terminal_width(io.StringIO()) == 80


def test_closed_streams_are_no_terminals():
    stream = io.StringIO()
    stream.close()
    assert not wants_colour(stream)
    assert terminal_width(stream) == 80


def test_notes_and_warnings(capsys):
    say("two\nlines [bold]as they are[/bold]")
    warn("not \x1b[31mred\nbut long")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "two\nlines [bold]as they are[/bold]\nwarning: not \ufffd[31mred\n         but long\n"


def test_quick_work_is_quiet(clock):
    stream = io.StringIO()
    assert list(Progress(range(100_000), "counting", stream=stream)) == list(range(100_000))
    assert stream.getvalue() == ""


def test_plain_lines_at_most_every_ten_seconds(clock):
    stream = io.StringIO()
    for _ in Progress(iter(range(25)), "reading train.jsonl", unit="sentences", stream=stream):
        clock.now += 1
    assert stream.getvalue().splitlines() == [
        "reading train.jsonl: 10 sentences, 1/s",
        "reading train.jsonl: 20 sentences, 1/s",
        "reading train.jsonl: 25 sentences in 25 s",
    ]


def test_plain_lines_with_a_total(clock):
    stream = io.StringIO()
    with Progress(None, "training", total=500_000, unit="steps", stream=stream) as progress:
        clock.now = 9.9
        progress.advance(1_000)
        clock.now = 10
        progress.advance(119_000)
        clock.now = 90
        progress.advance(380_000)
    assert stream.getvalue().splitlines() == [
        "training: 120,000 of 500,000 steps (24%), 12,000/s, 32 s left",
        "training: 500,000 of 500,000 steps (100%), 5,556/s, 0 s left",
        "training: 500,000 steps in 1 min 30 s",
    ]


def test_the_length_of_what_has_one_is_the_total():
    assert Progress([1, 2, 3], "x").total == 3
    assert Progress(iter([1, 2, 3]), "x").total is None


def test_work_that_slows_down_is_still_reported(clock):
    stream = io.StringIO()
    for number in Progress(count(), "counting", stream=stream):
        clock.now += 0.000_001 if number < 100_000 else 0.1
        if number > 120_000:
            break
    assert "counting: 1" in stream.getvalue()
    assert "in " not in stream.getvalue()  # it never finished


def test_every_item_is_counted_when_the_loop_ends_early(clock):
    progress = Progress(range(1_000_000), "counting", stream=io.StringIO())
    for number in progress:
        if number == 54_321:
            break
    assert progress.count == 54_321


def test_errors_pass_through_without_a_last_line(clock):
    stream = io.StringIO()
    with pytest.raises(RuntimeError):  # noqa: PT012
        for number in Progress(range(100), "counting", stream=stream):
            clock.now += 6
            if number == 4:
                raise RuntimeError
    assert stream.getvalue().count("\n") == 2
    assert " in " not in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.2, "0 s"), (59.7, "1 min 00 s"), (61, "1 min 01 s"), (7300, "2 h 01 min")]
)
def test_durations(seconds, expected):
    assert console.duration(seconds) == expected


def test_the_bar_appears_after_half_a_second_and_goes(clock):
    stream = Terminal()
    with Progress(None, "training [1]", total=10, unit="steps", stream=stream) as progress:
        clock.now = 0.4
        progress.advance()
        assert stream.getvalue() == ""
        clock.now = 0.6
        progress.advance()
        assert "training [1]" in stream.getvalue()
        assert "2 of 10 steps (20%)" in stream.getvalue()
    assert Progress.bar is None
    assert progress.count == 2


def test_only_one_bar_at_a_time(clock):
    stream = Terminal()
    with Progress(None, "outer", stream=stream) as outer:
        clock.now += 1
        outer.advance()
        shown = stream.getvalue()
        for _ in Progress(range(3), "inner", stream=stream):
            clock.now += 1
        assert stream.getvalue() == shown
        assert Progress.bar is not None
    assert Progress.bar is None


SCRIPT = """
import sys, time
from spanloom.console import Progress, say
try:
    for number in Progress(range(80), "reading a file", unit="lines"):
        time.sleep(0.01)
        if number == 70:
            say("a note\\nof two lines")
            print("result")
            {last}
except RuntimeError:
    pass
print("end", file=sys.stderr)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are a matter of Unix")
@pytest.mark.parametrize("last", ["pass", "raise RuntimeError"])
def test_live_bar_on_a_real_terminal(last):
    import pty

    ours, theirs = pty.openpty()
    script = SCRIPT.format(last=last)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not chunk:
                break
            seen += chunk
        result = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert result == b"result\n"  # what goes to a file stays out of the bar's way

    screen = seen.decode()
    assert "reading a file" in screen
    assert "of 80 lines" in screen
    assert "a note\r\nof two lines\r\n" in screen
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")  # the cursor is back
    assert screen.endswith("\x1b[2Kend\r\n")  # and the bar's row is empty again


def test_progress_costs_next_to_nothing():
    import timeit

    items = range(1_000_000)
    bare = min(timeit.repeat(lambda: sum(1 for _ in items), number=1, repeat=3))
    told = min(timeit.repeat(lambda: sum(1 for _ in Progress(items, "x", stream=io.StringIO())), number=1, repeat=3))
    assert told - bare < 0.5  # microseconds an item; a tenth of that on a quiet machine
