"""Train a recogniser on a corpus: best on dev, resumable, ready to predict.

CORPUS is a folder with train.*, dev.* and test.* in any readable format, one file, a brat folder,
or a sample that comes with Spanloom (sample:flat, sample:nested, sample:mixed). test is not looked at, but
for its words where a file has vectors of words (encoder.word_vectors).

Options are named section.option; a preset holds a paper's values, or is a TOML file of your own
with tables [encoder], [head], [partner] and [training]. --set is the strongest. See them all: --options.

--bundle trains a second head on the same encoder, its partner; --alpha is the weight of the tagger's loss, the
other's is the rest (of two heads neither or both of which are taggers, it is the partner's). Each is kept at its
best: evaluate, predict and sweep decode with the partner when told --decode NAME.

examples
  spanloom train sample:flat --out runs/first
  spanloom train corpus --head tagger --set head.crf=true --seed 2 --epochs 5 --out runs/crf
  spanloom train corpus --head span --bundle tagger --alpha 0.1 --set partner.crf=true --out runs/bl
  spanloom train corpus --encoder bert-base-cased --set encoder.lstm=256 --preset mine.toml --out runs/b
  spanloom train --resume runs/b
  ACCELERATE_USE_CPU=true torchrun --nproc_per_node 2 -m spanloom train corpus --out runs/two
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Any

from spanloom.console import say
from spanloom.corpus import find_corpus
from spanloom.errors import InputError
from spanloom.options import parse_sets, spelt
from spanloom.runs import SECTIONS, check_bundle

FLAGS = ("epochs", "precision", "limit", "seed")
"""Options of training that have a flag of their own."""
HEAD = "tagger"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", nargs="?", help="what to learn from")
    parser.add_argument("--head", metavar="NAME", help=f"the family of heads (default: {HEAD})")
    parser.add_argument("--bundle", metavar="NAME", help="a second head, trained on the same encoder")
    parser.add_argument("--alpha", metavar="A", help="weight of the sequence side's loss in a bundle (default: 0.1)")
    parser.add_argument("--preset", metavar="NAME", help="a paper's values, or a .toml file")
    parser.add_argument("--encoder", metavar="NAME", help="a short name (minilm, mpnet), a folder, or a hub name")
    parser.add_argument("--epochs", metavar="N", help="times that all sentences are seen")
    parser.add_argument("--precision", metavar="P", help="auto, fp32 or bf16")
    parser.add_argument("--limit", metavar="N", help="the first N training sentences")
    parser.add_argument("--seed", metavar="N", help="equal seeds, equal weights")
    parser.add_argument("--set", metavar="S.O=V", action="append", default=[], help="section.option=value; repeatable")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="the folder of the run, to be made")
    parser.add_argument("--resume", metavar="FOLDER", type=Path, help="go on with a run that was stopped")
    parser.add_argument("--options", action="store_true", help="list the options of a head with their defaults")


def run(args: argparse.Namespace) -> int:
    if args.options:
        check_bundle(args.head or HEAD, args.bundle, args.alpha)
        _list_options(args.head or HEAD, args.preset, args.bundle)
        return 0
    if args.resume is not None:
        return _resume(args)
    if args.corpus is None or args.out is None:
        raise InputError("CORPUS and --out are needed (or --resume FOLDER); see spanloom train --help")
    corpus = find_corpus(args.corpus)
    if "train" not in corpus.splits:
        raise InputError("has no train split", args.corpus)
    folder: Path = args.out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists already; name another folder, or go on with --resume", folder)
    sets = parse_sets(args.set, SECTIONS)
    flags: dict[str, dict[str, Any]] = {"encoder": {}, "training": {}}
    if args.encoder is not None:
        flags["encoder"]["name"] = args.encoder
    for name in FLAGS:
        if getattr(args, name) is not None:
            flags["training"][name] = getattr(args, name)

    from spanloom.runs import resolve

    resolved = resolve(args.corpus, args.head or HEAD, args.preset, [flags, sets], args.bundle, args.alpha)

    from spanloom.encoder.language_models import locate

    locate(resolved.encoder.name)  # refuses a missing encoder before the libraries are loaded
    if resolved.encoder.vectors_file:
        from spanloom.encoder.word_vectors import check_file

        check_file(resolved.encoder.vectors_file)
    return _train(resolved, folder, resume=False)


def _resume(args: argparse.Namespace) -> int:
    further = {"CORPUS": args.corpus, "--set": args.set or None}
    further |= {
        f"--{name}": getattr(args, name) for name in (*FLAGS, "out", "preset", "encoder", "head", "bundle", "alpha")
    }
    given = [name for name, value in further.items() if value is not None]
    if given:
        raise InputError(f"--resume goes on with what was decided at the start; leave out {', '.join(given)}")

    from spanloom.runs import is_finished, read_run

    resolved = read_run(args.resume)
    if is_finished(args.resume):
        say(f"{args.resume} is finished; nothing is left to do")
        return 0
    return _train(resolved, args.resume, resume=True)


def _train(resolved: Any, folder: Path, resume: bool) -> int:
    from spanloom.training import train

    progress = train(resolved, folder, resume)
    if int(os.environ.get("RANK", "0")):  # of several processes the first speaks
        return 0
    heads: list[str] = list(resolved.weights)
    for name, best in zip(heads, progress.bests, strict=False):
        if best.best_f1 >= 0:
            of = f" of {name}" if len(heads) > 1 else ""
            say(f"best{of}: epoch {best.best_epoch}, dev F1 {best.best_f1:.2f}")
    say(f"{folder} holds the model; next: spanloom predict {folder} YOUR-TEXT.txt")
    for partner in heads[1:]:
        say(f"it holds that of {partner}, too: spanloom predict {folder} YOUR-TEXT.txt --decode {partner}")
    return 0


def _list_options(head: str, preset: str | None, partner: str | None) -> None:
    """Every option with the value that it would have."""
    from spanloom.encoder.options import EncoderOptions
    from spanloom.heads import family_of
    from spanloom.options import TrainingOptions
    from spanloom.runs import resolve

    family = family_of(head)
    kinds: dict[str, type[Any]] = {"encoder": EncoderOptions, "head": family.options, "training": TrainingOptions}
    if partner is not None:
        kinds["partner"] = family_of(partner).options
    values = resolve("sample:flat", head, preset, [], partner).as_dict()["options"]
    for section, options in values.items():
        for option in dataclasses.fields(kinds[section]):
            name = f"{section}.{option.name}={spelt(options[option.name])}"
            print(f"{name:32}  {option.metadata.get('help', '')}")
    print(f"presets of {head}: {', '.join(family.presets) or 'none'}")
