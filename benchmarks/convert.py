"""Seconds and peak memory of `spanloom convert` on generated sentences, and of the start of each command.

    python benchmarks/convert.py --sentences 100000

Every conversion runs as a process of its own, through the real entry, one at a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from spanloom.corpus import SPLITS

ENTRY = Path(sys.executable).with_name("spanloom")


def measure(*args: str | Path) -> tuple[float, float]:
    """Wall seconds and peak memory in MiB of one process."""
    began = time.perf_counter()
    quiet = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)]
    process = os.posix_spawn(ENTRY, [str(ENTRY), *map(str, args)], os.environ, file_actions=actions)
    _, status, usage = os.wait4(process, 0)
    os.close(quiet)
    if status:
        sys.exit(f"spanloom {' '.join(map(str, args))} failed")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100_000)
    sentences = parser.parse_args().sentences
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # in a process of its own: a child's peak memory counts what its parent held when it was started
        measure("sample", folder / "corpus", "--shape", "mixed", "--sentences", str(sentences))
        with (folder / "in.jsonl").open("wb") as whole:
            for split in SPLITS:
                shutil.copyfileobj((folder / "corpus" / f"{split}.jsonl").open("rb"), whole)
        size = (folder / "in.jsonl").stat().st_size / 1e6
        print(f"{sentences:,} sentences, {size:.1f} MB of words")
        for source, target, format in [
            ("in.jsonl", "copy.jsonl", "words"),
            ("in.jsonl", "text.jsonl", "fragments"),
            ("in.jsonl", "columns.conll", "conll"),
            ("in.jsonl", "brat", "brat"),
            ("text.jsonl", "again.jsonl", "words"),
            ("columns.conll", "flat.jsonl", "words"),
            ("brat", "back.jsonl", "words"),
        ]:
            seconds, memory = measure("convert", folder / source, folder / target, "--to", format)
            speed = f"{sentences / seconds:9,.0f} sentences/s"
            print(f"{source:14} to {target:14} {seconds:6.1f} s  {memory:6.0f} MiB  {speed}")
        for args in (["--help"], ["convert", "--help"], ["inspect", "--help"], ["evaluate", "--help"]):
            seconds, memory = min(measure(*args) for _ in range(5))
            print(f"spanloom {' '.join(args):24} {seconds:6.3f} s  {memory:6.0f} MiB")


if __name__ == "__main__":
    main()
