"""Plans: every training resolved before the first begins, and wrong ones refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spanloom.corpus import find_corpus
from spanloom.errors import InputError
from spanloom.experiments.experiment import Experiment
from spanloom.experiments.plan import only, read_plan

PLAN = """
corpora = ["sample:flat", "sample:nested"]
seeds = [1, 2]
baseline = "tagger"
[options]
training = { epochs = 3, limit = 20, head_lr = 2e-3 }
[systems.tagger]
head = "tagger"
options = { training = { epochs = 4 } }
[systems.span]
head = "span"
preset = "wnut17"
options = { encoder = { name = "minilm" } }
grid = { head = { representation = ["boundary", "pooling"], negatives = [50, "none"] } }
"""


ONE = 'corpora = ["{corpus}"]\n[systems.a]\nhead = "tagger"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "plan.toml"
    file.write_text(text)
    return file


def test_a_plan_is_a_grid_of_systems_corpora_and_seeds(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN))
    assert len(plan.trials) == 2 * 2 * (1 + 4)
    assert len({trial.name for trial in plan.trials}) == len(plan.trials)
    first, last = plan.trials[0], plan.trials[-1]
    assert (first.system, first.corpus, first.seed) == ("tagger", "sample:flat", 1)
    assert first.run.training.epochs == 4  # a system's own is stronger than everybody's
    assert first.run.training.limit == 20
    assert (last.system, last.corpus, last.seed) == ("span representation=pooling negatives=none", "sample:nested", 2)
    assert last.run.head_options.negatives is None
    assert last.run.head_options.max_length == 6  # the preset's
    assert last.run.training.head_lr == 2e-3  # and everybody's is stronger than the preset
    assert last.run.training.seed == 2


def test_a_training_is_known_by_what_it_does_and_not_by_its_name(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN))
    renamed = read_plan(
        written(tmp_path, PLAN.replace("systems.tagger", "systems.seq").replace('"tagger"\n[', '"seq"\n['))
    )
    assert plan.trials[0].identity == renamed.trials[0].identity
    other = read_plan(written(tmp_path, PLAN.replace("epochs = 4", "epochs = 5")))
    assert plan.trials[0].identity != other.trials[0].identity


def test_a_training_is_done_for_the_corpus_that_it_saw(tmp_path: Path) -> None:
    """One with another content is another, whatever its name; where it lies does not count."""
    copied, plan = tmp_path / "corpus", written(tmp_path, ONE.format(corpus="corpus"))
    shutil.copytree(find_corpus("sample:flat").splits["train"].parent, copied)
    (trial,) = read_plan(plan).trials
    done = Experiment(read_plan(plan), tmp_path / "out")
    done.done = [{"system": "a", "seed": 1, **trial.identity, "data": trial.data}]
    (copied / "README.md").write_text("not a split")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(copied, tmp_path / "elsewhere" / "corpus")
    for corpus in ("corpus", "elsewhere/corpus"):
        (same,) = read_plan(written(tmp_path, ONE.format(corpus=corpus))).trials
        assert done.record_of(same) == done.done[0]
    written(tmp_path, ONE.format(corpus="corpus"))
    for split in ("train", "dev", "test"):
        file = next(copied.glob(f"{split}.*"))
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        (edited,) = read_plan(plan).trials
        assert edited.identity == trial.identity
        assert edited.name != trial.name  # else it would overwrite what the other one predicted
        assert done.record_of(edited) is None
        file.write_bytes(before)
    done.done = [{"system": "a", "seed": 1, **trial.identity}]  # as an earlier version noted it down
    assert done.record_of(edited) == done.done[0]


def test_paths_start_from_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "mine").mkdir()
    for split in ("train", "test"):
        (tmp_path / "mine" / f"{split}.jsonl").write_text('{"tokens": ["a"], "entities": []}\n')
    monkeypatch.chdir("/")
    plan = read_plan(written(tmp_path / "plans", PLAN.replace("sample:flat", "../mine")))
    assert plan.trials[0].corpus == "mine"
    assert Path(plan.trials[0].run.corpus) == tmp_path / "mine"


def test_a_file_of_word_vectors_starts_from_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    text = PLAN.replace('name = "minilm"', 'word_vectors = "vectors.txt"')
    with pytest.raises(InputError, match=r"vectors\.txt: there is no such file of word vectors"):
        read_plan(written(tmp_path, text))
    (tmp_path / "vectors.txt").write_text("knee 1 2\n")
    plan = read_plan(written(tmp_path, text))
    assert plan.trials[-1].run.encoder.word_vectors == str(tmp_path / "vectors.txt")
    assert plan.trials[0].run.encoder.word_vectors == ""


def test_some_systems_alone(tmp_path: Path) -> None:
    plan = read_plan(written(tmp_path, PLAN))
    assert {trial.system for trial in only(plan, ["tagger"]).trials} == {"tagger"}
    with pytest.raises(InputError, match=r"--only taggr.*did you mean tagger"):
        only(plan, ["taggr"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("seeds = [1, 2]", "seeds = 3", "seeds must be a list"),
        ("seeds = [1, 2]", 'seeds = ["1"]', "seeds are whole numbers"),
        ("seeds = [1, 2]", 'score = "tests"', "score = 'tests'"),
        ("seeds = [1, 2]", "seed = [1]", "did you mean seeds?"),
        ('corpora = ["sample:flat", "sample:nested"]', "", "names no corpora"),
        ("sample:flat", "sample:flit", "is no sample"),
        ("sample:flat", "nowhere", "there is no such file or folder"),
        ("sample:nested", "sample:flat", "two corpora have the same name"),
        ('baseline = "tagger"', 'baseline = "tager"', "did you mean tagger?"),
        ('head = "tagger"', "", "systems.tagger has no head"),
        ('head = "tagger"', 'head = "taggr"', "system tagger: 'taggr' is no head"),
        ('head = "tagger"', 'head = "tagger"\nhed = 1', "systems.tagger.hed is nothing that a plan has"),
        ("epochs = 4", "epoch = 4", "system tagger: training.epoch is no option"),
        ("training = { epochs = 3", "trainin = { epochs = 3", "options.trainin is nothing that a plan has"),
        ("epochs = 4", "seed = 4", "systems.tagger.options.training.seed would have no effect"),
        ("limit = 20", "seed = 4", "options.training.seed would have no effect"),
        ('preset = "wnut17"', 'preset = "wnut71"', "did you mean wnut1"),
        ('["boundary", "pooling"]', '"boundary"', "systems.span.grid.head.representation must be a list"),
        ('["boundary", "pooling"]', "[]", "must be a list of values"),
        ('["boundary", "pooling"]', '["boundry"]', "cannot be 'boundry'"),
        ('name = "minilm"', 'name = "./nowhere"', "there is no such folder"),
        ("[options]", "[options", "not TOML"),
    ],
    ids=str,
)
def test_a_wrong_plan_is_refused_in_one_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert old in PLAN
    with pytest.raises(InputError) as refused:
        read_plan(written(tmp_path, PLAN.replace(old, new)))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


BUNDLES = """
corpora = ["sample:flat"]
seeds = [1, 2]
[baseline]
BL-SeqNER = "SeqNER"
[options]
encoder = { name = "minilm" }
[systems.SeqNER]
head = "tagger"
[systems.BL-SpanNER]
head = "span"
preset = "wnut17"
bundle = "tagger"
alpha = 0.3
partner_name = "BL-SeqNER"
options = { partner = { crf = true } }
[systems.sweep]
head = "span"
bundle = "tagger"
grid = { alpha = [0, 0.1, 0.9], partner = { tags = ["bio", "bilou"] } }
"""


def test_a_bundle_is_two_systems_of_one_training(tmp_path: Path) -> None:
    trials = [trial for trial in read_plan(written(tmp_path, BUNDLES)).trials if trial.seed == 1]
    by_name = {trial.system: trial for trial in trials}
    host, partner = by_name["BL-SpanNER"], by_name["BL-SeqNER"]
    assert host.run is partner.run
    assert host.training == partner.training == host.name
    assert (host.decode, partner.decode) == (None, "tagger")
    assert host.identity != partner.identity
    assert host.name != partner.name
    assert host.run.partner is not None
    assert (host.run.partner.alpha, host.run.partner.options.crf) == (0.3, True)
    assert host.run.head_options.max_length == 6
    swept = [name for name in by_name if name.startswith("sweep")]
    assert swept == [
        *("sweep alpha=0 tags=bio", "sweep alpha=0 tags=bilou"),  # where the partner is not trained
        *(
            f"sweep{of} alpha={alpha} tags={tags}"
            for alpha in (0.1, 0.9)
            for tags in ("bio", "bilou")
            for of in ("", " (tagger)")
        ),
    ]
    assert len({trial.training for trial in trials}) == 1 + 1 + 6
    assert [trial.decode for trial in only(read_plan(written(tmp_path, BUNDLES)), ["BL-SeqNER"]).trials] == [
        "tagger"
    ] * 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('bundle = "tagger"\nalpha', "alpha", "systems.BL-SpanNER.partner_name: there is no partner"),
        ('bundle = "tagger"\ngrid', "grid", "system sweep alpha=0 tags=bio: alpha 0 weighs two heads"),
        ('partner_name = "BL-SeqNER"', 'partner_name = "SeqNER"', "two systems are called 'SeqNER'"),
        ("alpha = 0.3", "alpha = 1", "system BL-SpanNER: alpha 1 leaves span untrained"),
        ("alpha = 0.3", 'alpha = "0.3"', "systems.BL-SpanNER.alpha must be a number"),
        ("alpha = 0.3", "alpha = true", "alpha cannot be True"),
        ("[0, 0.1, 0.9]", "0.1", "systems.sweep.grid.alpha must be a list of values"),
        ("[0, 0.1, 0.9]", "[2]", "system sweep alpha=2 tags=bio: alpha 2: a share"),
        ("crf = true", "crff = true", "did you mean partner.crf?"),
        ('BL-SeqNER = "SeqNER"', 'BL-SeqNER = "SecNER"', "baseline 'SecNER' is no system; did you mean SeqNER?"),
        ('BL-SeqNER = "SeqNER"', "BL-SeqNER = 3", "baseline 3 is no system"),
        (
            'head = "tagger"\n',
            'head = "tagger"\noptions = { partner = { crf = true } }\n',
            "system SeqNER: partner.crf: there is no",
        ),
    ],
    ids=str,
)
def test_a_wrong_bundle_is_refused_in_one_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert old in BUNDLES
    with pytest.raises(InputError) as refused:
        read_plan(written(tmp_path, BUNDLES.replace(old, new)))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_plan_may_lie_where_its_results_go(tmp_path: Path) -> None:
    """The copy in an experiment's folder is a plan, too."""
    plan = read_plan(written(tmp_path, PLAN))
    Experiment(plan, tmp_path)
    assert (tmp_path / "plan.toml").read_text() == PLAN
