"""Training: it learns, it repeats itself to the bit, and it goes on from wherever it was stopped."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import spanloom
from spanloom import training
from spanloom.checkpoint import Progress, load_state
from spanloom.cli import main
from spanloom.document import Document, Mention, Sentence
from spanloom.errors import InputError, WorkFailed
from spanloom.evaluation.metric import Score
from spanloom.heads.base import Part
from spanloom.segment import Segmenter
from spanloom.training import Trainer, read_split, score, seed_of, set_rates, total_loss
from tests import engine
from tests.conftest import ENTRY, Run

MODEL = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md", "training"}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def curve(folder: Path) -> list[dict[str, Any]]:
    """The curve but for what depends on the clock."""
    lines = (folder / "training" / "curve.jsonl").read_text().splitlines()
    timeless = [json.loads(line) for line in lines]
    return [{k: v for k, v in each.items() if k not in ("seconds", "sentences_per_second")} for each in timeless]


def on_its_own(folder: Path, sentences: int) -> Score:
    """The scores on what it was trained on."""
    gold = read_split(str(engine.only_train()), "train", Segmenter())
    assert gold is not None
    return score(spanloom.load(folder, precision="fp32"), gold[:sentences]).micro


# learning


@pytest.mark.parametrize("crf", [False, True])
def test_it_learns_twenty_sentences(crf: bool, tmp_path: Path) -> None:
    progress = engine.trained(tmp_path, None, {"crf": crf}, of=engine.only_train(), epochs=40, limit=20, head_lr=3e-2)
    assert progress.curve[-1]["loss"] < 0.1 * progress.curve[0]["loss"]
    assert on_its_own(tmp_path, 20).f1 > 95


def test_the_folder_holds_what_a_run_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = engine.trained(tmp_path / "run", None, {"crf": "true"}, epochs=2, seed=3)
    folder = tmp_path / "run"
    assert {file.name for file in folder.iterdir()} == MODEL  # and no state
    assert {file.name for file in (folder / "training").iterdir()} == {"run.json", "curve.jsonl"}
    run = json.loads((folder / "training" / "run.json").read_text())
    assert run["options"]["training"]["seed"] == 3
    assert run["options"]["head"] == {"crf": True, "tags": "bio", "legal": False}
    assert run["corpus"] == str(engine.corpus())
    lines = [json.loads(line) for line in (folder / "training" / "curve.jsonl").read_text().splitlines()]
    assert lines == progress.curve
    assert [line["epoch"] for line in lines] == [1, 2]
    assert lines[0].keys() == {
        *("epoch", "step", "loss", "seconds", "sentences_per_second", "processes", "lost", "dev"),
    }
    assert {"precision", "recall", "f1"} <= lines[0]["dev"].keys()
    assert lines[0]["processes"] == 1
    card = (folder / "README.md").read_text()
    for said in (
        "library_name: spanloom",
        "head.crf=true",
        "training.seed=3",
        "spanloom.load",
        "transformers 5",
        "| 2 |",
    ):
        assert said in card
    assert "epoch 2/2  loss " in capsys.readouterr().err


def test_the_best_on_dev_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dev says that the second of four epochs is best: its weights are those of two epochs with the same rates."""
    saved: list[bytes] = []
    real = training.save_model

    def noting(model: Any, tokenizer: Any, folder: Path) -> None:
        real(model, tokenizer, folder)
        saved.append(weights(folder))

    said = iter([10, 40, 30, 20])
    monkeypatch.setattr(training, "save_model", noting)
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(next(said)))])
    progress = engine.trained(tmp_path, epochs=4, limit=8)
    assert (progress.best_epoch, progress.best_f1) == (2, 40)
    assert len(saved) == 2
    assert weights(tmp_path) == saved[1] != saved[0]
    assert "the model of epoch 2, the best on dev" in (tmp_path / "README.md").read_text()


def fake_result(f1: float) -> Any:
    class Result:
        class micro:  # noqa: N801
            precision = recall = f1

            @staticmethod
            def as_dict() -> dict[str, float]:
                return {"precision": f1, "recall": f1, "f1": f1}

    Result.micro.f1 = f1  # type: ignore[attr-defined]
    return Result


