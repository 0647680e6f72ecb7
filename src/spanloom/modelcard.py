"""The README of a model folder: what it finds, how it was made, how good it is, how to use it."""

from __future__ import annotations

import json
from pathlib import Path

from spanloom.checkpoint import Progress
from spanloom.model import SpanloomModel
from spanloom.options import spelt
from spanloom.runs import Run

RAW_TEXT = """```python
import spanloom

ner = spanloom.load("this/folder")
for entity in ner("...").entities:
    print(entity.type, entity.fragments, entity.score)
```"""
WITH_TAGS = """It was trained with part-of-speech tags, and reads words that come with theirs (`"pos"`, a tag a word):

    spanloom predict this/folder words.jsonl"""


def model_card(run: Run, model: SpanloomModel, progress: Progress, output: str | None = None) -> str:
    """A model card in Markdown, with the head that model hubs read. `output` is the run's partner, or its own head."""
    output = output or run.head
    is_host = output == run.head
    best = progress if is_host else progress.partner
    shapes = ", ".join(
        shape for shape in ("flat", "nested", "overlapping", "discontinuous") if shape in model.scheme.shapes
    )
    options = [
        f"{section}.{name}={_bare(spelt(value)) if name == 'word_vectors' else spelt(value)}"
        for section, values in run.as_dict()["options"].items()
        for name, value in values.items()
    ]
    sets = " ".join(f"--set {option}" for option in options if not option.startswith("encoder.name"))
    corpus, encoder = _bare(run.corpus), _bare(run.encoder.name)
    rows, chosen = [], ""
    for epoch in progress.curve:
        told = epoch if is_host else epoch["outputs"][output]
        dev = told["dev"]
        if epoch["epoch"] == best.best_epoch and "chosen" in told:
            values = ", ".join(f"`head.{name}={value:g}`" for name, value in told["chosen"].items())
            chosen = f"\n{values} gave the best of these scores on dev, and was kept for that: they flatter a little.\n"
        scores = [f"{dev[name]:.2f}" for name in ("precision", "recall", "f1")] if dev else ["", "", ""]
        rows.append(f"| {epoch['epoch']} | {epoch['loss']:.4f} | {' | '.join(scores)} | {epoch['seconds']:.0f} |")
    kept = f"the model of epoch {best.best_epoch}" + (", the best on dev" if best.best_f1 >= 0 else ", the last")
    size = sum(weight.numel() for weight in model.parameters())
    versions = ", ".join(f"{name} {version}" for name, version in model.config.versions.items())
    return f"""---
library_name: spanloom
pipeline_tag: token-classification
tags: [spanloom, named-entity-recognition]
---

# {output} on {corpus}

Finds {shapes} entities of {len(model.config.types)} types: {", ".join(map(_quoted, model.config.types))}.

{RAW_TEXT if not run.encoder.pos else WITH_TAGS}

## How good it is

Strict micro scores on the dev split, in percent; kept is {kept}.

| epoch | loss | precision | recall | F1 | seconds |
|---|---|---|---|---|---|
{chr(10).join(rows)}

They come from the corpus it was trained on, and say little about other text: measure on your own.
{chosen}
## How it was made

    spanloom train {corpus} --head {run.head}{_bundled(run)} --encoder {encoder} {sets} --out FOLDER

{_together(run, output)}Encoder: `{encoder}` ({size / 1e6:.1f} M parameters in all).
Made with {versions}.
"""


def _bundled(run: Run) -> str:
    return f" --bundle {run.partner.head} --alpha {spelt(run.partner.alpha)}" if run.partner else ""


def _together(run: Run, output: str) -> str:
    """What was trained with what, where a run had two heads."""
    if run.partner is None:
        return ""
    host, partner = run.head, run.partner.head
    if partner not in run.weights:
        return f"`{partner}` weighed nothing, and was not trained.\n\n"
    weights = " and ".join(f"{weight:g} of `{name}`" for name, weight in run.weights.items())
    there = (
        f'`outputs/{partner}` holds that of `{partner}`: `spanloom.load("this/folder", "{partner}")`'
        if output == host
        else f"that of `{host}` lies in the folder that this one came with"
    )
    return (
        f"`{host}` and `{partner}` were trained together on one encoder, alpha {run.partner.alpha:g}, seed "
        f"{run.training.seed}: the loss is {weights}. Here is the model of `{output}` at its best; {there}.\n\n"
    )


def _bare(place: str) -> str:
    """The name of a folder or file, without where it lay on somebody's machine; a hub's name as it is."""
    return Path(place).name if Path(place).is_absolute() else place


def _quoted(type: str) -> str:
    """A type that Markdown would break or take for its own, as JSON spells it."""
    return type if type.isprintable() and not set(type) & set("`*|<>[]") else json.dumps(type).replace("`", "\\`")
