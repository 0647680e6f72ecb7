"""Converts every split of the real corpora to every format and back, and compares.

    python benchmarks/roundtrips.py ../shared/data

words -> format -> words, through the command line. Columns hold the flat corpora only; of the others
they keep the outermost entities, and what is lost is counted.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENTRY = Path(sys.executable).with_name("spanloom")


def convert(source: Path, target: Path, format: str) -> str:
    ran = subprocess.run([ENTRY, "convert", source, target, "--to", format], capture_output=True, text=True, check=True)
    return ran.stderr


def records(text: str) -> list[str]:
    """Lines of words with each sentence's entities in one order."""
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line["entities"].sort(key=lambda entity: (entity["indices"], entity["type"]))
    return [json.dumps(line, sort_keys=True) for line in lines]


def main() -> None:
    for source in sorted(Path(sys.argv[1]).glob("*/*.jsonl.gz")):
        said = []
        gold = gzip.decompress(source.read_bytes()).decode()
        for format in ("fragments", "brat", "conll"):
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                target, back = Path(folder) / "there", Path(folder) / "back.jsonl"
                lost = [line.strip().split(": ")[1] for line in convert(source, target, format).splitlines()[1:]]
                convert(target, back, "words")
                equal = records(back.read_text()) == records(gold)
            outcome = "equal" if equal else f"differs ({'; '.join(lost)})"
            said.append(f"{format} {outcome} {time.perf_counter() - began:.0f} s")
        print(f"{source.parent.name}/{source.name}: {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
