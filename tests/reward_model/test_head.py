"""The head: what a score is read from, on the functional forward and on a model's own, full and with LoRA."""

import copy

import pytest
import torch

from hanse.policy.build import build_policy
from hanse.recipe.model import HfPolicy, TinyPolicy
from hanse.reward_model.head import HEAD, RewardModel
from tests.policy.random_models import write_model
from tests.reward_model.made import POLICY, make_model, make_task

ROWS = [(2, 3, 4, 1), (5, 1), (7, 8, 9, 10, 11, 1)]


def with_head(model: RewardModel) -> RewardModel:
    draw = torch.Generator().manual_seed(1)
    model.module.head.weight.data.copy_(torch.randn(model.module.head.weight.shape, generator=draw))
    return model


def test_a_fresh_head_prefers_nothing():
    assert make_model().scores(ROWS).tolist() == [0, 0, 0]


def test_a_score_is_the_head_times_the_last_hidden_state():
    model = with_head(make_model())
    plain = model.policy.model
    for row in ROWS:
        states = plain.model(input_ids=torch.tensor([row])).last_hidden_state
        expected = (states[0, -1] @ model.module.head.weight[0]).item()
        assert model.scores([row]).item() == pytest.approx(expected, abs=1e-5)


def test_a_score_does_not_depend_on_batch_mates():
    model = with_head(make_model())
    together = model.scores(ROWS)
    alone = torch.cat([model.scores([row]) for row in ROWS])
    assert torch.allclose(together, alone, atol=1e-5)


def test_another_models_own_forward_gives_the_same():
    model = with_head(make_model())
    expected = model.scores(ROWS)
    own = copy.deepcopy(model.module)
    own.backbone.model.register_forward_hook(lambda *_: None)  # no longer plain
    lengths = torch.tensor([len(row) for row in ROWS])
    width = int(lengths.max())
    ids = torch.tensor([[0] * (width - len(row)) + list(row) for row in ROWS])
    assert torch.allclose(own(ids, lengths), expected, atol=1e-5)


def test_head_entries_are_those_of_the_head():
    model = make_model()
    model.parameters.master[model.head_entries] = 7.0
    assert (model.module.head.weight == 7).all()
    assert model.parameters.master.eq(7).sum() >= 16


def test_scores_in_batches_keep_their_order():
    model = with_head(make_model())
    assert torch.allclose(model.score_all(ROWS, batch=2), model.scores(ROWS).detach(), atol=1e-5)


def test_the_head_alone_trains():
    model = make_model(train_backbone=False)
    assert model.parameters.names == (HEAD,)
    assert model.head_entries == slice(0, 16)


def test_lora_trains_adapters_and_head():
    model = with_head(make_model(train="lora"))
    assert all("lora" in name or name == HEAD for name in model.parameters.names)
    model.parameters.start_gradients()
    model.scores(ROWS).sum().backward()
    assert float(model.parameters.grad[model.head_entries].abs().sum()) > 0
    assert float(model.parameters.grad.abs().sum()) > float(
        model.parameters.grad[model.head_entries].abs().sum()
    )


def test_prompt_completion_and_end_are_read():
    model = make_model()
    ids = model.encode("1 + 2 =", "so 3")
    tokenizer = model.policy.tokenizer
    assert ids == (*tokenizer("1 + 2 = so 3")["input_ids"], 1)


def test_long_completions_are_cut_and_prompts_give_way():
    model = make_model(max_tokens=60)
    ids = model.encode("1 + 2 =", " ".join(["so"] * 1000))
    so = model.policy.tokenizer("so")["input_ids"][0]
    assert len(ids) == 64  # the context
    assert ids[-61:] == (*([so] * 60), 1)
    assert ids[:3] == tuple(model.policy.tokenizer("+ 2 =")["input_ids"])


def test_text_beyond_what_could_be_read_is_not_tokenised():
    model, asked = make_model(max_tokens=4), []
    tokenizer = model.policy.tokenizer

    class Watched:
        def __call__(self, text, **options):
            asked.append(len(text))
            return tokenizer(text, **options)

        def __getattr__(self, name):
            return getattr(tokenizer, name)

    model.policy.tokenizer = Watched()
    model.encode("1 + 2 =", "so " * 100_000)
    assert max(asked) == 4 * 32


def test_an_output_layer_of_its_own_is_not_exchanged():
    policy = build_policy(TinyPolicy(**POLICY), 0, None, make_task().vocabulary)
    policy.model.lm_head.weight = torch.nn.Parameter(policy.model.lm_head.weight.detach().clone())
    policy.model.config.tie_word_embeddings = False
    assert not any("lm_head" in name for name in RewardModel.on(policy, max_tokens=8).parameters.names)


@pytest.mark.parametrize("architecture", ["qwen2", "gemma2", "gpt_neox", "gpt2"])
@pytest.mark.parametrize("train", ["full", "lora"])
def test_any_backbone(architecture, train, tmp_path):
    """A score of a left-padded batch is that of each row alone, and gradients reach head and backbone."""
    folder = write_model(tmp_path / "model", architecture)
    policy = build_policy(HfPolicy(type="hf", path=str(folder), train=train, device="cpu"), 0)
    model = with_head(RewardModel.on(policy, max_tokens=16))
    rows = [model.encode("abc", "hello"), model.encode("a longer prompt", "yes, no, yes"), (5, 1)]
    together = model.scores(rows)
    alone = torch.cat([model.scores([row]) for row in rows])
    assert torch.allclose(together, alone, atol=1e-4)
    assert together.std() > 1e-3
    model.parameters.start_gradients()
    together.sum().backward()
    grads = model.parameters.views(model.parameters.grad)
    assert float(grads[HEAD].abs().sum()) > 0
    assert sum(float(g.abs().sum()) for name, g in grads.items() if name != HEAD) > 0