def test_patience_ends_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = iter([10, 40, 30, 20, 50])
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(next(said)))])
    progress = engine.trained(tmp_path, epochs=9, limit=8, patience=2)
    assert (progress.epoch, progress.best_epoch) == (4, 2)
    assert len(curve(tmp_path)) == 4
    assert "no better dev F1 for 2 epochs: stopped" in capsys.readouterr().err


def test_of_epochs_in_which_nothing_is_found_the_last_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = iter([0, 0, 0])
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(next(said)))])
    progress = engine.trained(tmp_path, epochs=3, limit=8)
    assert (progress.best_epoch, progress.best_f1) == (3, 0)


def test_a_dev_without_entities_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = [replace(document, entities=()) for document in engine.documents("dev")]
    engine.write(tmp_path / "corpus" / "dev.jsonl", bare)
    engine.write(tmp_path / "corpus" / "train.jsonl", engine.documents())
    progress = engine.trained(tmp_path / "run", of=tmp_path / "corpus", epochs=2, limit=8)
    assert (progress.epoch, progress.best_epoch) == (2, 2)
    assert "dev holds no entities: the model of the last epoch is kept" in capsys.readouterr().err


def test_without_dev_the_last_epoch_is_kept_and_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = engine.trained(tmp_path, of=engine.only_train(), epochs=3, limit=8, patience=1)
    assert (progress.epoch, progress.best_epoch) == (3, 3)
    err = capsys.readouterr().err
    assert err.count("no dev split: the model of the last epoch is kept, and nothing stops early") == 1
    assert {line["dev"] for line in curve(tmp_path)} == {None}
    assert "the model of epoch 3, the last" in (tmp_path / "README.md").read_text()


# the same again


def test_equal_seeds_give_equal_weights(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    for name, seed in zip(names, (1, 1, 2), strict=True):
        torch.manual_seed(len(name) + seed)  # what was drawn before does not matter
        engine.trained(tmp_path / name, {"dropout": 0.2, "lstm": 8}, {"crf": True}, epochs=2, limit=24, seed=seed)
    a, b, c = (weights(tmp_path / name) for name in names)
    assert a == b
    assert a != c
    assert curve(tmp_path / "a") == curve(tmp_path / "b") != curve(tmp_path / "c")


def test_seeds_depend_on_every_part() -> None:
    seeds = {seed_of(*parts) for parts in [(1, 2, 3), (1, 2, 4), (1, 23), (12, 3), ("1", 2, 3)]}
    assert len(seeds) == 5
    assert seed_of(1, "tagger") == seed_of(1, "tagger")
    assert all(0 <= seed < 2**56 for seed in seeds)


def test_the_training_does_not_disturb_the_caller(tmp_path: Path) -> None:
    """Precisions may change from one training to the next in one process."""
    engine.trained(tmp_path / "a", epochs=1, limit=8, precision="bf16")
    engine.trained(tmp_path / "b", epochs=1, limit=8, precision="fp32")
    assert weights(tmp_path / "a") != weights(tmp_path / "b")
    assert all(math.isfinite(line["loss"]) for line in curve(tmp_path / "a"))


# the options


def test_accumulated_batches_make_one_step(tmp_path: Path) -> None:
    """Sentences of one length: two batches of four are one of eight, in one step."""
    words = ["left", "knee", "pain", "and", "fever", "today"]
    documents = [engine.documents()[0]]
    from spanloom.align import WordSentence, from_words

    documents = [
        from_words(str(i), [WordSentence([*words[i % 6 :], *words[: i % 6]], [Mention("X", (i % 6,))])])
        for i in range(16)
    ]
    engine.write(tmp_path / "c" / "train.jsonl", documents)
    options: dict[str, Any] = {"name": str(engine.encoder(dropout=False))}

    def trained(name: str, **given: Any) -> dict[str, torch.Tensor]:
        engine.trained(tmp_path / name, options, of=tmp_path / "c", epochs=1, **given)
        return load_file(tmp_path / name / "model.safetensors")

    # all sentences in one step, so that the order in which they come does not matter
    whole, parts = trained("whole", batch=16), trained("parts", batch=4, accumulate=4)
    assert curve(tmp_path / "whole")[0]["step"] == curve(tmp_path / "parts")[0]["step"] == 1
    assert curve(tmp_path / "whole")[0]["loss"] == pytest.approx(curve(tmp_path / "parts")[0]["loss"], rel=1e-5)
    for name, tensor in whole.items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which Adam makes large
            assert torch.allclose(tensor, parts[name], atol=1e-4), name


def test_a_loss_is_the_sum_of_weighted_means() -> None:
    sums = torch.tensor([6.0, 5.0], requires_grad=True)
    loss = total_loss(
        {"a": Part(sums[0], torch.tensor(3)), "b": Part(sums[1], torch.tensor(0), weight=0.5)}  # nothing counted
    )
    assert loss.item() == 2 + 2.5
    loss.backward()
    assert sums.grad is not None
    assert sums.grad.tolist() == pytest.approx([1 / 3, 0.5])


def test_rates_rise_and_fall() -> None:
    optimizer = torch.optim.SGD([{"params": [torch.zeros(1)], "lr": 1.0, "peak": 2.0}])

    def rates(steps: int, warmup: float) -> list[float]:
        found = []
        for step in range(steps):
            set_rates(optimizer, step, steps, warmup)
            found.append(optimizer.param_groups[0]["lr"])
        return found

    rising = rates(100, 0.1)
    assert rising[:10] == sorted(rising[:10])
    assert rising[10] == max(rising) == 2.0
    assert rising[10:] == sorted(rising[10:], reverse=True)
    assert 0 < rising[-1] < 0.05
    assert rates(4, 0.0) == [2.0, 1.5, 1.0, 0.5]
    assert rates(1, 0.1)[0] > 0
    assert all(0 < rate <= 2 for rate in rates(7, 1.0))


def language_model(folder: Path) -> dict[str, torch.Tensor]:
    prefix = "encoder.language_model."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
        if name.startswith(prefix)
    }


