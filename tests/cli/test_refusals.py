"""Bad input and bad command lines: one clear line, exit code 2, no traceback, nothing left behind."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Run

WORDS = '{"tokens": ["Left", "knee"], "entities": [{"type": "X", "indices": [0, 1]}]}\n'
GOOD = {"good.jsonl": WORDS}


class Case(NamedTuple):
    """A corpus or a command line that cannot be right, and what its one line has to say."""

    name: str
    files: dict[str, str | bytes]
    command: str
    says: list[str]


def words(name: str, line: str, *says: str) -> Case:
    """A faulty second line in a file of words."""
    return Case(name, {"in.jsonl": WORDS + line + "\n"}, "convert in.jsonl out.conll", ["in.jsonl:2:", *says])


def fragments(name: str, line: str, *says: str) -> Case:
    files: dict[str, str | bytes] = {"in.jsonl": '{"text": "Left knee"}\n' + line + "\n"}
    return Case(name, files, "convert in.jsonl out", ["in.jsonl:2:", *says])


def columns(name: str, lines: str, *says: str, options: str = "") -> Case:
    return Case(name, {"in.conll": lines}, f"convert in.conll out.jsonl {options}", list(says))


def brat(name: str, files: dict[str, str | bytes], *says: str) -> Case:
    return Case(name, {f"in/{file}": content for file, content in files.items()}, "convert in out.jsonl", list(says))


CASES = [
    # JSON lines of words
    words("broken JSON", '{"tokens": ["a"', "not JSON", "column"),
    words("not an object", "7", "a JSON object is expected", "a number"),
    words("no tokens", '{"sentence": ["a"]}', '"tokens" is missing', '"sentence"'),
    words("tokens are a string", '{"tokens": "a b"}', '"tokens" must be a list', "a string"),
    words("a word is a number", '{"tokens": ["a", 3]}', 'word 1 of "tokens"', "a number"),
    words("a word is empty", '{"tokens": ["a", ""]}', 'word 1 of "tokens" is empty'),
    words("half a character", r'{"tokens": ["\ud83d"]}', "half a character", "\\ud83d"),
    words("entities are an object", '{"tokens": ["a"], "entities": {}}', '"entities" must be a list', "an object"),
    words("an entity is a list", '{"tokens": ["a"], "entities": [[0, 1]]}', "an entity must be an object"),
    words("no type", '{"tokens": ["a"], "entities": [{"indices": [0]}]}', 'no "type"'),
    words("empty type", '{"tokens": ["a"], "entities": [{"type": " ", "indices": [0]}]}', '"type"', "empty"),
    words("type is a number", '{"tokens": ["a"], "entities": [{"type": 1, "indices": [0]}]}', '"type" must be a string'),
    words("no indices", '{"tokens": ["a"], "entities": [{"type": "X"}]}', 'no "indices"'),
    words("index out of range", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [1]}]}', "leave", "1 word,"),
    words("negative index", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [-1]}]}', "leave the sentence"),
    words("index is a fraction", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [0.5]}]}', "whole numbers"),
    words("index is true", '{"tokens": ["a", "b"], "entities": [{"type": "X", "indices": [true]}]}', "whole numbers"),
    words("indices descend", '{"tokens": ["a", "b"], "entities": [{"type": "X", "indices": [1, 0]}]}', "must ascend"),
    words("index twice", '{"tokens": ["a", "b"], "entities": [{"type": "X", "indices": [0, 0]}]}', "must ascend"),
    words("pos too short", '{"tokens": ["a", "b"], "pos": ["NN"]}', '"pos" has 1 tags for 2 words'),
    words("doc is a list", '{"tokens": ["a"], "doc": []}', '"doc" must be a string'),
    words("score above 1", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [0], "score": 2}]}', '"score"'),
    words("NaN", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [0], "score": NaN}]}', "NaN"),
    words("too large a number", '{"tokens": ["a"], "entities": [{"type": "X", "indices": [1e400]}]}', "1e400", "too large"),
    words("a number without end", '{"tokens": ["a"], "doc": ' + "9" * 5000 + "}", "a number is too long"),
    words("a key twice", '{"tokens": ["a"], "entities": [], "tokens": ["b"]}', "'tokens'", "twice"),
    words("nested without end", '{"tokens": ' + "[" * 100_000, "nested too deeply"),
    # JSON lines of text with fragments
    fragments("no text", '{"id": "a", "entities": []}', '"text" is missing'),
    fragments("fragment outside", '{"text": "ab", "entities": [{"type": "X", "fragments": [[0, 9]]}]}', "[0, 9]", "2 char"),
    fragments("fragment backwards", '{"text": "ab", "entities": [{"type": "X", "fragments": [[1, 1]]}]}', "below end"),
    fragments("fragment of three", '{"text": "ab", "entities": [{"type": "X", "fragments": [[0, 1, 2]]}]}', "[start, end]"),
    fragments("no fragments", '{"text": "ab", "entities": [{"type": "X"}]}', 'no "fragments"'),
    fragments(
        "offsets of another text",
        '{"text": "Ü left", "entities": [{"type": "X", "text": "left", "fragments": [[3, 6]]}]}',
        "'left'",
        "'eft'",
        "count characters",
    ),
    fragments("tokens of another text", '{"text": "a b", "tokens": ["a", "c"]}', "'c'", "does not come next"),
    fragments("sentences do not add up", '{"text": "a b", "tokens": ["a", "b"], "sentences": [1]}', "add up to 2"),
    fragments("offsets beyond the text", '{"text": "abc", "tokens": ["abc"], "offsets": [[0, 99]]}', "[0, 99]", "'abc'"),
    fragments("indices disagree", '{"text": "a b", "tokens": ["a", "b"], "entities": [{"type": "X", "fragments": [[0, 1]], "indices": [1]}]}', "disagree"),
    fragments("words with a text", '{"text": "a", "tokens": ["a"], "entities": [{"type": "X", "indices": [0]}]}', "--from words"),
    # columns
    columns("carriage returns", "A O\rB B-X\rC O\r\n", "in.conll:1:", "carriage return"),
    columns("JSON named, columns found", "A O\n", "in.conll", "columns, not JSON", options="--from jsonl"),
    columns("one column", "Left O\nknee\n", "in.conll:2:", "one column"),
    columns("no tag", "Left O\nknee X-FOO\n", "in.conll:2:", "'X-FOO' is no tag", "--columns"),
    columns("ragged", "Left NN O\nknee O\n", "in.conll:2:", "2 columns, but 3"),
    columns("tag without type", "Left B-\n", "--from conll", "B-", options="--from conll")._replace(says=["in.conll:1:", "'B-'"]),
    columns("columns unknown", "a O\n", "'lemma' is no column", options="--columns word,lemma"),
    columns("columns without tag", "a O\n", "'tag' stands there 0 times", options="--columns word,_"),
    columns("columns too many", "a O\n", "in.conll:1:", "2 columns where --columns names 3", options="--columns word,_,tag"),
    Case("columns for JSON", GOOD, "convert good.jsonl out.conll --columns word,tag", ["good.jsonl:1", "--columns names 2"]),
    # brat
    brat("no annotation", {"a.txt": "x y", "a.ann": "hello\n"}, "a.ann:1:", "not an annotation"),
    brat("offsets outside", {"a.txt": "x y", "a.ann": "T1\tX 0 9\tx\n"}, "a.ann:1:", "0 9", "3 characters"),
    brat("offsets backwards", {"a.txt": "x y", "a.ann": "T1\tX 2 1\tx\n"}, "a.ann:1:", "below end"),
    brat("another text", {"a.txt": "x y", "a.ann": "T1\tX 0 1\ty\n"}, "a.ann:1:", "'y'", "'x'"),
    brat("annotation without text", {"a.txt": "x", "b.ann": ""}, "b.ann", "no .txt file"),
    brat("unsorted fragments of another text", {"a.txt": "x y", "a.ann": "T1\tX 2 3;0 1\tz x\n"}, "a.ann:1:", "'z x'"),
    brat("offsets without end", {"a.txt": "x y", "a.ann": "T1\tX 0 " + "9" * 5000 + "\tx\n"}, "a.ann:1:", "not an annotation"),
    brat("gzipped annotation", {"a.txt": "x", "a.ann.gz": "x"}, "a.ann.gz", "unpack it first"),
    brat("names alike", {"a.txt": "x", "a.TXT": "y"}, "capitals"),
    brat("damaged layout", {"a.txt": "x", "spanloom.json": "{"}, "spanloom.json", "damaged"),
    Case("empty folder", {"in/notes.md": "x"}, "convert in out.jsonl", ["in", ".txt"]),
    # any file
    Case("not UTF-8", {"in.jsonl": WORDS.encode() + b'{"tokens": ["\xe4"]}\n'}, "convert in.jsonl o.conll", ["in.jsonl:2:", "0xe4", "UTF-8"]),
    Case("brat not UTF-8", {"in/a.txt": b"x\n\xff"}, "convert in out.jsonl", ["a.txt:2:", "UTF-8"]),
    Case("gzip cut short", {"in.jsonl.gz": gzip.compress(WORDS.encode() * 9999)[:-50]}, "convert in.jsonl.gz o.conll", ["in.jsonl.gz", "damaged"]),
    Case("gzip damaged", {"in.jsonl.gz": b"\x1f\x8b" + b"x" * 99}, "convert in.jsonl.gz o.conll", ["in.jsonl.gz", "damaged"]),
    Case("empty file", {"in.jsonl": ""}, "convert in.jsonl out.conll", ["in.jsonl", "empty"]),
    Case("JSON array", {"in.json": "[\n" + WORDS}, "convert in.json out.conll", ["in.json:1:", "one object a line"]),
    Case("unknown format", {"in.txt": "Just a text.\n"}, "convert in.txt out.jsonl", ["in.txt", "--from"]),
    Case("unknown keys", {"in.jsonl": '{"words": []}\n'}, "convert in.jsonl out.conll", ["in.jsonl:1:", '"words"']),
    # command lines
    Case("no such command", {}, "convrt a b", ["'convrt' is no command", "did you mean convert?"]),
    Case("no such option", GOOD, "convert good.jsonl out.conll --form words", ["'--form'", "did you mean --from?"]),
    Case("no arguments", {}, "convert", ["IN", "OUT", "required", "--help"]),
    Case("one argument too many", GOOD, "convert good.jsonl out.conll more", ["'more' is one too many"]),
    Case("no such file", {}, "convert nowhere.jsonl out.conll", ["nowhere.jsonl", "no such file"]),
    Case("no such format", GOOD, "convert good.jsonl out --to brad", ["'brad' is no format", "did you mean brat?"]),
    Case("no format to write", GOOD, "convert good.jsonl out.xml", ["out.xml", "--to"]),
    Case("onto itself", GOOD, "convert good.jsonl good.jsonl", ["good.jsonl", "the source itself"]),
    Case("into no folder", GOOD, "convert good.jsonl no/out.conll", ["no/out.conll", "does not exist"]),
    Case("brat onto a full folder", {**GOOD, "out/a": "x"}, "convert good.jsonl out --to brat", ["out", "not an empty folder"]),
    Case("file as folder", GOOD, "convert good.jsonl out.jsonl --from brat", ["good.jsonl", "folder"]),
    Case("folder as file", {"in/a.txt": "x"}, "convert in out.jsonl --from words", ["in", "is a folder"]),
    Case("folder of splits without --to", {"in/train.jsonl": WORDS}, "convert in out", ["--to"]),
    Case("a split by another name", {"in/train.jsonl": WORDS, "in/valid.jsonl": WORDS}, "inspect in", ["valid.jsonl", "name it dev"]),
    Case("into a folder", {**GOOD, "out.jsonl/a": "x"}, "convert good.jsonl out.jsonl", ["out.jsonl", "is a folder"]),
    Case("into a file's folder", GOOD, "convert good.jsonl good.jsonl/x.conll", ["good.jsonl", "is a file"]),
    Case("brat gzipped", GOOD, "convert good.jsonl out.gz", ["out.gz", "cannot be gzipped"]),
    Case("from a device", {}, "convert /dev/null out.conll", ["/dev/null", "a pipe or a device"]),
    Case("onto standard output", GOOD, "convert good.jsonl -", ["-", "give it a name"]),
    Case("misspelt encoder", GOOD, "train good.jsonl --encoder minlm --out run", ["encoder minlm", "did you mean minilm?"]),
    Case("a bundle of one head", GOOD, "train good.jsonl --head span --bundle span --out run", ["--bundle span", "two different heads"]),
    Case("a bundle with no head", GOOD, "train good.jsonl --bundle spam --out run", ["'spam' is no head", "did you mean span?"]),
    Case("a bundle with a path", GOOD, "train good.jsonl --bundle ../span --out run", ["'../span' is no head"]),
    Case("alpha without a bundle", GOOD, "train good.jsonl --alpha 0.1 --out run", ["alpha 0.1", "--bundle names the second"]),
    Case("alpha above 1", GOOD, "train good.jsonl --bundle span --alpha 1.1 --out run", ["alpha 1.1", "from 0 to 1"]),
    Case("alpha is a word", GOOD, "train good.jsonl --bundle span --alpha x --out run", ["alpha cannot be 'x'", "a number"]),
    Case("an untrained host", GOOD, "train good.jsonl --bundle span --alpha 0 --out run", ["alpha 0 leaves tagger untrained", "--head span"]),
    Case("a partner's option without a partner", GOOD, "train good.jsonl --set partner.crf=true --out run", ["partner.crf: there is no partner", "--bundle"]),
    Case("a partner's option misspelt", GOOD, "train good.jsonl --head span --bundle tagger --set partner.crff=true --out run", ["did you mean partner.crf?"]),
    Case("resuming with another bundle", {"run/training/run.json": "{}"}, "train --resume run --bundle span --alpha 0.2", ["leave out --bundle, --alpha"]),
    Case("options of a bundle of one", {}, "train --options --head span --bundle span", ["two different heads"]),
    Case("an output of two files", GOOD, "evaluate good.jsonl good.jsonl --decode span", ["--decode: for a model"]),
    Case("an output that is none", {"m/config.json": '{"head": "span"}', **GOOD}, "predict m good.jsonl --decode spam", ["m: has no output 'spam'", "did you mean span?"]),
    Case("an output outside", {"m/config.json": '{"head": "span"}', "x/config.json": "{}", **GOOD}, "evaluate m good.jsonl --decode ../../x", ["m: has no output '../../x'"]),
    Case("an output of a sweep", {"m/config.json": "[", "m/outputs/tagger/config.json": "{}", **GOOD}, "sweep m good.jsonl --over threshold=0 --decode span", ["there are tagger"]),
    Case("words from standard input", {}, "predict out - --from words", ["--from words", "save it to a file"]),
    Case("onto a device", GOOD, "convert good.jsonl /dev/null --to conll", ["/dev/null", "a pipe or a device"]),
    Case("too many sentences", {}, "sample out --sentences 99999999999", ["at most 1,000,000"]),
    Case("two train splits", {"in/train.jsonl": WORDS, "in/train.conll": "a O\n"}, "inspect in", ["train.conll and train.jsonl"]),
    Case("no such sample", {}, "inspect sample:big", ["'sample:big'", "sample:flat"]),
    Case("no such shape", {}, "sample out --shape round", ["'round'", "flat"]),
    Case("too few sentences", {}, "sample out --sentences 3", ["3"]),
    Case("seed is a word", {}, "sample out --seed x", ["--seed", "'x'"]),
    Case("sample onto a file", GOOD, "sample good.jsonl", ["good.jsonl", "is a file"]),
    Case("negative examples", GOOD, "inspect good.jsonl --examples -1", ["--examples"]),
    Case("faulty split", {"in/train.jsonl": WORDS, "in/test.jsonl": WORDS + "{}\n"}, "inspect in --json", ["test.jsonl:2:"]),
    Case("other text", {**GOOD, "p.jsonl": '{"tokens": ["Right", "knee"]}\n'}, "evaluate good.jsonl p.jsonl", ["good.jsonl", "p.jsonl", "Left"]),
    Case("shorter text", {"g.jsonl": WORDS * 2, **GOOD}, "evaluate g.jsonl good.jsonl", ["good.jsonl"]),
    Case("options of a model for two files", GOOD, "evaluate good.jsonl good.jsonl --precision fp32 --batch-words 8", ["--precision, --batch-words: for a model"]),
    Case("options of decoding for two files", GOOD, "evaluate good.jsonl good.jsonl --set head.crf=true", ["--set: for a model"]),
    Case("lines of words", GOOD, "predict out good.jsonl --lines", ["good.jsonl", "--lines is for raw text, and this is words"]),
    Case("a corpus of splits as gold", {"in/train.jsonl": WORDS, **GOOD}, "evaluate in good.jsonl", ["in: is a corpus of splits", "name the file of one"]),
    Case("a corpus of splits as predictions", {"in/test.jsonl": WORDS, **GOOD}, "evaluate good.jsonl in", ["in: is a corpus of splits"]),
    Case("evaluating a run without an epoch", {"run/training/run.json": "{}", **GOOD}, "evaluate run good.jsonl", ["first epoch", "spanloom train --resume run"]),
    Case("predicting with a run without an epoch", {"run/training/run.json": "{}", **GOOD}, "predict run good.jsonl", ["spanloom train --resume run"]),
    Case("evaluate nothing", GOOD, "evaluate good.jsonl", ["PRED"]),
    Case("lost under --strict", {"in.jsonl": WORDS + '{"tokens": ["a", "b", "c"], "entities": [{"type": "X", "indices": [0, 2]}]}\n'}, "convert in.jsonl out.conll --strict", ["out.conll", "--strict", "1 discontinuous", "a c"]),
    Case("a later split fails", {"in/train.jsonl": WORDS, "in/test.jsonl": "{}\n"}, "convert in out --to conll", ["test.jsonl:1:"]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input_is_refused_in_one_clear_line(case: Case, spanloom: Run, tmp_path: Path) -> None:
    for name, content in case.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    refused = spanloom(*case.command.split())

    assert refused.returncode == 2, refused.stderr
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: ")
    assert refused.stderr.count("\n") == 1, refused.stderr
    for said in case.says:
        assert said in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert {path.name for path in tmp_path.iterdir()} == {name.split("/")[0] for name in case.files}


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


HEAVY = {"torch", "transformers", "numpy", "rich", "regex", "asyncio"}
COMMANDS = ["--help", "convert --help", "inspect --help", "sample --help", "evaluate --help", "convrt", "convert"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_refusals_wait_for_no_library(command: str) -> None:
    """What makes them slow is known, and a test of it does not depend on the machine's mood."""
    code = f"import sys; from spanloom.cli import main; main({command.split()}); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(ran.stderr.split()) == set()
