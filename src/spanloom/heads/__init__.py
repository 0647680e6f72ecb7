"""The families of heads. Adding one is adding one file, and one line here.

A family outside the package is made known by `add_family`, or, for the command line, by an entry point of the
package that it comes with:

    [project.entry-points."spanloom.heads"]
    mine = "mine.head:FAMILY"
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from spanloom.errors import InputError
from spanloom.options import nearest

if TYPE_CHECKING:  # a family brings torch along; to refuse a name takes none
    from spanloom.heads.base import Family

MODULES = {
    "tagger": "spanloom.heads.tagger",
    "span": "spanloom.heads.span",
    "w2ner": "spanloom.heads.w2ner",
    "locate-label": "spanloom.heads.locate_label",
    "diffusion": "spanloom.heads.diffusion",
}
"""Name to module; a family's module is imported when it is asked for."""

ENTRY_POINTS = "spanloom.heads"

_families: dict[str, Family] = {}


def names() -> list[str]:
    """All heads that there are."""
    return list(dict.fromkeys([*MODULES, *_families, *entry_points(group=ENTRY_POINTS).names]))


def expect(name: str) -> None:
    """Refuses what is no head, without loading one."""
    if name not in names():
        raise InputError(f"{name!r} is no head{nearest(name, names(), '')}")


def family_of(name: str) -> Family:
    """A family by name: one of ours, one that was added with `add_family`, or one that an installed package has."""
    if name not in _families:
        expect(name)
        if name in MODULES:
            _families[name] = import_module(MODULES[name]).FAMILY
        else:
            (entry,) = entry_points(group=ENTRY_POINTS, name=name)
            _families[name] = entry.load()
    return _families[name]


def add_family(family: Family) -> None:
    """Makes a family of one's own known under its name."""
    _families[family.name] = family
