"""An experiment: a plan of trainings, each done once, and one table of what they gave.

What lies in its folder:

    plan.toml       the plan as it was run last
    runs.jsonl      a line a run: what it was, scores, seconds; a bundle is two, of one training
    predictions/    what each run found in the split that is scored, as lines of text with fragments
    table.md        the table
    working/        the run that is on its way, to be resumed; with `keep_models` also those that are done
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from spanloom import formats
from spanloom.console import say
from spanloom.corpus import find_corpus
from spanloom.document import Document
from spanloom.errors import InputError, Tally, WorkFailed
from spanloom.evaluation.compare import compare
from spanloom.experiments.plan import Plan, Trial
from spanloom.experiments.table import Record, table
from spanloom.formats.files import replacing
from spanloom.runs import CURVE, RUN, is_finished

RUNS, PLAN, TABLE, WORKING, PREDICTIONS = "runs.jsonl", "plan.toml", "table.md", "working", "predictions"


class Experiment:
    """A plan and its folder: what has been done, and what is left to do."""

    def __init__(self, plan: Plan, folder: Path, keep_models: bool = False) -> None:
        self.plan, self.folder, self.keep_models = plan, folder, keep_models
        (folder / PREDICTIONS).mkdir(parents=True, exist_ok=True)
        (folder / PLAN).write_bytes(plan.file.read_bytes())  # which may be the same file
        self.done = read_records(folder / RUNS)

    def record_of(self, trial: Trial) -> Record | None:
        """What a training gave; None if it has not been done. Records of earlier versions do not tell their data."""
        wanted = {"bundle": None, "alpha": None, "decode": None, **trial.identity}
        for record in self.done:
            same = all(record.get(name) == value for name, value in wanted.items())
            if same and record.get("data", trial.data) == trial.data:
                return {**record, "system": trial.system}
        return None

    def run(self) -> str:
        """Does what is left to do, and gives the table."""
        left = [trial for trial in self.plan.trials if self.record_of(trial) is None]
        say(f"{len(self.plan.trials)} runs, {len(self.plan.trials) - len(left)} of them done")
        failed, broken = [], set()
        for number, trial in enumerate(left, 1):
            if self.record_of(trial) is not None:  # two systems may turn out to be one
                continue
            told = f"{trial.system} on {trial.corpus}, seed {trial.seed}"
            if trial.training in broken:
                failed.append(f"{told}: it is the partner of {trial.partner_of}")
                continue
            say(f"run {number} of {len(left)}: {told}")
            try:
                record = self._do(trial)
            except WorkFailed as error:
                failed.append(f"{told}: {error}")
                broken.add(trial.training)
                say(f"failed: {error}")
                continue
            micro = record["scores"]["micro"]
            say(f"  {trial.split} P {micro['precision']:.2f} R {micro['recall']:.2f} F1 {micro['f1']:.2f}")
            self._write_table()
        text = self._write_table()
        if failed:
            raise WorkFailed(f"{len(failed)} of {len(left)} runs failed; the table lacks them: {'; '.join(failed)}")
        return text

    def _do(self, trial: Trial) -> Record:
        """Trains, from wherever it was stopped, predicts, scores, and notes it down."""
        from spanloom.predictor import load
        from spanloom.training import train

        working = self.folder / WORKING / trial.training
        began = time.perf_counter()
        if not is_finished(working):
            started = (working / RUN).is_file()
            if not started:  # stopped before it had decided anything
                shutil.rmtree(working, ignore_errors=True)
            train(trial.run, working, resume=started)
        curve = [json.loads(line) for line in (working / CURVE).read_text(encoding="utf-8").splitlines()]
        tally = Tally()
        predictions = self.folder / PREDICTIONS / f"{trial.name}.jsonl"
        ner = load(working, trial.decode, precision=trial.run.training.precision)
        began_scoring = time.perf_counter()
        formats.write(ner.documents(self._gold(trial, tally)), predictions, "fragments", tally)
        scored = time.perf_counter() - began_scoring
        found = compare(self._gold(trial, Tally()), formats.read(predictions, Tally()), trial.corpus, str(predictions))
        told = [epoch["outputs"][trial.decode] if trial.decode else epoch for epoch in curve]
        dev = [epoch["dev"]["f1"] for epoch in told if epoch["dev"]]
        tally.update(ner.lost)
        record: Record = {
            "system": trial.system,
            "seed": trial.seed,
            **trial.identity,
            "data": trial.data,
            "preset": trial.run.preset,
            "dev_f1": max(dev) if dev else None,
            "scores": found.as_dict(tally.counts, scored),
            "lost_in_training": told[0]["lost"],
            "epochs": len(curve),
            "sentences_per_second": [epoch["sentences_per_second"] for epoch in curve],
            "seconds": round(time.perf_counter() - began, 1),
            "versions": ner.model.config.versions,
            "predictions": predictions.name,
        }
        append_record(self.folder / RUNS, record)
        self.done.append(record)
        waiting = (each for each in self.plan.trials if each.training == trial.training)
        if not self.keep_models and all(self.record_of(each) for each in waiting):
            shutil.rmtree(working)
        return record

    def _gold(self, trial: Trial, tally: Tally) -> Iterator[Document]:
        return find_corpus(trial.run.corpus).documents(trial.split, tally)

    def _write_table(self) -> str:
        """The table of all that is done."""
        records = [record for trial in self.plan.trials if (record := self.record_of(trial)) is not None]
        corpora = {trial.corpus: trial for trial in self.plan.trials}

        def gold(corpus: str) -> Iterator[Document]:
            return self._gold(corpora[corpus], Tally())

        def found(record: Record) -> Iterator[Document]:
            return formats.read(self.folder / PREDICTIONS / record["predictions"], Tally())

        text = table(records, self.plan.baseline, gold, found, self.plan.lengths)
        with replacing(self.folder / TABLE) as file:
            file.write(text)
        return text


def read_records(file: Path) -> list[Record]:
    """The runs that are done. A last line that was cut off by a kill is no run."""
    if not file.exists():
        return []
    lines = file.read_bytes().split(b"\n")
    if lines[-1]:
        with file.open("r+b") as cut:
            cut.truncate(sum(len(line) + 1 for line in lines[:-1]))
    records: list[Record] = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or not {"system", "corpus", "scores", "options"} <= record.keys():
                raise ValueError("not a run")
        except ValueError as error:
            raise InputError(f"{error}; remove the line, and its run is done again", file, number) from None
        records.append(record)
    return records


def append_record(file: Path, record: Record) -> None:
    """One line, on the disk before anything that led to it is removed."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        lines.flush()
        os.fsync(lines.fileno())