def test_frozen_means_untouched(tmp_path: Path) -> None:
    before = load_file(engine.encoder() / "model.safetensors")
    engine.trained(tmp_path / "frozen", {"freeze": 1.0, "lstm": 8}, epochs=2, limit=12)
    after = language_model(tmp_path / "frozen")
    assert len(after) > 20
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())
    engine.trained(tmp_path / "half", {"freeze": 0.5}, of=engine.only_train(), epochs=2, limit=12)
    assert any(not torch.equal(tensor, before[name]) for name, tensor in language_model(tmp_path / "half").items())


def test_the_head_learns_at_its_own_rate(tmp_path: Path) -> None:
    before = load_file(engine.encoder() / "model.safetensors")
    engine.trained(tmp_path, epochs=1, limit=12, encoder_lr=0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in language_model(tmp_path).items())


def test_a_limit_takes_the_first_sentences(tmp_path: Path) -> None:
    trainer = Trainer(engine.run_of(limit=7), tmp_path / "a", resume=False)
    everything = Trainer(engine.run_of(), tmp_path / "b", resume=False)
    assert trainer.examples.sentences == everything.examples.sentences[:7]
    assert len(everything.examples.sentences) == 60


def test_tensorboard_gets_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    engine.trained(tmp_path, epochs=1, limit=8, tensorboard=True)
    assert any(file.stat().st_size > 40 for file in tmp_path.rglob("events.out.tfevents*"))
    assert not (tmp_path / "state").exists()


def test_every_optimizer_group(tmp_path: Path) -> None:
    """Two rates; no decay for biases and norms; no parameter left out or in twice."""
    trainer = Trainer(engine.run_of({"lstm": 8}, {"crf": True}, decay=0.3), tmp_path, resume=False)
    groups = trainer.optimizer.param_groups
    assert sorted((group["peak"], group["weight_decay"]) for group in groups) == [
        *((3e-3, 0.0), (3e-3, 0.3), (1e-2, 0.0), (1e-2, 0.3)),
    ]
    members = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(members) == sorted({id(parameter) for parameter in trainer.bare.parameters()})


# corpora


def jsonl(path: Path, *sentences: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(sentence) + "\n" for sentence in sentences))
    return path.parent


KNEE = {"tokens": ["left", "knee"], "entities": [{"type": "X", "indices": [1]}]}
EMPTY: dict[str, object] = {"tokens": [], "entities": []}


def test_sentences_without_words_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = jsonl(tmp_path / "c" / "train.jsonl", KNEE, EMPTY, KNEE, EMPTY)
    jsonl(tmp_path / "c" / "dev.jsonl", EMPTY, KNEE)
    progress = engine.trained(tmp_path / "run", of=corpus, epochs=1)
    assert "warning: 2 sentences without words are left out" in capsys.readouterr().err
    assert progress.curve[0]["dev"]["gold"] == 1


