"""What the two formats of JSON lines share: one object a line, every fault named with its line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spanloom.errors import InputError, Tally
from spanloom.formats.files import read_lines

encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False).encode


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line numbers; empty lines are passed over."""
    decode = json.JSONDecoder(parse_constant=_not_a_number, parse_float=_float, object_pairs_hook=_object).decode
    for number, line in read_lines(path):
        if not line or line.isspace():
            continue
        try:
            record = decode(line)
        except json.JSONDecodeError as error:
            raise InputError(f"not JSON: {error.msg} at column {error.colno}", path, number) from None
        except RecursionError:
            raise InputError("not a line of a corpus: JSON nested too deeply", path, number) from None
        except ValueError as error:
            said = "a number is too long" if "digits" in str(error) else str(error)
            raise InputError(f"not JSON: {said}", path, number) from None
        if not isinstance(record, dict):
            hint = "; a JSON array must be written as one object a line" if isinstance(record, list) else ""
            raise InputError(f"a JSON object is expected on each line, not {kind(record)}{hint}", path, number)
        yield number, record


def _not_a_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    if (value := float(text)) in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in [other for other, _ in pairs[:at]])
        raise ValueError(f"the key {twice!a} stands there twice")
    return found


def kind(value: object) -> str:
    """What JSON calls a value: 'a string', 'a list', ..."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)


def known_keys(record: dict[str, Any], known: frozenset[str], tally: Tally) -> None:
    """Counts keys that no format of ours holds."""
    if not record.keys() <= known:
        for key in record.keys() - known:
            key = key.encode("utf-8", "backslashreplace").decode()
            tally.add(f'values of the unknown key "{key}"')


def text_of(value: object, what: str, path: Path, line: int) -> str:
    """A string that can be written as UTF-8 again."""
    if not isinstance(value, str):
        raise InputError(f"{what} must be a string, not {kind(value)}", path, line)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(value[error.start]):04x}"
        raise InputError(f"{what} holds half a character ({half}); it cannot be written as UTF-8", path, line) from None
    return value


def name_of(value: object, what: str, path: Path, line: int) -> str:
    """The name of a document; a number will do."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    name = text_of(value, what, path, line)
    if not name.strip():
        raise InputError(f"{what} is empty; give a name, or leave it out", path, line)
    return name


def type_of(entity: object, path: Path, line: int) -> tuple[dict[str, Any], str]:
    """An entity's object with its type."""
    if not isinstance(entity, dict):
        raise InputError(f"an entity must be an object, not {kind(entity)}", path, line)
    if "type" not in entity:
        raise InputError('an entity has no "type"', path, line)
    type = text_of(entity["type"], '"type"', path, line)
    if not type.strip():
        raise InputError('"type" of an entity is empty', path, line)
    return entity, type


def score_of(entity: dict[str, Any], path: Path, line: int) -> float | None:
    score = entity.get("score")
    if score is None:
        return None
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not 0 <= score <= 1:
        raise InputError(f'"score" must be a number from 0 to 1, not {encode(score)}', path, line)
    return float(score)


def list_of(record: dict[str, Any], key: str, path: Path, line: int) -> list[Any]:
    """The list under a key, empty where the key is missing."""
    value = record.get(key, [])
    if not isinstance(value, list):
        raise InputError(f'"{key}" must be a list, not {kind(value)}', path, line)
    return value


def words_of(record: dict[str, Any], path: Path, line: int) -> list[str]:
    """The words under "tokens"."""
    words = list_of(record, "tokens", path, line)
    for position, word in enumerate(words):
        # only an odd word is looked at closely: this runs once for every word of a corpus
        odd = type(word) is not str or not word or not word.isascii()
        if odd and not text_of(word, f'word {position} of "tokens"', path, line):
            raise InputError(f'word {position} of "tokens" is empty', path, line)
    return words
