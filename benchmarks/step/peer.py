"""TRL's side: GRPOTrainer in its own training loop, with everything optional switched off."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hanse.policy.policy import Policy
from hanse.tasks.problem import Problem
from step.cases import Case, peer_model, reward
from step.ours import synchronize


class Peer:
    """`run` trains. It calls `between(None)` before the first repeat, `between(seconds a step)` after each.

    The clock stands still meanwhile.
    """

    def __init__(self, case: Case, policy: Policy, problems: Sequence[Problem]) -> None:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        self.case, self.policy, self.problems = case, policy, problems
        self.model, self.adapter = peer_model(case, policy)
        self.generate_seconds: list[float] = []

    def run(self, repeats: int, warm_up: int, between: Callable[[float | None], None]) -> None:
        from datasets import Dataset
        from trl import GRPOTrainer

        clock = _clock(warm_up, self.case.steps, between)
        rows = [{"prompt": p.prompt, "marks": p.metadata["marks"]} for p in self.problems]
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = GRPOTrainer(
                model=self.model,
                reward_funcs=reward,
                args=self._arguments(folder, warm_up + repeats * self.case.steps),
                train_dataset=Dataset.from_list(rows),
                processing_class=self.policy.tokenizer,
                peft_config=self.adapter,
                callbacks=[clock],
            )
            trainer.eos_token_ids = [self._no_token]
            self._watch_generation(trainer)
            trainer.train()

    def median_generate(self, warm_up: int) -> float:
        return statistics.median(self.generate_seconds[warm_up:])

    @property
    def _no_token(self) -> int:
        """An end token that cannot be sampled: every completion has full length."""
        return self.policy.vocabulary + 7

    def _arguments(self, folder: str, steps: int) -> Any:
        from trl import GRPOConfig

        case, cuda = self.case, torch.cuda.is_available()
        rollouts = case.P * case.G
        micro_batch = case.peer_micro_batch or rollouts
        return GRPOConfig(
            output_dir=folder,
            use_cpu=not cuda,
            bf16=cuda,
            gradient_checkpointing=False,
            report_to=[],
            logging_strategy="no",
            save_strategy="no",
            disable_tqdm=True,
            dataloader_num_workers=0,
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=rollouts // micro_batch,
            num_generations=case.G,
            max_completion_length=case.T,
            max_steps=steps,
            learning_rate=case.lr,
            lr_scheduler_type="constant",
            loss_type="grpo",
            beta=0.0,
            shuffle_dataset=False,
            generation_kwargs={"eos_token_id": [self._no_token]},
        )

    def _watch_generation(self, trainer: Any) -> None:
        model = trainer.model
        generate = model.generate

        def watched(*args: Any, **kwargs: Any) -> Any:
            synchronize()
            start = time.perf_counter()
            output = generate(*args, **kwargs)
            synchronize()
            self.generate_seconds.append(time.perf_counter() - start)
            return output

        model.generate = watched


def _clock(warm_up: int, steps: int, between: Callable[[float | None], None]) -> Any:
    """A callback that times repeats of `steps` steps, each from the end of a step to the end of another."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        def __init__(self) -> None:
            self._done, self._start = 0, 0.0

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self._done += 1
            timed = self._done - warm_up
            if timed < 0 or timed % steps:
                return
            synchronize()
            between((time.perf_counter() - self._start) / steps if timed else None)
            self._start = time.perf_counter()

    return Clock()
