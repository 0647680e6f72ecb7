"""A corpus on disk: a folder of splits, one file, or one of the samples that come with Spanloom."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from spanloom import formats
from spanloom.document import Document
from spanloom.errors import InputError, Tally

SPLITS = ("train", "dev", "test")
OTHER_NAMES = {
    "valid": "dev",
    "val": "dev",
    "validation": "dev",
    "devel": "dev",
    "testing": "test",
    "training": "train",
}
SAMPLE = "sample:"
LEFTOVERS = ("~", ".bak", ".orig", ".part", ".tmp", ".swp", ".md")


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files of a corpus by split, in the order train, dev, test; those that are there."""

    name: str
    splits: dict[str, Path]
    folder: bool
    """Whether it is a folder of splits, and not one file or one brat folder."""

    def documents(
        self, split: str, tally: Tally, format: str | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Document]:
        return formats.read(self.splits[split], tally, format, columns)

    def digest(self, splits: Collection[str]) -> str:
        """What the files of some splits hold, in a few letters; where they lie does not count."""
        digest = blake2b(digest_size=16)
        for split, path in self.splits.items():
            if split in splits:
                for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                    if file.is_file():
                        name = file.relative_to(path).as_posix() if path.is_dir() else ""
                        digest.update(f"{split}\0{name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
                        with file.open("rb") as stream:
                            while block := stream.read(1 << 20):
                                digest.update(block)
        return digest.hexdigest()


def find_corpus(name: str) -> Corpus:
    """A corpus by path, or by name where it comes with Spanloom (`sample:mixed`).

    A folder holds `train.*`, `dev.*` and `test.*` in any readable format; a split may also be a
    brat folder `train`. One file, or one brat folder, is the split that its name says, else train.
    """
    if name.startswith(SAMPLE):
        return Corpus(name, _splits(_shipped(name)), folder=True)
    path = Path(name)
    if not path.exists():
        raise InputError("there is no such file or folder", path)
    if path.is_dir() and holds_splits(path):
        return Corpus(name, _splits(path), folder=True)
    stem = path.name.split(".")[0]
    return Corpus(name, {stem if stem in SPLITS else "train": path}, folder=False)


def holds_splits(folder: Path) -> bool:
    """Whether a folder is a corpus of splits, and not a brat folder."""
    return not any(folder.glob("*.ann")) and any(_candidates(folder, split) for split in SPLITS)


def _splits(folder: Path) -> dict[str, Path]:
    found = {}
    for file in folder.iterdir():
        if (other := file.name.split(".")[0].lower()) in OTHER_NAMES:
            raise InputError(f"looks like the {OTHER_NAMES[other]} split; name it {OTHER_NAMES[other]}.*", file)
    for split in SPLITS:
        files = _candidates(folder, split)
        if len(files) > 1:
            names = " and ".join(file.name for file in files)
            raise InputError(f"{names} both claim to be the {split} split; keep one", folder)
        if files:
            found[split] = files[0]
    return found


def _candidates(folder: Path, split: str) -> list[Path]:
    return sorted(
        file
        for file in folder.iterdir()
        if (file.name == split and file.is_dir())
        or (file.name.startswith(f"{split}.") and file.is_file() and not file.name.endswith(LEFTOVERS))
    )


def _shipped(name: str) -> Path:
    data = Path(__file__).parent / "samples" / "data"
    shapes = sorted(folder.name for folder in data.iterdir())
    shape = name.removeprefix(SAMPLE)
    if shape not in shapes:
        raise InputError(f"{name!r} is no sample; there are {', '.join(SAMPLE + shape for shape in shapes)}")
    return data / shape


def columns_of(option: str | None) -> list[str] | None:
    """What `--columns word,_,tag` names."""
    return None if option is None else [column.strip() for column in option.split(",")]
