"""Files as every format sees them: lines with numbers going in, nothing half-written coming out."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from spanloom.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
BOM = "\ufeff"


def open_binary(path: Path) -> IO[bytes]:
    """A file for reading, unpacked if it is gzipped, whatever its name."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("is a pipe or a device, which can be read only once; save it to a file first", path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
    except FileNotFoundError:
        raise InputError("there is no such file", path) from None
    except IsADirectoryError:
        raise InputError("is a folder; a file is expected here", path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from None
    # buffered: a line at a time straight from gzip is slow
    return io.BufferedReader(gzip.open(path, "rb"), 1 << 20) if packed else path.open("rb")


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text file, numbered from 1, without their ends (LF or CRLF)."""
    number = 0
    with open_binary(path) as file:
        try:
            for raw in file:
                number += 1
                line = raw.decode("utf-8")
                if number == 1:
                    line = line.removeprefix(BOM)
                yield number, line.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(_not_utf8(error), path, number) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError("the gzip file is damaged or cut short here; pack it again", path, number + 1) from None


def read_text(path: Path) -> str:
    """A whole UTF-8 text file, every character as it stands (line ends and byte order mark too)."""
    with open_binary(path) as file:
        try:
            raw = file.read()
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(_not_utf8(error), path, raw.count(b"\n", 0, error.start) + 1) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError("the gzip file is damaged or cut short; pack it again", path) from None


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A text file that appears under its name only when it is whole; gzipped where the name ends in .gz."""
    path = path.resolve() if path.is_symlink() else path
    with _beside(path) as beside:
        raw = beside.open("wb")
        # no file name and no time in the gzip header: equal content gives equal bytes
        packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) if gzipped(path) else raw
        with raw, packed, io.TextIOWrapper(packed, encoding="utf-8", newline="") as file:
            yield file
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)


@contextlib.contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A folder that appears under its name only when it is whole; an empty one may stand there."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError("exists already and is not an empty folder; name another, or remove it", path)
    with _beside(path) as beside:
        beside.mkdir()
        yield beside
        if path.exists():
            path.rmdir()
        beside.replace(path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A free name in the same folder, on the same disk; whatever is left under it is removed."""
    parent = path.parent
    holder = parent / f".{path.name[:40]}.{secrets.token_hex(4)}.part"
    try:  # around the making too: a signal may come at any moment
        try:
            holder.mkdir(mode=0o700)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path) from None
        yield holder / path.name
    finally:
        shutil.rmtree(holder, ignore_errors=True)


def gzipped(path: Path) -> bool:
    return path.suffix == ".gz"


def without_gz(path: Path) -> Path:
    return path.with_suffix("") if gzipped(path) else path


def can_write(path: Path, folder: bool = False) -> None:
    """Refuses a target at once, before the work that would fill it."""
    if path.name in ("", "..", "-"):
        raise InputError("cannot be written; give it a name", path)
    parent = path.parent
    if not parent.is_dir():
        what = "is a file" if parent.exists() else "does not exist; make it first"
        raise InputError(f"the folder {parent} {what}", path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError("is a pipe or a device; name a file", path)
    if path.is_dir() and not folder:
        raise InputError("is a folder; name a file", path)
    if path.is_dir() and path.is_symlink():
        raise InputError("is a link to a folder; name the folder itself", path)
    if path.is_file() and folder:
        raise InputError("is a file; name a folder", path)
    if not os.access(parent, os.W_OK):
        raise InputError(f"the folder {parent} cannot be written to", path)
