"""Train a grid of systems over corpora and seeds, score them all, and put them into one table.

PLAN is a TOML file; paths in it start from its own folder. A run that is done is not done again, and
one that was stopped goes on where it was: the same command once more is all that is needed. The
folder holds a line of JSON a run (runs.jsonl), what each run predicted, and the table (table.md),
which is also printed.

a plan
  corpora = ["corpora/wnut17", "sample:flat"]
  seeds = [1, 2, 3]
  baseline = "tagger"                    # what the others are compared with
  [options]                              # of every run
  training = { epochs = 3, limit = 2000 }
  [systems.tagger]
  head = "tagger"
  [systems.span]
  head = "span"
  grid = { head = { representation = ["boundary", "pooling", "hybrid"] } }
  [systems.BL-SpanNER]
  head = "span"
  bundle = "tagger"                      # trained once, two rows
  partner_name = "BL-SeqNER"
  grid = { alpha = [0.1, 0.5] }          # or alpha = 0.1

examples
  spanloom experiment plan.toml --out experiments/first
  spanloom experiment plan.toml --out experiments/first --only tagger
  spanloom experiment plan.toml --out experiments/first --keep-models
"""

from __future__ import annotations

import argparse
from pathlib import Path

from spanloom.errors import InputError
from spanloom.formats.files import can_write


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN.toml", type=Path, help="what is to be trained")
    parser.add_argument("--out", metavar="FOLDER", type=Path, required=True, help="where results go, new or to go on")
    parser.add_argument("--only", metavar="SYSTEM", action="append", help="this system alone; repeatable")
    parser.add_argument("--keep-models", action="store_true", help="keep the trained models (in FOLDER/working)")


def run(args: argparse.Namespace) -> int:
    can_write(args.out.resolve(), folder=True)
    if args.out.is_dir() and any(args.out.iterdir()) and not (args.out / "plan.toml").exists():
        raise InputError("is not the folder of an experiment; name another, or an empty one", args.out)

    from spanloom.experiments.experiment import Experiment
    from spanloom.experiments.plan import only, read_plan

    plan = read_plan(args.plan)
    if args.only:
        plan = only(plan, args.only)
    print(Experiment(plan, args.out, args.keep_models).run(), end="")
    return 0