def test_types_that_only_dev_has_are_told_and_stay_in_the_denominator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = jsonl(tmp_path / "c" / "train.jsonl", KNEE)
    other = {"tokens": ["a", "b"], "entities": [{"type": type, "indices": [i]} for i, type in enumerate("YZ")]}
    jsonl(tmp_path / "c" / "dev.jsonl", KNEE, other, {"tokens": ["b"], "entities": [{"type": "Z", "indices": [0]}]})
    progress = engine.trained(tmp_path / "run", of=corpus, epochs=1)
    said = "warning: dev has types that train has not, and each of their entities counts as missed: Z (2), Y (1)\n"
    assert capsys.readouterr().err.count(said) == 1
    assert progress.curve[0]["dev"]["gold"] == 4


def test_a_corpus_without_entities_is_refused(tmp_path: Path) -> None:
    corpus = jsonl(tmp_path / "c" / "train.jsonl", {"tokens": ["left", "knee"]})
    with pytest.raises(InputError, match="train holds no entities"):
        engine.trained(tmp_path / "run", of=corpus, epochs=1)
    assert not (tmp_path / "run").exists()


def test_gold_that_the_head_cannot_express_is_told_and_stays_in_the_denominator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"tokens": ["a", "b", "c"], "entities": [{"type": "X", "indices": [0, 2]}, {"type": "X", "indices": [1]}]}
    corpus = jsonl(tmp_path / "c" / "train.jsonl", broken, KNEE)
    jsonl(tmp_path / "c" / "dev.jsonl", broken)
    progress = engine.trained(tmp_path / "run", of=corpus, epochs=1)
    assert "33.3% of the gold cannot be learned by this head: 1 discontinuous entities" in capsys.readouterr().err
    assert progress.curve[0]["lost"] == {"discontinuous entities": 1}
    assert progress.curve[0]["dev"]["gold"] == 2


def test_more_processes_times_batches_than_sentences(tmp_path: Path) -> None:
    corpus = jsonl(tmp_path / "c" / "train.jsonl", KNEE)
    progress = engine.trained(tmp_path / "run", of=corpus, epochs=2, accumulate=4)
    assert progress.step == 2
    assert all(math.isfinite(record["loss"]) for record in progress.curve)


def test_a_loss_that_is_not_finite_ends_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkFailed, match=r"the loss is not finite .* at step"):
        engine.trained(tmp_path / "a", epochs=3, head_lr=1e38, clip=1e30)
    arguments = ["--encoder", str(engine.encoder()), "--set", "training.head_lr=1e38", "--set", "training.clip=1e30"]
    assert main(["train", str(engine.corpus()), *arguments, "--out", str(tmp_path / "b")]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: the loss is not finite")
    assert "training.head_lr" in last


# stopped and resumed


class KilledError(BaseException):
    """As if the process were killed: nobody catches it."""


STEPS = ("open", "mkdir", "rename", "replace", "rmdir", "unlink")
"""What is done to files on the way of an epoch into its checkpoint, as pathlib, shutil and json do it."""


class Killer:
    """Lets so many operations on a folder's files happen, and kills at the next."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.left, self.dead = str(folder), -1, False
        self.count = 0
        for name in STEPS[1:]:
            patch.setattr(os, name, self.guarded(getattr(os, name)))
        for module in ("spanloom.checkpoint.save_file", "transformers.modeling_utils.safe_save_file"):
            place, _, name = module.rpartition(".")
            patch.setattr(module, self.guarded(getattr(sys.modules[place], name), half=True))
        patch.setattr(Path, "write_text", self.guarded(Path.write_text, half=True))

    def guarded(self, real: Callable[..., Any], half: bool = False) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if not any(self.folder in str(arg) for arg in args[:2]) and "dir_fd" not in kwargs:
                return real(*args, **kwargs)
            if self.dead:
                raise KilledError
            if self.left == 0:
                self.dead = True
                if half:  # cut short while it was being written
                    target = next(Path(str(arg)) for arg in args[:2] if self.folder in str(arg)[:500])
                    with target.open("wb") as file:
                        file.write(b'{"cut')
                raise KilledError
            self.left -= 1
            self.count += 1
            return real(*args, **kwargs)

        return operation


def test_killed_at_any_operation_on_a_file_it_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every moment between two changes of the run's folder, one after the other."""
    kwargs: dict[str, Any] = {"epochs": 2, "limit": 6, "batch": 6}
    said = {1: 50, 2: 60}  # the second epoch is better: the model is saved twice
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(said[scored()]))])

    def scored() -> int:
        return trainer.progress.epoch

    def start(folder: Path, resume: bool) -> Progress:
        nonlocal trainer
        trainer = Trainer(engine.run_of(**kwargs), folder, resume)
        return trainer.train()

    trainer: Any = None
    start(tmp_path / "whole", resume=False)
    expected, whole = weights(tmp_path / "whole"), curve(tmp_path / "whole")

    with monkeypatch.context() as patch:
        killer = Killer(tmp_path / "counted", patch)
        start(tmp_path / "counted", resume=False)
    operations = killer.count
    assert weights(tmp_path / "counted") == expected
    assert operations > 30

    for moment in range(operations):
        folder = tmp_path / "run"
        with monkeypatch.context() as patch:
            killer = Killer(folder, patch)
            killer.left = moment
            with pytest.raises(KilledError):
                start(folder, resume=False)
        if not training_begun(folder):
            shutil.rmtree(folder, ignore_errors=True)
            continue
        finished = spanloom_finished(folder)
        if not finished:
            start(folder, resume=True)
        assert weights(folder) == expected, moment
        assert curve(folder) == whole, moment
        assert {file.name for file in folder.iterdir()} - {"state.new"} == MODEL, moment
        shutil.rmtree(folder)


