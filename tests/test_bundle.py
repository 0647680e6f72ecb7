"""Bundles: two heads, one encoder; what is kept are two plain models, each at its own best."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import spanloom
from spanloom import training
from spanloom.bundle import Bundle, weights_of
from spanloom.cli import main
from spanloom.document import Sentence
from spanloom.errors import InputError, Tally
from spanloom.heads import MODULES, family_of
from spanloom.heads.base import Loss
from spanloom.model import load_model
from spanloom.runs import conflicts, is_finished, output_folder, read_run, resolve, save_run
from spanloom.segment import Segmenter
from spanloom.training import Trainer, read_split, score, total_loss
from tests import engine
from tests.heads import foreign
from tests.test_training import KilledError, Killer, curve, fake_result, training_begun, weights

SMALL: dict[str, dict[str, Any]] = {
    "span": {"max_length": 4, "negatives": 10},
    "w2ner": {"dropout": 0.1, "channel_dropout": 0.1},
}
"""Options that keep a family small, and let it draw random numbers in training."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bundled(folder: Path, host: str, other: str, alpha: float | None = None, **kwargs: Any) -> Any:
    kwargs = {"epochs": 1, "limit": 8, **kwargs}
    return engine.trained(folder, {"dropout": 0.1}, SMALL.get(host), family=host, bundle=other, alpha=alpha, **kwargs)


def found(folder: Path, decode: str | None = None) -> list[Any]:
    ner = spanloom.load(folder, decode, precision="fp32")
    return [[(entity, entity.score) for entity in document.entities] for document in ner.pipe([engine.TEXT] * 2)]


# what a bundle is made of


SEQUENCE, SPAN = family_of("tagger"), family_of("span")


@pytest.mark.parametrize(
    ("host", "partner", "expected"),
    [
        (SEQUENCE, SPAN, (0.1, 0.9)),
        (SPAN, SEQUENCE, (0.9, 0.1)),
        (family_of("w2ner"), SPAN, (0.9, 0.1)),
        (SEQUENCE, SEQUENCE, (0.9, 0.1)),
    ],
    ids=["tagger with span", "span with tagger", "w2ner with span", "two of the sequence side"],
)
def test_alpha_weighs_the_sequence_side_else_the_partner(
    host: Any, partner: Any, expected: tuple[float, float]
) -> None:
    assert weights_of(host, partner, 0.1) == expected


def test_only_the_tagger_is_of_the_sequence_side() -> None:
    assert [name for name in MODULES if family_of(name).side == "sequence"] == ["tagger"]


def recorded_loss(trainer: Trainer) -> Loss:
    """The parts of the first batch's loss, without dropout."""
    trainer.bare.train(False)
    batch, targets = trainer.examples.batch(
        trainer.plans[0][0], trainer.schemes, 1, 0, [Tally() for _ in trainer.schemes]
    )
    parts: Loss = trainer.bare(batch, targets)
    return parts


def test_the_loss_is_the_weighted_sum_of_the_single_ones(tmp_path: Path) -> None:
    """On the same batch, with the same weights and the same draws."""
    run = engine.run_of(None, SMALL["span"], family="span", bundle="tagger", alpha=0.3, limit=8)
    bundle = Trainer(run, tmp_path / "both", resume=False)
    both = recorded_loss(bundle)
    assert {name.split(".")[0] for name in both} == {"span", "tagger"}
    expected = 0.0
    for family, weight in (("span", 0.7), ("tagger", 0.3)):
        options = SMALL["span"] if family == "span" else None
        single = Trainer(engine.run_of(None, options, family=family, limit=8), tmp_path / family, resume=False)
        single.plans = bundle.plans
        parts = recorded_loss(single)
        for name, part in parts.items():
            ours = both[f"{family}.{name}"]
            assert torch.equal(ours.sum, part.sum)
            assert torch.equal(ours.count, part.count)
            assert ours.weight == pytest.approx(weight * part.weight)
        expected += weight * total_loss(parts).item()
    assert total_loss(both).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("host", "partner", "alpha"), [("tagger", "span", 1.0), ("span", "tagger", 0.0), ("w2ner", "span", 0.0)]
)
def test_a_partner_without_weight_changes_no_bit(
    host: str, partner: str, alpha: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"dropout": 0.2, "lstm": 8}
    told = {"epochs": 2, "limit": 16}
    engine.trained(tmp_path / "alone", options, SMALL.get(host), family=host, **told)
    capsys.readouterr()
    kwargs = {"family": host, "bundle": partner, "alpha": alpha}
    engine.trained(tmp_path / "bundle", options, SMALL.get(host), **kwargs, **told)
    assert weights(tmp_path / "bundle") == weights(tmp_path / "alone")
    assert curve(tmp_path / "bundle") == curve(tmp_path / "alone")
    assert not (tmp_path / "bundle" / "outputs").exists()
    assert f"{partner} weighs nothing with alpha {alpha:g}, and is not trained" in capsys.readouterr().err
    assert f"`{partner}` weighed nothing, and was not trained" in (tmp_path / "bundle" / "README.md").read_text()


