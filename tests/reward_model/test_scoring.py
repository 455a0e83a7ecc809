"""A trained model as a reward: batches, limits, adaptation to own pairs, and what is refused."""

import json
import shutil

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.reward_model.folder import RECORD, save_reward_model
from hanse.tasks.problem import Problem
from hanse.tasks.rewards.reward_model import build
from hanse.tasks.scoring.scorer import Scorer
from tests.reward_model.made import make_learner, make_model, make_task


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model that prefers formal words, and its folder."""
    learner = make_learner(make_model())
    problems, state = make_task(clients=[1], pairs=40).problems("train"), None
    state = learner.fresh_state()
    for _ in range(30):
        learner.step(problems, state)
    folder = tmp_path_factory.mktemp("reward") / "model"
    save_reward_model(learner.model, folder, learner.spec.model_dump(mode="json"))
    return learner, folder


def rewards_of(function, texts):
    return function(prompts=["1 + 2 ="] * len(texts), completions=texts)


TEXTS = ["formal0 formal1 so 3", "casual0 casual1 so 3", "formal2 casual1 formal3 so 3", "word1 so 3"]


def test_rewards_are_the_models_scores(saved):
    learner, folder = saved
    found = rewards_of(build(path=str(folder), device="cpu"), TEXTS)
    expected = learner.model.score_all([learner.model.encode("1 + 2 =", text) for text in TEXTS])
    assert found == pytest.approx(expected.tolist())
    assert found[0] > found[2] > found[1]


def test_messages_and_batches_make_no_difference(saved):
    whole = build(path=str(saved[1]), device="cpu")
    small = build(path=str(saved[1]), batch=1, device="cpu")
    assert rewards_of(small, TEXTS) == pytest.approx(rewards_of(whole, TEXTS), abs=1e-5)


def test_what_stands_behind_the_limit_is_not_read(saved):
    function = build(path=str(saved[1]), max_tokens=2, device="cpu")
    first, second = rewards_of(function, ["formal0 formal1 casual0", "formal0 formal1 formal2 so"])
    assert first == second


def test_in_a_scorer_by_type(saved):
    spec = RewardSpec(type="reward-model", path=str(saved[1]), arguments={"device": "cpu"})
    problems = [Problem("p", "1 + 2 =")] * 2
    with Scorer([spec], ScoringSpec()) as scorer:
        scores = scorer.score(problems, TEXTS[:2])
        assert not scorer.isolation  # no child process was asked for
    assert scores.totals_N[0] > scores.totals_N[1]


def written(path, pairs):
    path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    return str(path)


def test_own_pairs_turn_the_model_round(saved, tmp_path):
    opposed = [
        {"prompt": p.prompt, "chosen": p.metadata["rejected"], "rejected": p.metadata["chosen"]}
        for p in make_task(clients=[1], pairs=40, seed=9).problems("train")
    ]
    path = written(tmp_path / "mine.jsonl", opposed)
    functions = [build(path=str(saved[1]), pairs=path, steps=60, device="cpu") for _ in range(2)]
    found = [rewards_of(function, TEXTS) for function in functions]
    assert found[0] == found[1]
    assert found[0][0] < found[0][1]


def test_folders_without_a_model_are_refused(saved, tmp_path):
    with pytest.raises(RecipeError, match="holds no reward model") as caught:
        build(path=str(tmp_path))
    assert caught.value.remedy == "Train one first."
    with pytest.raises(RecipeError) as caught:
        build(path=str(saved[1].parent))
    assert caught.value.remedy == f"Choose one of those in it, as {saved[1]}."


def test_the_field_is_the_recipes(tmp_path):
    specs = [RewardSpec(name="exact"), RewardSpec(type="reward-model", path=str(tmp_path))]
    with pytest.raises(RecipeError) as caught:
        Scorer(specs, ScoringSpec())
    assert caught.value.field == "rewards[1]"


@pytest.mark.parametrize("arguments", [{"steps": 0}, {"batch": "many"}, {"max_tokens": -1}, {"size": 3}])
def test_wrong_arguments_are_refused(saved, arguments):
    with pytest.raises(RecipeError) as caught:
        Scorer([RewardSpec(type="reward-model", path=str(saved[1]), arguments=arguments)], ScoringSpec())
    assert caught.value.field == "rewards[0].arguments"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lr": -1}, "lr: Input should be greater than 0"),
        ({"evil": 1}, "evil: Extra inputs"),
        ({"local_steps": 1 << 40}, "1099511627776 steps of 16 pairs"),
        ({"local_steps": 1, "pairs_per_step": 1 << 40}, "steps of 1099511627776 pairs"),
    ],
)
def test_settings_of_another_party_are_read_as_such(saved, tmp_path, settings, words):
    folder, pairs = tmp_path / "model", tmp_path / "pairs.jsonl"
    shutil.copytree(saved[1], folder)
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | {"settings": settings}))
    pairs.write_text('{"prompt": "1 + 2 =", "chosen": "so 3", "rejected": "so 4"}\n')
    with pytest.raises(RecipeError, match=words):
        build(path=str(folder), pairs=str(pairs), device="cpu")
