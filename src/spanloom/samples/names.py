"""Inventing names: people, towns, companies, drugs, genes that never were.

A name carries no hint of what it names: one pool of surnames serves people, towns, companies and
drug brands alike, one pool of symbols serves genes, proteins and compounds, and only the words
around a name tell which it is. Every name belongs to one split for good.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from spanloom.samples.everyday import words

SPLITS = ("train", "dev", "test")

_ONSETS = words("B Br C Cl D Dr F G Gr H J K Kr L M N P Pr R S St T Tr V W Z")
_VOWELS = words("a e i o u")
_CODAS = words("l ll lm lv m n nd nn r rb rd rl rm rn rr rth rv s sk sl st th v vr z zd")
_ENDINGS = words("ane ard aro ay eck el ell en ena er ia ick in ina ino ock on onne or ova ow umar yn")

_DRUG_MIDDLES = words("ba ca da fa la ma na pa ra ta va za be ce de fe le me ne pe re te ve ze lo mo no ro to vo")
_DRUG_ENDINGS = words(
    "bactam cillin dipine dronate fenac gliptin kinra lukast mycin olol oxetine parin pril statin sartan setron "
    "tadine tidine tinib trexate triptan vir xaban zepam zolam zole zumab"
)

_LETTERS = "ABCDFGHKLMNPRSTVXZ"

_TAKEN = frozenset(words("Barren Berlin Boston Carmen Dresden Dublin Garner Hessen Marlin Norway Persia Servia Turkey"))


class Names(NamedTuple):
    """What one split may call things."""

    name: tuple[str, ...]
    """Surnames, towns, companies, brands: "Torvick"."""
    code: tuple[str, ...]
    """Genes, proteins, compounds, cell lines, buffers: "KRD4"."""
    generic: tuple[str, ...]
    """Drugs that sound like drugs: "zotapril"."""


def invent(count: int, seed: str) -> dict[str, Names]:
    """Names of each kind for every split; no name is in two splits. Train gets half of about `count`."""
    pools = [
        _pool(count, maker, Random(f"{seed}/{maker.__name__}"))
        for maker in (_invent_name, _invent_code, _invent_generic)
    ]
    # Half to train, a quarter each to dev and test, so that the small splits do not repeat themselves.
    shares = {"train": (0, 2), "dev": (1,), "test": (3,)}
    return {
        split: Names(*(tuple(name for at, name in enumerate(pool) if at % 4 in shares[split]) for pool in pools))
        for split in SPLITS
    }


def _pool(count: int, maker: Callable[[Random], str], random: Random) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        name = maker(random)
        if name not in _TAKEN:
            found[name] = None
    return list(found)


def _invent_name(random: Random) -> str:
    second = pick(_VOWELS, random) + pick(_CODAS, random) if random.random() < 0.15 else ""
    return pick(_ONSETS, random) + pick(_VOWELS, random) + pick(_CODAS, random) + second + pick(_ENDINGS, random)


def _invent_code(random: Random) -> str:
    letters = "".join(pick(_LETTERS, random) for _ in range(3 if random.random() < 0.7 else 4))
    hyphen = "-" if random.random() < 0.25 else ""
    return f"{letters}{hyphen}{1 + int(random.random() * 19)}"


def _invent_generic(random: Random) -> str:
    middles = "".join(pick(_DRUG_MIDDLES, random) for _ in range(1 if random.random() < 0.4 else 2))
    return pick(_ONSETS, random).lower() + pick(_VOWELS, random) + middles + pick(_DRUG_ENDINGS, random)


def pick(choices: list[str] | tuple[str, ...] | str, random: Random) -> str:
    """One of the choices, by `random.random()` alone: the one draw that is the same on every Python."""
    return choices[int(random.random() * len(choices))]