def test_each_head_begins_as_it_would_alone(tmp_path: Path) -> None:
    """Whichever is the host; and a further head leaves the encoder as it was."""
    both = Trainer(engine.run_of(family="w2ner", bundle="tagger"), tmp_path / "both", resume=False).bare
    for family, head in (("w2ner", both.head), ("tagger", both.partner)):
        alone = Trainer(engine.run_of(family=family), tmp_path / family, resume=False).bare
        for ours, theirs in ((both.encoder, alone.encoder), (head, alone.head)):
            assert ours is not None
            theirs_by_name = theirs.state_dict()
            assert ours.state_dict().keys() == theirs_by_name.keys()
            assert all(torch.equal(tensor, theirs_by_name[name]) for name, tensor in ours.state_dict().items())


def test_no_parameter_is_left_out_or_in_twice(tmp_path: Path) -> None:
    run = engine.run_of({"lstm": 8}, family="span", bundle="tagger", partner={"crf": True})
    trainer = Trainer(run, tmp_path, resume=False)
    members = [id(parameter) for group in trainer.optimizer.param_groups for parameter in group["params"]]
    assert isinstance(trainer.bare, Bundle)
    assert sorted(members) == sorted({id(parameter) for parameter in trainer.bare.parameters()})
    assert {name.split(".")[0] for name, _ in trainer.bare.named_parameters()} == {"encoder", "head", "partner"}
    assert {"partner.chain.transitions", "encoder.lstm.weight_ih_l0"} <= dict(trainer.bare.named_parameters()).keys()


def test_the_encoder_reads_each_batch_once(tmp_path: Path) -> None:
    """In training, and where dev is scored."""
    run = engine.run_of(family="span", bundle="tagger", epochs=2, limit=12)
    trainer = Trainer(run, tmp_path, resume=False)
    rows: list[int] = []
    trainer.bare.encoder.register_forward_pre_hook(lambda _, arguments: rows.append(len(arguments[0].mask)))
    trainer._epoch(0)
    assert len(rows) == len(trainer.plans[0])
    rows.clear()
    assert trainer.dev is not None
    recognisers = [output.recogniser for output in trainer.outputs]
    together = [result for _, result in training.score_all(recognisers, [{}, {}], trainer.dev)]
    assert sum(rows) == sum(bool(sentence.words) for sentence in trainer.dev)
    assert together == [score(output.recogniser, trainer.dev) for output in trainer.outputs]


# every pair goes the whole way


@pytest.mark.parametrize(("host", "partner"), [*permutations(MODULES, 2)])
def test_every_pair_trains_saves_loads_and_decodes_with_either(host: str, partner: str, tmp_path: Path) -> None:
    progress = bundled(tmp_path, host, partner, partner=SMALL.get(partner))
    assert [best.best_epoch for best in progress.bests] == [1, 1]
    for name in (host, partner):
        folder = output_folder(tmp_path, name)
        model, _ = load_model(folder)
        assert model.config.head == name
        assert found(tmp_path, name) == found(folder)
        assert {file.name for file in folder.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}
    with_host = found(tmp_path)
    shutil.rmtree(tmp_path / "outputs")
    assert found(tmp_path) == found(tmp_path, host) == with_host


def test_a_foreign_head_bundles_with_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(spanloom_heads(), "word", foreign.FAMILY)
    for host, partner in (("word", "tagger"), ("span", "word")):
        bundled(tmp_path / host, host, partner)
        assert load_model(output_folder(tmp_path / host, partner))[0].config.head == partner


def spanloom_heads() -> dict[str, Any]:
    from spanloom import heads

    return heads._families


def test_both_learn_what_they_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine.trained(
        *(tmp_path, None, {"negatives": 30}, engine.only_train(), "span", "tagger", 0.5),
        epochs=40,
        limit=20,
        head_lr=3e-2,
    )
    gold = read_split(str(engine.only_train()), "train", Segmenter())
    assert gold is not None
    for name in ("span", "tagger"):
        assert score(spanloom.load(tmp_path, name, precision="fp32"), gold[:20]).micro.f1 > 95