def training_begun(folder: Path) -> bool:
    from spanloom.runs import read_run

    try:
        read_run(folder)
    except InputError:
        return False
    return True


def spanloom_finished(folder: Path) -> bool:
    from spanloom.runs import is_finished

    return is_finished(folder)


def test_a_run_that_stopped_early_is_not_trained_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between its last state and its end."""
    said = iter([10, 5, 5, 99, 99])
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(next(said)))])

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(training, "drop_state", killed)
        with pytest.raises(KilledError):
            engine.trained(tmp_path, epochs=5, limit=8, patience=2)
    before = weights(tmp_path)
    progress = engine.trained(tmp_path, epochs=5, limit=8, patience=2, resume=True)
    assert progress.epoch == 3
    assert weights(tmp_path) == before
    assert not (tmp_path / "state").exists()


def stopped(folder: Path, **kwargs: Any) -> None:
    """A run that has two epochs to do and was stopped after the first."""

    class Stopped(Trainer):
        def _is_stopping(self) -> bool:
            if self.progress.epoch == 1:
                raise KilledError
            return False

    with pytest.raises(KilledError):
        Stopped(engine.run_of(epochs=2, limit=3, **kwargs), folder, resume=False).train()


@pytest.mark.parametrize(
    ("split", "edited", "says"),
    [
        ("train", {"tokens": ["left", "elbow"], "entities": [{"type": "X", "indices": [1]}]}, "train changed"),
        ("train", {"tokens": ["left", "knee"], "entities": [{"type": "X", "indices": [0]}]}, "train changed"),
        ("train", {"tokens": ["left", "knee"], "entities": [{"type": "Y", "indices": [1]}]}, "train changed"),
        ("dev", {"tokens": ["left", "knee"]}, "dev changed"),
    ],
)
def test_a_run_is_not_resumed_on_other_sentences(
    split: str, edited: dict[str, object], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, folder = tmp_path / "c", tmp_path / "run"
    for each in ("train", "dev"):
        jsonl(corpus / f"{each}.jsonl", KNEE, KNEE)
    stopped(folder, of=corpus)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    jsonl(corpus / f"{split}.jsonl", KNEE, edited)
    capsys.readouterr()
    assert main(["train", "--resume", str(folder)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert f"{folder}: cannot be resumed: {says} since the run began" in err
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    for each in ("train", "dev"):  # the same sentences, written otherwise, and one that --limit leaves out
        jsonl(corpus / f"{each}.jsonl", {"doc": "1", **KNEE}, {"doc": "2", **KNEE}, *([] if each == "dev" else [KNEE]))
    engine.trained(folder, of=corpus, epochs=2, limit=2, resume=True)


def test_a_run_is_not_resumed_with_other_word_vectors(tmp_path: Path) -> None:
    vectors, corpus = tmp_path / "vectors.txt", jsonl(tmp_path / "c" / "train.jsonl", KNEE)
    vectors.write_text("knee 1 2\nelbow 3 4\n")
    options = {"word_vectors": str(vectors)}
    stopped(tmp_path / "run", of=corpus, encoder_options=options)
    vectors.write_text("knee 1 3\nelbow 3 4\n")
    with pytest.raises(InputError, match="word vectors changed since the run began"):
        engine.trained(tmp_path / "run", options, of=corpus, epochs=2, limit=3, resume=True)
    vectors.write_text("knee 1 2\n")  # what nobody wanted does not matter
    assert engine.trained(tmp_path / "run", options, of=corpus, epochs=2, limit=3, resume=True).epoch == 2


def test_a_run_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    corpus, file = jsonl(tmp_path / "c" / "train.jsonl", KNEE), tmp_path / "run" / "training" / "run.json"
    stopped(tmp_path / "run", of=corpus)
    told = json.loads(file.read_text())
    assert told.pop("digests").keys() == {"train", "dev"}
    file.write_text(json.dumps(told))
    assert engine.trained(tmp_path / "run", of=corpus, epochs=2, limit=3, resume=True).epoch == 2


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "progress.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"epoch": 1, "more": 2}'])
def test_a_damaged_state_is_refused_in_one_line(
    file: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "drop_state", lambda *_: None)
    trainer = Trainer(engine.run_of(epochs=1, limit=4), tmp_path, resume=False)
    trainer.train()
    (tmp_path / "state" / file).write_bytes(content)
    with pytest.raises(InputError, match="is damaged, and cannot be resumed") as refused:
        load_state(tmp_path / "state", trainer.bare, trainer.optimizer.optimizer)
    assert "\n" not in str(refused.value)


# as processes

ARGUMENTS = ["--epochs", "6", "--precision", "fp32", "--set", "training.batch=4", "--set", "head.crf=true"]
ALONE = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def command(folder: Path) -> list[str]:
    return [
        *map(str, (ENTRY, "train", engine.corpus(), "--encoder", engine.encoder())),
        *ARGUMENTS,
        "--out",
        str(folder),
    ]


def kill_when(ready: Callable[[], bool], arguments: list[str]) -> None:
    """Starts a command, and kills it the hard way as soon as something is there."""
    process = subprocess.Popen(
        arguments, env={**os.environ, **ALONE}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        limit = time.monotonic() + 60
        while not ready():
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            assert time.monotonic() < limit
            time.sleep(0.001)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def test_a_process_killed_again_and_again_ends_with_the_same_weights(spanloom: Run, tmp_path: Path) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    uninterrupted = subprocess.Popen(
        command(whole), env={**os.environ, **ALONE}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    resume = [str(ENTRY), "train", "--resume", str(folder)]

    def epochs(n: int) -> Callable[[], bool]:
        return lambda: (folder / "training" / "curve.jsonl").is_file() and len(curve(folder)) >= n

    # in the first epoch, before there is a state
    kill_when((folder / "training" / "run.json").exists, command(folder))
    assert not (folder / "state").exists()
    # while a state is being written
    kill_when(lambda: (folder / "state.new").exists() and (folder / "state").exists(), resume)
    # in the middle of a later epoch
    so_far = len(curve(folder)) if (folder / "training" / "curve.jsonl").exists() else 0
    assert so_far < 5
    kill_when(epochs(so_far + 1), resume)

    resumed = spanloom("train", "--resume", folder, **ALONE)
    assert resumed.returncode == 0, resumed.stderr
    assert "holds the model" in resumed.stderr
    assert uninterrupted.wait(60) == 0
    assert weights(folder) == weights(whole)
    assert curve(folder) == curve(whole)
    assert {file.name for file in folder.iterdir()} == MODEL


def test_a_finished_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    before = weights(engine.model_folder())
    assert main(["train", "--resume", str(engine.model_folder())]) == 0
    assert "is finished; nothing is left to do" in capsys.readouterr().err
    assert weights(engine.model_folder()) == before


def test_a_folder_without_a_run_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert main(["train", "--resume", str(folder)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "holds no run to resume" in err


TORCHRUN = "import sys; from torch.distributed.run import main; main(sys.argv[1:])"


def test_two_processes_train_as_one_that_accumulates(spanloom: Run, tmp_path: Path) -> None:
    """Each takes its own half of every group of batches. Had both taken the same one, the weights would differ."""
    sets = ["encoder.dropout=0", "training.batch=4", "training.encoder_lr=1e-3", "training.decay=0"]
    common = ["train", str(engine.corpus()), "--encoder", str(engine.encoder(dropout=False)), "--epochs", "2"]
    common += ["--precision", "fp32", *(part for each in sets for part in ("--set", each))]
    torchrun = ["--standalone", "--nproc_per_node", "2", "-m", "spanloom", *common, "--out", "two"]
    two = spanloom(*torchrun, program=TORCHRUN, ACCELERATE_USE_CPU="true", **ALONE)
    assert two.returncode == 0, two.stderr
    assert main([*common, "--set", "training.accumulate=2", "--out", str(tmp_path / "one")]) == 0
    assert main([*common, "--out", str(tmp_path / "alone")]) == 0

    halves, whole = curve(tmp_path / "two"), curve(tmp_path / "one")
    assert [line["processes"] for line in halves] == [2, 2]
    assert [line["processes"] for line in whole] == [1, 1]
    assert [line["step"] for line in halves] == [line["step"] for line in whole]
    assert halves[-1]["step"] * 2 == pytest.approx(curve(tmp_path / "alone")[-1]["step"], abs=2)
    assert [line["loss"] for line in halves] == pytest.approx([line["loss"] for line in whole], rel=1e-4)
    assert two.stderr.count("epoch 1/2  loss") == 1  # one of them speaks

    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("two", "one"))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which Adam makes large
            assert torch.allclose(tensor, theirs[name], atol=1e-3), (name, (tensor - theirs[name]).abs().max())


@pytest.mark.parametrize("freeze", ["1", "0.5"])
def test_two_processes_with_a_frozen_language_model(freeze: str, spanloom: Run, tmp_path: Path) -> None:
    arguments = ["train", engine.only_train(), "--encoder", engine.encoder(), "--epochs", "2", "--limit", "12"]
    torchrun = ["--standalone", "--nproc_per_node", "2", "-m", "spanloom", *arguments, "--out", "two"]
    ran = spanloom(*torchrun, "--set", f"encoder.freeze={freeze}", program=TORCHRUN, ACCELERATE_USE_CPU="true", **ALONE)
    assert ran.returncode == 0, ran.stderr
    before = load_file(engine.encoder() / "model.safetensors")
    same = [torch.equal(tensor, before[name]) for name, tensor in language_model(tmp_path / "two").items()]
    assert all(same) == (freeze == "1")


def test_documents_that_share_a_name_are_no_context_for_each_other(tmp_path: Path) -> None:
    """As in prediction. Lines of words with one "doc" are one document, which is the reader's affair."""
    texts = [{"id": "a", "text": text} for text in ("Left knee. Right knee.", "No pain.")]
    words = [{"doc": "a", "tokens": ["left"]}, {"doc": "a", "tokens": ["knee"]}, {"doc": "b", "tokens": ["pain"]}]
    for name, lines, together in (("texts", texts, [[0, 1], [2]]), ("words", words, [[0, 1], [2]])):
        corpus = jsonl(tmp_path / name / "train.jsonl", *lines)  # type: ignore[arg-type]
        sentences = read_split(str(corpus), "train", Segmenter()) or []
        assert len(sentences) == 3
        numbers = [sentence.document for sentence in sentences]
        assert [[i for i in range(3) if numbers[i] == number] for number in dict.fromkeys(numbers)] == together


def test_documents_are_what_they_were() -> None:
    """Reading for training changes nothing in what was read."""
    sentences = read_split(str(engine.corpus()), "train", Segmenter())
    assert sentences is not None
    assert all(isinstance(sentence, Sentence) for sentence in sentences)
    assert sum(len(sentence.mentions) for sentence in sentences) == sum(len(d.entities) for d in engine.documents())
    assert all(isinstance(document, Document) for document in engine.documents())
    assert read_split(str(engine.only_train()), "dev", Segmenter()) is None
