"""The command line: `spanloom COMMAND ...`, one file a command.

A command's module is imported only when it is called, so that help and refusals answer at once.
Exit codes: 0 done, 1 the work failed, 2 the input or the command line is wrong.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn

from spanloom import __version__
from spanloom.errors import InputError, WorkFailed
from spanloom.terminal import printable

COMMANDS = {
    "inspect": "what is in a corpus: sizes, types, shapes, duplicates, what is lost",
    "convert": "from one format to another, with an account of what is lost",
    "train": "train a recogniser on a corpus",
    "predict": "find entities in raw text or in words",
    "sample": "make a corpus of readable English to try things on",
    "evaluate": "score a model, or predictions, against gold: strict, by type and by shape",
    "experiment": "a grid of trainings over heads, options, corpora and seeds, and one table",
    "sweep": "score one trained model with other options of decoding; the encoder runs once",
}
DONE, FAILED, WRONG_INPUT = 0, 1, 2
OVERVIEW = "  spanloom sample demo --shape mixed\n  spanloom inspect demo\n  spanloom convert demo/test.jsonl test-brat"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and which option may have been meant."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")

    def known_options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup, work outlives its terminal
            signal.signal(number, _terminated)
    if sys.stdout is None:  # closed by the caller; what is said there is said to nobody
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - no path, and open until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except InputError as error:
        return _fail(str(error), WRONG_INPUT)
    except WorkFailed as error:
        return _fail(str(error), FAILED)
    except KeyboardInterrupt:
        return _fail("stopped", 128 + signal.SIGINT)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return _fail(f"{error.filename or 'the system'}: {error.strerror or error}", FAILED)
    except MemoryError:
        return _fail("out of memory", FAILED)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview(), end="")
        return DONE
    if argv[0] in ("-V", "--version"):
        print(f"spanloom {__version__}")
        return DONE
    name = argv[0]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(COMMANDS)}"
        raise InputError(f"{name!r} is no command{hint}")
    module = import_module(f"spanloom.cli.{name}")
    parser = Parser(
        prog=f"spanloom {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.configure(parser)
    try:
        args, unknown = parser.parse_known_args(argv[1:])
    except SystemExit as stop:  # --help has been printed
        return int(stop.code or 0)
    if unknown:
        option = unknown[0].split("=")[0]
        near = difflib.get_close_matches(option, parser.known_options(), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        parser.error(f"{option!r} is no option here{hint}" if option[:1] == "-" else f"{option!r} is one too many")
    run: Callable[[argparse.Namespace], int] = module.run
    code = run(args)
    sys.stdout.flush()
    return code


def _overview() -> str:
    commands = "\n".join(f"  {name:10} {what}" for name, what in COMMANDS.items())
    return (
        "Spanloom finds named entities of every shape in text: flat, nested, overlapping, discontinuous.\n\n"
        "usage: spanloom COMMAND ...      spanloom COMMAND --help      spanloom --version\n\n"
        f"commands\n{commands}\n\nexamples\n{OVERVIEW}\n"
    )


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(' '.join(message.splitlines()))}", file=sys.stderr)
    return code


def _terminated(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # unwinds, so that half-written files go


if __name__ == "__main__":
    sys.exit(main())