# what a run tells and keeps


def test_each_output_keeps_its_own_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    saved: list[tuple[str, bytes]] = []
    real = training.save_model

    def noting(model: Any, tokenizer: Any, folder: Path) -> None:
        real(model, tokenizer, folder)
        saved.append((model.config.head, weights(folder)))

    said = iter([(10, 50), (40, 20), (30, 20), (20, 10)])
    monkeypatch.setattr(training, "save_model", noting)
    monkeypatch.setattr(training, "score_all", lambda *_: [({}, fake_result(f1)) for f1 in next(said)])
    progress = bundled(tmp_path, "span", "tagger", epochs=9, patience=2)
    assert [(best.best_epoch, best.best_f1) for best in progress.bests] == [(2, 40), (1, 50)]
    assert progress.epoch == 4  # patience waits for either
    assert [name for name, _ in saved] == ["span", "tagger", "span"]
    assert weights(tmp_path) == saved[2][1]
    assert weights(tmp_path / "outputs" / "tagger") == saved[1][1]
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path, tmp_path / "outputs" / "tagger"))
    shared = [name for name in ours if name in theirs]
    assert any(not torch.equal(ours[name], theirs[name]) for name in shared)  # each with its own encoder
    said_of = capsys.readouterr().err
    assert "span dev P 10.00 R 10.00 F1 10.00  tagger dev P 50.00 R 50.00 F1 50.00" in said_of
    assert "best so far: span, tagger\n" in said_of
    assert "best so far: span\n" in said_of
    assert "no better dev F1 for 2 epochs: stopped" in said_of


def test_the_folder_tells_both(tmp_path: Path) -> None:
    bundled(tmp_path, "span", "tagger", 0.25, epochs=2, seed=3, partner={"crf": True})
    told = json.loads((tmp_path / "training" / "run.json").read_text())
    assert (told["bundle"], told["alpha"]) == ("tagger", 0.25)
    assert told["options"]["partner"] == {"crf": True, "tags": "bio", "legal": False}
    assert read_run(tmp_path) == engine.run_of(
        *({"dropout": 0.1}, SMALL["span"], None, "span", "tagger", 0.25, {"crf": True}), epochs=2, limit=8, seed=3
    )
    for line in curve(tmp_path):
        assert line["dev"].keys() == line["outputs"]["tagger"]["dev"].keys()
        assert line["outputs"].keys() == {"tagger"}
        assert line["outputs"]["tagger"].keys() == {"lost", "dev"}
    assert {file.name for file in (tmp_path / "outputs" / "tagger").iterdir()} == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md"),
    }
    for folder, own in ((tmp_path, "span"), (tmp_path / "outputs" / "tagger", "tagger")):
        card = (folder / "README.md").read_text()
        assert f"# {own} on corpus" in card
        assert "`span` and `tagger` were trained together on one encoder, alpha 0.25, seed 3" in card
        assert "the loss is 0.75 of `span` and 0.25 of `tagger`" in card
        assert "--head span --bundle tagger --alpha 0.25 --encoder" in card
        assert "--set partner.crf=true" in card


def test_gold_that_the_partner_cannot_express_is_told_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entities = [{"type": "X", "indices": indices} for indices in ([0, 1, 2], [1])]
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "train.jsonl").write_text(json.dumps({"tokens": ["a", "b", "c"], "entities": entities}) + "\n")
    bundled(tmp_path / "run", "w2ner", "tagger", of=tmp_path / "c")
    told = capsys.readouterr().err
    assert "50.0% of the gold cannot be learned by tagger: 1 nested entities" in told
    assert "cannot be learned by w2ner" not in told
    (line,) = curve(tmp_path / "run")
    assert line["lost"] == {}
    assert list(line["outputs"]["tagger"]["lost"].values()) == [1]


# stopped and resumed


