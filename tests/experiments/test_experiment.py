"""`spanloom experiment`, as a user runs it: killed, gone on with, and never doing a run twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from spanloom import formats
from spanloom.errors import InputError, Tally
from spanloom.experiments.experiment import append_record, read_records
from tests import engine
from tests.conftest import ENTRY, Run

ALONE = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def plan(folder: Path, seeds: str = "[1, 2]", more: str = "") -> Path:
    file = folder / "plan.toml"
    file.write_text(
        f"""
corpora = ["{engine.corpus()}"]
seeds = {seeds}
baseline = "softmax"
[options]
encoder = {{ name = "{engine.encoder()}" }}
training = {{ epochs = 2, limit = 20, batch = 4, precision = "fp32" }}
[systems.softmax]
head = "tagger"
{more}
"""
    )
    return file


CRF = '[systems.crf]\nhead = "tagger"\noptions = { head = { crf = true } }\n'


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


def test_a_killed_experiment_goes_on_and_repeats_nothing(spanloom: Run, tmp_path: Path) -> None:
    command = [str(ENTRY), "experiment", str(plan(tmp_path)), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, env={**os.environ, **ALONE}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    runs, state = tmp_path / "out" / "runs.jsonl", tmp_path / "out" / "working"
    limit = time.monotonic() + 120
    # one run is done, and of the other an epoch
    while not (runs.exists() and runs.stat().st_size and list(state.glob("*/state"))):
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        assert time.monotonic() < limit
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first = runs.read_bytes()
    assert first.count(b"\n") == 1
    runs.write_bytes(first + b'{"cut off')  # as a kill would leave it

    went_on = spanloom("experiment", plan(tmp_path, more=CRF), "--out", "out", **ALONE)
    assert went_on.returncode == 0, went_on.stderr
    assert "4 runs, 1 of them done" in went_on.stderr
    assert runs.read_bytes().startswith(first)
    done = lines(tmp_path / "out")
    found = sorted((each["system"], each["seed"]) for each in done)
    assert found == [("crf", 1), ("crf", 2), ("softmax", 1), ("softmax", 2)]
    assert not list(state.glob("*"))  # no models are left
    assert (tmp_path / "out" / "table.md").read_text() == went_on.stdout
    assert "| softmax | 1 2 |" in went_on.stdout

    again = spanloom("experiment", plan(tmp_path, more=CRF), "--out", "out", **ALONE)
    assert (again.returncode, again.stdout) == (0, went_on.stdout)
    assert "4 runs, 4 of them done" in again.stderr
    assert lines(tmp_path / "out") == done


def test_what_was_predicted_scores_as_told(spanloom: Run, tmp_path: Path) -> None:
    made = spanloom("experiment", plan(tmp_path, "[1]"), "--out", "out", "--keep-models", **ALONE)
    assert made.returncode == 0, made.stderr
    (run,) = lines(tmp_path / "out")
    predictions = tmp_path / "out" / "predictions" / run["predictions"]
    assert len(list(formats.read(predictions, Tally()))) == len(engine.documents("test"))
    scored = spanloom("evaluate", engine.corpus() / "test.jsonl", predictions, "--json")
    assert json.loads(scored.stdout)["micro"] == run["scores"]["micro"]
    (model,) = (tmp_path / "out" / "working").iterdir()
    scored = spanloom("evaluate", model, engine.corpus() / "test.jsonl", "--precision", "fp32", "--json")
    assert json.loads(scored.stdout)["micro"] == run["scores"]["micro"]


BUNDLE = """[systems.host]
head = "span"
bundle = "tagger"
partner_name = "partner"
options = { head = { max_length = 3 } }
"""


def test_a_bundle_is_trained_once_and_gives_two_rows(spanloom: Run, tmp_path: Path) -> None:
    """Stopped between them, it goes on with the second."""
    ran = spanloom("experiment", plan(tmp_path, "[1]", BUNDLE), "--out", "out", **ALONE)
    assert ran.returncode == 0, ran.stderr
    assert "3 runs, 0 of them done" in ran.stderr
    assert ran.stderr.count("epoch 1/2  loss") == 2
    assert not list((tmp_path / "out" / "working").glob("*"))
    rows = [line.split(" | ")[1] for line in ran.stdout.splitlines()[2:5]]
    assert rows == ["softmax", "host", "partner"]
    done = {each["system"]: each for each in lines(tmp_path / "out")}
    assert (done["host"].get("decode"), done["partner"]["decode"]) == (None, "tagger")
    assert done["host"]["bundle"] == done["partner"]["bundle"] == "tagger"
    assert done["host"]["predictions"] != done["partner"]["predictions"]

    runs = tmp_path / "out" / "runs.jsonl"
    whole = runs.read_bytes()
    runs.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    again = spanloom("experiment", plan(tmp_path, "[1]", BUNDLE), "--out", "out", **ALONE)
    assert again.returncode == 0, again.stderr
    assert "3 runs, 2 of them done" in again.stderr
    assert again.stdout.count("\n") == ran.stdout.count("\n")
    scores = [each["scores"]["micro"] for each in lines(tmp_path / "out")]
    assert scores == [each["scores"]["micro"] for each in done.values()]
    assert again.stdout.splitlines()[4].split(" | ")[-3:] == ran.stdout.splitlines()[4].split(" | ")[-3:]


def test_a_folder_of_something_else_is_left_alone(spanloom: Run, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    refused = spanloom("experiment", plan(tmp_path), "--out", "out")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "is not the folder of an experiment" in refused.stderr
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_a_wrong_plan_leaves_nothing_behind(spanloom: Run, tmp_path: Path) -> None:
    refused = spanloom("experiment", plan(tmp_path, more=CRF.replace("crf = true", "crff = true")), "--out", "out")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "plan.toml: system crf: head.crff is no option; did you mean head.crf?" in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_is_told_and_the_others_are_done(spanloom: Run, tmp_path: Path) -> None:
    wild = '[systems.wild]\nhead = "tagger"\noptions = { training = { encoder_lr = 1e30, head_lr = 1e30 } }\n'
    ran = spanloom("experiment", plan(tmp_path, "[1]", wild), "--out", "out", **ALONE)
    assert ran.returncode == 1
    assert "1 of 2 runs failed; the table lacks them: wild on corpus, seed 1: the loss is not finite" in ran.stderr
    assert [each["system"] for each in lines(tmp_path / "out")] == ["softmax"]


def test_a_bundle_that_fails_is_tried_once(spanloom: Run, tmp_path: Path) -> None:
    wild = BUNDLE.replace("head = { max", "training = { encoder_lr = 1e30, head_lr = 1e30 }, head = { max")
    ran = spanloom(
        "experiment", plan(tmp_path, "[1]", wild), "--out", "out", "--only", "host", "--only", "partner", **ALONE
    )
    assert ran.returncode == 1
    assert "2 of 2 runs failed; the table lacks them: host on corpus, seed 1: the loss is not finite" in ran.stderr
    assert "partner on corpus, seed 1: it is the partner of host" in ran.stderr
    assert ran.stderr.count("failed: the loss") == 1


@pytest.mark.parametrize("line", ["{", "7", '{"system": "a"}'])
def test_a_damaged_line_is_told_with_its_number(line: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    append_record(file, {"system": "a", "corpus": "c", "scores": {}, "options": {}})
    with file.open("a") as lines:
        lines.write(line + "\n")
    with pytest.raises(InputError, match=r"runs\.jsonl:2: .*; remove the line"):
        read_records(file)
