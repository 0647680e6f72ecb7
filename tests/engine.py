"""A small corpus, a tiny language model and a trained model that the tests of the engine share."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from spanloom import align, formats
from spanloom.checkpoint import Progress
from spanloom.document import Document, Sentence
from spanloom.encoder.options import EncoderOptions
from spanloom.errors import Tally
from spanloom.model import SpanloomModel, new_model
from spanloom.runs import Run, resolve
from spanloom.samples import generate
from spanloom.segment import Segmenter
from spanloom.training import save_model, train
from tests.encoder import tiny

TEXT = "The patient has severe pain in the left knee. Aspirin was stopped by Dr Ångström in 北京!"
QUICK = {"encoder_lr": 3e-3, "head_lr": 1e-2, "precision": "fp32", "batch": 4}
"""Learning rates that a tiny random language model learns with."""


def sentences(split: str = "train") -> list[Sentence]:
    return [sentence for document in documents(split) for sentence in align.sentences(document, Tally())]


@cache
def root() -> Path:
    """A folder that is gone when the tests are over."""
    folder = Path(tempfile.mkdtemp(prefix="spanloom-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def documents(split: str = "train") -> tuple[Document, ...]:
    return tuple(generate("flat", 86, 1)[split])


def write(path: Path, documents: Iterable[Document]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    formats.write(documents, path, "words", Tally())
    return path


@cache
def corpus() -> Path:
    """60 flat sentences to learn from, 13 in dev and test. Not to be changed."""
    for split in ("train", "dev", "test"):
        write(root() / "corpus" / f"{split}.jsonl", documents(split))
    return root() / "corpus"


@cache
def tagged() -> Path:
    """The corpus with a part-of-speech tag a word."""
    for split in ("train", "dev", "test"):
        write(root() / "tagged" / f"{split}.jsonl", [with_tags(document) for document in documents(split)])
    return root() / "tagged"


def tags_of(words: Iterable[str]) -> tuple[str, ...]:
    """Parts of speech of a kind."""
    return tuple("CD" if word.isdigit() else "NNP" if word.istitle() else "XN"[len(word) > 4] for word in words)


def with_tags(document: Document) -> Document:
    assert document.words is not None
    pos = [tags_of(document.text[start:end] for start, end in spans) for spans in document.words]
    return replace(document, pos=tuple(pos))


@cache
def vectors() -> Path:
    """A file of word vectors of length 7: every second word of the corpus, some in lower case, and some others."""
    words = sorted({word for sentence in sentences() for word in sentence.words})
    lines = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        for at, word in enumerate([*words[::2], "unseen", ". . ."]):
            numbers = " ".join(f"{number:.4f}" for number in torch.randn(7).tolist())
            lines.append(f"{word.lower() if at % 3 else word} {numbers}\n")
    (root() / "vectors.txt").write_text("".join(lines))
    return root() / "vectors.txt"


@cache
def only_train() -> Path:
    """The same without dev and test."""
    write(root() / "only" / "train.jsonl", documents())
    return root() / "only"


@cache
def encoder(kind: str = "bert", dropout: bool = True) -> Path:
    """A tiny language model that knows the words of the corpus. Not to be changed."""
    folder = tiny.save(kind, root() / f"{kind}-{dropout}", [TEXT, *(document.text for document in documents())])
    if not dropout:
        config = json.loads((folder / "config.json").read_text())
        config |= {name: 0.0 for name in config if name.endswith(("dropout", "dropout_prob"))}
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def run_of(
    encoder_options: Mapping[str, Any] | None = None,
    head: Mapping[str, Any] | None = None,
    of: Path | None = None,
    family: str = "tagger",
    bundle: str | None = None,
    alpha: float | None = None,
    partner: Mapping[str, Any] | None = None,
    **training: Any,
) -> Run:
    given = {
        "encoder": {"name": str(encoder()), "dropout": 0.0, **(encoder_options or {})},
        "head": dict(head or {}),
        "partner": dict(partner or {}),
        "training": {**QUICK, **training},
    }
    return resolve(str(of or corpus()), family, None, [given], bundle, alpha)


def trained(folder: Path, *args: Any, resume: bool = False, **kwargs: Any) -> Progress:
    """Trains into a folder what `run_of` describes."""
    return train(run_of(*args, **kwargs), folder, resume)


@cache
def model_folder() -> Path:
    """A small trained model that knows its first 20 training sentences. Not to be changed."""
    trained(root() / "model", epochs=40, of=only_train(), limit=20, head_lr=3e-2)
    return root() / "model"


@cache
def every_shape() -> Path:
    """A grid model that knows its 24 training sentences, mentions of every shape among them. Not to be changed.

    What it was trained on lies beside it: `root() / "mixed" / "train.jsonl"`.
    """
    found = generate("mixed", 86, 3)["train"]
    write(root() / "mixed" / "train.jsonl", found)
    trained(
        root() / "every-shape",
        *({"name": str(encoder())}, {"dropout": 0.0, "channel_dropout": 0.0}, root() / "mixed", "w2ner"),
        epochs=60,
        limit=24,
        head_lr=5e-3,
    )
    return root() / "every-shape"


def untrained(
    folder: Path, kind: str, head: Mapping[str, Any] | None = None, family: str = "tagger", **options: Any
) -> SpanloomModel:
    """Saves a model whose head has large random weights, so that it finds a lot."""
    resolved = run_of({"name": str(encoder(kind)), **options}, head, family=family)
    encoder_options: EncoderOptions = resolved.encoder
    model, tokenizer = new_model(
        *(family, resolved.head_options, encoder_options, ["Drug", "Name of a place", "O-X"]),
        [replace(sentence, pos=tags_of(sentence.words)) for sentence in sentences()],
        *(Segmenter(), 3),
    )
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        for weight in model.head.parameters():
            if weight.dim() > 1:  # large, but not so much that the digits of a deep head get lost
                torch.nn.init.xavier_normal_(weight, 4.0)
    save_model(model, tokenizer, folder)
    model.train(False)
    return model