def test_killed_at_any_operation_on_a_file_a_bundle_resumes_to_the_same_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is at its best after the second epoch, the partner after the first."""
    said = {1: (50, 60), 2: (60, 50)}
    monkeypatch.setattr(
        training, "score_all", lambda *_: [({}, fake_result(f1)) for f1 in said[trainer.progress.epoch]]
    )

    def start(folder: Path, resume: bool) -> None:
        nonlocal trainer
        run = engine.run_of(None, {"crf": True}, family="tagger", bundle="span", epochs=2, limit=6, batch=6)
        trainer = Trainer(run, folder, resume)
        trainer.train()

    def both(folder: Path) -> list[bytes]:
        return [weights(folder), weights(folder / "outputs" / "span"), (folder / "README.md").read_bytes()]

    trainer: Any = None
    with monkeypatch.context() as patch:
        killer = Killer(tmp_path / "whole", patch)
        start(tmp_path / "whole", resume=False)
    expected, whole = both(tmp_path / "whole"), curve(tmp_path / "whole")
    for moment in range(0, killer.count, 8):
        folder = tmp_path / "run"
        with monkeypatch.context() as patch:
            killer = Killer(folder, patch)
            killer.left = moment
            with pytest.raises(KilledError):
                start(folder, resume=False)
        if training_begun(folder):
            if not is_finished(folder):
                start(folder, resume=True)
            assert both(folder)[:2] == expected[:2], moment
            assert curve(folder) == whole, moment
            assert not (folder / "state").exists()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_state_of_an_earlier_version_tells_of_no_partner(tmp_path: Path) -> None:
    class Stopped(Trainer):
        def _is_stopping(self) -> bool:
            if self.progress.epoch == 1:
                raise KilledError
            return False

    with pytest.raises(KilledError):
        Stopped(engine.run_of(epochs=2, limit=6), tmp_path, resume=False).train()
    file = tmp_path / "state" / "progress.json"
    told = json.loads(file.read_text())
    assert told.pop("partner") == {"best_f1": -1.0, "best_epoch": 0}
    file.write_text(json.dumps(told))
    assert engine.trained(tmp_path, epochs=2, limit=6, resume=True).epoch == 2


# options


def test_the_partners_options_have_a_section(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[head]\nmax_length = 3\n[partner]\ncrf = true\ntags = 'bilou'\n")
    run = resolve("sample:flat", "span", str(file), [{"partner": {"tags": "bio"}}], "tagger")
    assert run.partner is not None
    assert (run.head_options.max_length, run.partner.options.crf, run.partner.options.tags) == (3, True, "bio")
    assert run.partner.alpha == 0.1
    save_run(run, tmp_path)
    assert read_run(tmp_path).partner == run.partner


def test_a_preset_is_the_hosts_and_the_partners_of_that_name() -> None:
    run = resolve("sample:flat", "tagger", "wnut17", [], "span", "0.5")
    assert run.partner is not None
    assert (run.partner.options.max_length, run.partner.options.negatives) == (6, 100)
    assert run.weights == {"tagger": 0.5, "span": 0.5}
    assert conflicts(run) == []
    genia = resolve("sample:flat", "w2ner", "genia", [], "tagger")  # which has no such preset
    assert genia.partner == resolve("sample:flat", "w2ner", None, [], "tagger").partner
    assert conflicts(genia) == ["tagger has no preset genia; its options are its own defaults"]


def test_the_hosts_encoder_wins_and_a_conflict_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    defaults = {"encoder.lstm": 64, "encoder.pooling": "max", "head.hidden": 5}
    monkeypatch.setitem(spanloom_heads(), "word", replace(foreign.FAMILY, defaults=defaults))
    run = engine.run_of(family="tagger", bundle="word")
    assert run.partner is not None
    assert run.partner.options.hidden == 5
    assert run.encoder.lstm == 0
    told = "tagger decides on encoder and training; word by itself would have encoder.lstm=64 instead of 0"
    assert conflicts(run) == [told]
    assert conflicts(engine.run_of({"lstm": 64}, family="tagger", bundle="word")) == []
    assert engine.run_of(family="word", bundle="tagger").encoder.lstm == 64
    Trainer(run, tmp_path, resume=False)
    assert capsys.readouterr().err.count(f"{told}\n") == 1


@pytest.mark.parametrize(
    ("head", "bundle", "alpha", "given", "says"),
    [
        ("tagger", "tagger", None, {}, "two different heads make a bundle"),
        ("tagger", "spn", None, {}, "'spn' is no head; did you mean span?"),
        ("tagger", "../span", None, {}, "is no head"),
        ("tagger", None, 0.1, {}, "--bundle names the second"),
        ("tagger", "span", "1.5", {}, "alpha 1.5: a share from 0 to 1"),
        ("tagger", "span", "-0.1", {}, "alpha -0.1: a share from 0 to 1"),
        ("tagger", "span", "much", {}, "alpha cannot be 'much'"),
        ("tagger", "span", "nan", {}, "alpha cannot be 'nan'"),
        ("tagger", "span", 0.0, {}, "alpha 0 leaves tagger untrained"),
        ("span", "tagger", 1.0, {}, "alpha 1 leaves span untrained"),
        ("w2ner", "span", 1.0, {}, "alpha 1 leaves w2ner untrained"),
        ("tagger", None, None, {"crf": "true"}, "partner.crf: there is no partner"),
        ("span", "tagger", None, {"crff": "true"}, "did you mean partner.crf?"),
        ("tagger", "span", None, {"max_length": "-1"}, "partner.max_length -1"),
    ],
)
def test_what_cannot_be_a_bundle(head: str, bundle: str | None, alpha: Any, given: dict[str, str], says: str) -> None:
    with pytest.raises(InputError) as refused:
        resolve("sample:flat", head, None, [{"partner": given}], bundle, alpha)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


# decoding


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose outputs find something. Not to be changed."""
    place = tmp_path_factory.mktemp("bundle")
    engine.trained(place, None, {"negatives": 30}, family="span", bundle="tagger", alpha=0.5, epochs=25, head_lr=3e-2)
    return place


