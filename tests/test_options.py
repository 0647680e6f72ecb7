"""Options: from texts to values, and what is said of those that are wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from spanloom.encoder.options import EncoderOptions
from spanloom.errors import InputError
from spanloom.heads.tagger import Options as TaggerOptions
from spanloom.options import TrainingOptions, convert, decode_options, make, parse_sets, read_toml, spelt

SECTIONS = ("encoder", "head", "training")


@dataclass(frozen=True)
class Every:
    """An option of every type there is."""

    switch: bool = False
    count: int = 3
    rate: float = 0.5
    name: str = "a"
    maybe: float | None = None
    choice: Literal["max", "mean"] = "max"
    sizes: tuple[int, ...] = (1, 2)
    late: float = field(default=0.5, metadata={"decode": True})


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("switch", "true", True),
        ("switch", "False", False),
        ("switch", True, True),
        ("count", "12", 12),
        ("count", "-2", -2),
        ("count", 12, 12),
        ("count", 12.0, 12),
        ("rate", "1e-3", 0.001),
        ("rate", "3", 3.0),
        ("rate", 3, 3.0),
        ("name", "true", "true"),
        ("name", "", ""),
        ("maybe", "none", None),
        ("maybe", "Null", None),
        ("maybe", None, None),
        ("maybe", "2", 2.0),
        ("choice", "mean", "mean"),
        ("sizes", "4,5", (4, 5)),
        ("sizes", [4, "5"], (4, 5)),
        ("sizes", "", ()),
    ],
)
def test_values_and_texts_that_spell_them(name: str, given: object, value: object) -> None:
    made = getattr(make("head", Every, {name: given}), name)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("switch", "maybe", "true or false"),
        ("switch", "1", "true or false"),
        ("switch", 1, "true or false"),
        ("switch", None, "true or false"),
        ("count", "3.5", "a whole number"),
        ("count", 3.5, "a whole number"),
        ("count", "many", "a whole number"),
        ("count", True, "a whole number"),
        ("count", float("inf"), "a whole number"),
        ("count", [3], "a whole number"),
        ("count", "9" * 5000, "a whole number"),
        ("rate", "nan", "a number"),
        ("rate", "inf", "a number"),
        ("rate", 10**400, "a number"),
        ("rate", "fast", "a number"),
        ("rate", False, "a number"),
        ("name", 3, "a text"),
        ("name", None, "a text"),
        ("maybe", "x", "a number"),
        ("choice", "min", "one of max, mean"),
        ("choice", 3, "one of max, mean"),
        ("choice", ["max"], "one of max, mean"),
        ("sizes", "1,x", "a whole number"),
        ("sizes", 3, "commas"),
    ],
)
def test_what_an_option_cannot_be_is_refused(name: str, given: object, says: str) -> None:
    with pytest.raises(InputError) as refused:
        make("head", Every, {name: given})
    assert str(refused.value).startswith(f"head.{name} cannot be ")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_none_is_no_value_of_an_option_that_needs_one() -> None:
    with pytest.raises(InputError, match=r"head\.rate cannot be 'none'; a number"):
        convert("head.rate", float, "none")


@pytest.mark.parametrize(
    ("section", "kind", "wrong", "hint"),
    [
        ("head", TaggerOptions, "crff", "did you mean head.crf?"),
        ("training", TrainingOptions, "epoch", "did you mean training.epochs?"),
        ("encoder", EncoderOptions, "lstm_layer", "did you mean encoder.lstm_layers?"),
        ("head", TaggerOptions, "xyz", "there are head.crf, head.tags, head.legal"),
    ],
)
def test_an_unknown_option_names_the_nearest(section: str, kind: type[Any], wrong: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        make(section, kind, {wrong: "1"})
    assert f"{section}.{wrong} is no option; {hint}" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("epochs", "0"), ("batch", "0"), ("accumulate", "0"), ("patience", "-1"), ("limit", "-1"), ("seed", "-1")),
        *(("decay", "-0.1"), ("head_lr", "-1"), ("encoder_lr", "-1"), ("clip", "0"), ("warmup", "1.1")),
        ("precision", "fp16"),
    ],
)
def test_training_options_have_bounds(name: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"training\.{name}"):
        make("training", TrainingOptions, {name: value})


def test_defaults_stand_where_nothing_is_given() -> None:
    assert make("training", TrainingOptions, {}) == TrainingOptions()
    assert make("encoder", EncoderOptions, {}) == EncoderOptions()
    assert make("head", TaggerOptions, {}) == TaggerOptions()


def test_sets_by_section_the_last_one_wins() -> None:
    sets = ["head.crf=true", "training.seed = 3", "training.seed=4", "encoder.name=a=b"]
    assert parse_sets(sets, SECTIONS) == {
        "encoder": {"name": "a=b"},
        "head": {"crf": "true"},
        "training": {"seed": "4"},
    }


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("crf=true", "section.option=value is expected"),
        ("head.crf", "section.option=value is expected"),
        ("head.=1", "section.option=value is expected"),
        ("trainig.epochs=3", "'trainig' is no section; did you mean training?"),
        ("quux.x=3", "'quux' is no section; there are encoder, head, training"),
    ],
)
def test_sets_that_name_nothing(assignment: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_sets([assignment], SECTIONS)
    assert says in str(refused.value)


def test_a_file_of_options(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[head]\ncrf = true\n[training]\nhead_lr = 1e-4\nepochs = 7\n")
    assert read_toml(file, SECTIONS) == {
        "encoder": {},
        "head": {"crf": True},
        "training": {"head_lr": 1e-4, "epochs": 7},
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[head\n", "not TOML"),
        (b"\xff\xfe", "cannot be read"),
        (b"[heads]\n", "[heads] is no section; did you mean head?"),
        (b"head = 3\n", "head must be a table, [head]"),
        (b"epochs = 3\n", "[epochs] is no section"),
    ],
)
def test_a_file_of_options_that_is_wrong(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_toml(file, SECTIONS)
    assert str(refused.value).startswith(f"{file}: ")
    assert says in str(refused.value)


def test_a_file_of_options_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_toml(tmp_path / "no.toml", SECTIONS)
    with pytest.raises(InputError, match="cannot be read"):
        read_toml(tmp_path, SECTIONS)


def test_a_trained_model_takes_options_of_decoding_alone() -> None:
    assert decode_options(TaggerOptions(crf=True), {"legal": "true"}) == TaggerOptions(crf=True, legal=True)
    assert decode_options(Every(count=5), {"late": "0.7"}) == Every(count=5, late=0.7)
    with pytest.raises(InputError, match=r"head\.crf was fixed in training; at prediction there are: head\.legal"):
        decode_options(TaggerOptions(), {"crf": "true"})
    with pytest.raises(InputError, match=r"head\.leagl is no option; did you mean head\.legal\?"):
        decode_options(TaggerOptions(), {"leagl": "true"})
    with pytest.raises(InputError, match="true or false"):
        decode_options(TaggerOptions(), {"legal": "perhaps"})


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (None, "none"), ((1, 2), "1,2"), (0.5, "0.5"), ("a", "a")])
def test_values_are_spelt_as_they_are_read(value: object, text: str) -> None:
    assert spelt(value) == text
    names = {"true": "switch", "none": "maybe", "1,2": "sizes", "0.5": "rate", "a": "name"}
    assert getattr(make("head", Every, {names[text]: text}), names[text]) == value
