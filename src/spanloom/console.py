"""How commands speak to people: notes, warnings and progress on standard error, and what a stream can show."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Generic, TextIO, TypeVar, overload

from spanloom.drawing import BOX, NARROWEST
from spanloom.terminal import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar

T = TypeVar("T")

WIDEST = 120
"""Longer rows are hard to read, however wide the window."""


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # not quite a file, or closed
        return False


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR is the last word; FORCE_COLOR speaks for pipes and files; otherwise terminals have colour."""
    if os.environ.get("NO_COLOR"):
        return False
    forced = os.environ.get("FORCE_COLOR")
    if forced:
        return forced != "0"
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def wants_unicode(stream: TextIO) -> bool:
    """Whether every mark of a drawing can be written to the stream."""
    try:
        "".join(BOX).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def terminal_width(stream: TextIO) -> int:
    """The cells of a row: 80 where nobody looks, so that files come out the same everywhere."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if is_terminal(stream) else 80
    except (OSError, ValueError):
        columns = 80
    return min(max(columns or 80, NARROWEST), WIDEST)


def say(message: str) -> None:
    """A note on standard error, above a bar that may be on show."""
    note = "\n".join(line.rstrip() for line in printable(message).split("\n"))
    if Progress.bar is None:
        print(note, file=sys.stderr, flush=True)
    else:
        Progress.bar.console.print(note, markup=False, highlight=False, emoji=False, soft_wrap=True)


def warn(message: str) -> None:
    say("warning: " + message.replace("\n", "\n         "))


class Progress(Generic[T]):
    """Tells how far long work has come; quick work stays quiet.

        for line in Progress(lines, "reading train.jsonl", unit="lines"): ...

        with Progress(None, "training", total=steps, unit="steps") as progress:
            progress.advance(3)

    On a terminal a bar appears after half a second and leaves no trace. Elsewhere a plain line is written
    every ten seconds. Of several at once, only the first to appear has a bar.
    """

    patience = 0.5
    refresh = 0.1
    line_every = 10.0
    glance = 0.005
    """Seconds of work between looks at the clock; more often would slow down a tight loop."""

    bar: Bar | None = None
    """The one bar on the terminal, whosever it is."""

    clock = staticmethod(time.monotonic)

    @overload
    def __init__(
        self: Progress[None],
        iterable: None,
        what: str,
        total: int | None = ...,
        unit: str = ...,
        stream: TextIO | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self, iterable: Iterable[T], what: str, total: int | None = ..., unit: str = ..., stream: TextIO | None = ...
    ) -> None: ...
    def __init__(
        self,
        iterable: Iterable[T] | None,
        what: str,
        total: int | None = None,
        unit: str = "items",
        stream: TextIO | None = None,
    ) -> None:
        self.iterable, self.what, self.unit = iterable, printable(what), unit
        self.total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self.stream = sys.stderr if stream is None else stream
        self.live = is_terminal(self.stream) and os.environ.get("TERM") != "dumb"
        self.count = 0
        self.started = self.clock()
        self.next_show = self.started + (self.patience if self.live else self.line_every)
        self.spoke = False
        self.own: Bar | None = None

    def __enter__(self) -> Progress[T]:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(done=kind is None)

    def __iter__(self) -> Iterator[T]:
        done = False
        stride, pending, looked = 1, 0, self.clock()
        try:
            for item in () if self.iterable is None else self.iterable:
                yield item
                pending += 1
                if pending >= stride:
                    self.advance(pending)
                    pending, before, looked = 0, looked, self.clock()
                    # Fast items are counted in bundles, which grow slowly and shrink at once.
                    stride = max(1, min(2 * stride, int(stride * self.glance / max(looked - before, 1e-9))))
            done = True
        finally:
            self.count += pending
            self.close(done)

    def advance(self, n: int = 1) -> None:
        """`n` more are done."""
        self.count += n
        now = self.clock()
        if now < self.next_show:
            return
        self.next_show = now + (self.refresh if self.live else self.line_every)
        if self.live:
            self.redraw(now)
        else:
            self.spoke = True
            print(f"{self.what}: {self.state(now)}", file=self.stream, flush=True)

    def close(self, done: bool = True) -> None:
        """Takes the bar away; after plain lines, a last one. Closing twice does no harm."""
        if self.own is not None:
            self.own.stop()
            self.own = Progress.bar = None
        if self.spoke and done:
            took = duration(self.clock() - self.started)
            print(f"{self.what}: {self.count:,} {self.unit} in {took}", file=self.stream, flush=True)
        self.spoke = False
        self.next_show = float("inf")

    def state(self, now: float) -> str:
        """`120,000 of 500,000 sentences (24 %), 14,000/s, 27 s left`"""
        rate = self.count / max(now - self.started, 1e-9)
        speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
        if not self.total:
            return f"{self.count:,} {self.unit}, {speed}"
        left = duration((self.total - self.count) / rate) + " left" if 0 < self.count <= self.total else ""
        share = f"{self.count:,} of {self.total:,} {self.unit} ({self.count / self.total:.0%}), {speed}"
        return ", ".join(filter(None, [share, left]))

    def redraw(self, now: float) -> None:
        state = self.state(now)
        if self.own is None:
            if Progress.bar is not None:
                return
            self.own = Progress.bar = bar(self.stream, share=bool(self.total))
            self.own.add_task(self.what, total=self.total, completed=self.count, state=state)
            self.own.start()
        else:
            self.own.update(self.own.task_ids[0], completed=self.count, state=state, refresh=True)


def bar(stream: TextIO, share: bool) -> Bar:
    """A live bar that draws only when asked to: a thread of its own would not survive forked workers."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False)]
    if share:
        columns.append(BarColumn(24, complete_style="cyan", finished_style="cyan"))
    columns.append(TextColumn("{task.fields[state]}", markup=False))
    console = Console(file=stream, force_terminal=True, no_color=not wants_colour(stream))
    # Standard output may be a file that the work itself is writing: leave it alone.
    return Bar(
        *columns, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    )


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def print_rich(renderable: RenderableType) -> None:
    """A table or the like on standard output, in colour where that is wanted."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # the command line knows what to do

    colour = wants_colour(sys.stdout)
    Plain(
        file=sys.stdout,
        width=terminal_width(sys.stdout),
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
    ).print(renderable)