def test_either_output_is_evaluated_swept_and_predicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = str(engine.corpus() / "test.jsonl")

    def told(*command: str) -> list[dict[str, Any]]:
        assert main([*command, "--precision", "fp32"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    host, partner, named = (
        told("evaluate", str(folder), test, "--json", *decode)[0]["micro"]
        for decode in ([], ["--decode", "tagger"], ["--decode", "span"])
    )
    assert host == named != partner
    assert told("evaluate", str(folder / "outputs" / "tagger"), test, "--json")[0]["micro"] == partner
    swept = told("sweep", str(folder), test, "--over", "head.legal=false", "--decode", "tagger", "--json")
    assert swept[0]["micro"] == partner
    lines = told("predict", str(folder), test, "--decode", "tagger")
    assert sum(len(line["entities"]) for line in lines) == partner["predicted"]


@pytest.mark.parametrize("name", ["taggr", "../outputs/tagger", "tagger/", "", ".", "..", "/etc", "outputs/tagger"])
def test_an_output_that_is_none_is_refused_with_those_there_are(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="has no output") as refused:
        spanloom.load(folder, name)
    assert "tagger" in str(refused.value)
    assert main(["evaluate", str(folder), str(engine.corpus() / "test.jsonl"), "--decode", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_output_that_a_link_puts_elsewhere_is_none(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "model")
    (copied / "outputs" / "other").symlink_to(folder / "outputs" / "tagger")
    with pytest.raises(InputError, match="has no output 'other'"):
        spanloom.load(copied, "other")
    shutil.rmtree(copied / "outputs")
    (copied / "outputs").symlink_to(folder / "outputs")
    with pytest.raises(InputError, match="has no output 'tagger'; there are span"):
        spanloom.load(copied, "tagger")


def test_a_snapshot_of_the_hub_has_outputs_too(folder: Path, tmp_path: Path) -> None:
    """Its files are links into the blobs beside the snapshots, from however deep they lie."""
    snapshot, blobs = tmp_path / "snapshots" / "1", tmp_path / "blobs"
    shutil.copytree(folder, snapshot)
    blobs.mkdir()
    for number, file in enumerate(each for each in [*snapshot.rglob("*")] if each.is_file()):
        file.rename(blobs / str(number))
        file.symlink_to(blobs / str(number))
    for name in ("span", "tagger"):
        assert found(snapshot, name) == found(folder, name)


def test_a_plain_model_has_one_output(tmp_path: Path) -> None:
    engine.untrained(tmp_path, "bert")
    assert output_folder(tmp_path, "tagger") == output_folder(tmp_path, None) == tmp_path
    with pytest.raises(InputError, match="has no output 'span'; there are tagger"):
        output_folder(tmp_path, "span")


def test_dev_sentences_see_their_neighbours(tmp_path: Path) -> None:
    """Both heads score what a model alone would read, context sentences too."""
    run = engine.run_of({"context": 1}, family="span", bundle="tagger", limit=8)
    trainer = Trainer(run, tmp_path, resume=False)
    sentences: list[Sentence] = list(trainer.dev or ())
    ners = [output.recogniser for output in trainer.outputs]
    together = training.score_all(ners, [{} for _ in ners], sentences)
    assert [score(ner, sentences) for ner in ners] == [result for _, result in together]
