"""How fast raw text becomes words and sentences, on one core.

    python benchmarks/segment.py [--megabytes 4] [--repeats 5] [--file PATH]

The text is made here, from a fixed seed: prose with the hyphens, numbers, abbreviations, brackets and citations
of biomedical articles, in paragraphs. Each line is the best of the repeats, in megabytes of UTF-8 a second.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

from spanloom.segment import Segmenter

COMMON = """the of and in to a with was for by were that is as on from an be this these not at or which are have it
 has been cells expression patients protein gene levels treatment activity binding human increased induced results
 effect study response between analysis after both using disease clinical factor associated significant showed during
 receptor observed mice acute chronic therapy antibody transcription activation mutation tissue synthesis"""
RARE = """IL-2 NF-kappa 5-lipoxygenase CD28 3.5 1,000 (p<0.05) E.g. Parkinson's don't Fig. Dr. et al. TNF-α β-actin
 10mg/kg vs. "stress" U.S. [12] H2O2 p53-dependent mRNA, kinase; 37°C naïve Müller's 2',5'-oligo(A)"""


def prose(megabytes: float, seed: int = 1) -> str:
    """Paragraphs of three to nine sentences, always the same for a seed."""
    draw = random.Random(seed)
    common, rare = COMMON.split(), RARE.split()
    paragraphs: list[str] = []
    size = 0
    while size < megabytes * 1e6:
        sentences = []
        for _ in range(draw.randint(3, 9)):
            words = [draw.choice(rare if draw.random() < 0.12 else common) for _ in range(draw.randint(8, 34))]
            sentences.append(" ".join(words).capitalize() + draw.choice((".", ".", ".", ".", "?", " [3].", ".)")))
        paragraphs.append(" ".join(sentences))
        size += len(paragraphs[-1]) + 2
    return "\n\n".join(paragraphs)


def best(work: Callable[[], object], repeats: int) -> float:
    """The seconds that the fastest of several runs takes."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.0, help="how much text to make")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--file", type=Path, help="also measure this UTF-8 text")
    options = parser.parse_args()

    texts = {"made": prose(options.megabytes)}
    if options.file:
        texts[options.file.name] = options.file.read_text(encoding="utf-8", errors="replace")
    segmenter = Segmenter()
    one_sentence_a_line = Segmenter(sentences="lines")
    print(f"{'text':<16}{'MB':>7}{'words only':>13}{'with sentences':>16}{'stream':>9}   MB/s")
    for name, text in texts.items():
        size = len(text.encode()) / 1e6
        runs: list[Callable[[], object]] = [
            lambda text=text: one_sentence_a_line.segment(text),
            lambda text=text: segmenter.segment(text),
            lambda text=text: sum(1 for _ in segmenter.stream([text])),
        ]
        words, whole, stream = (size / best(run, options.repeats) for run in runs)
        print(f"{name:<16}{size:>7.1f}{words:>13.1f}{whole:>16.1f}{stream:>9.1f}")


if __name__ == "__main__":
    main()
