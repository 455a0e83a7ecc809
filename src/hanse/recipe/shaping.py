"""`[grpo.shaping]`: what becomes of rewards before they are compared, in this order.

`consensus` mixes in how many intermediate results a completion reaches, `dra` divides by likeness to the rest
of the group, `bot` gives tokens rewards of their own. Each has `enabled` and works alone or with the others.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hanse.recipe.section import Section


class ChatSpec(Section):
    """An OpenAI-compatible `url` with `model`; the key is in the environment variable `key_variable`."""

    url: str = Field(pattern="^https?://")
    model: str
    key_variable: str = "HANSE_JUDGE_KEY"
    temperature: float = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=768, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)


class BuildSpec(Section):
    """`hanse consensus build`: `rollouts` a problem of the untrained policy; a result is a node where at
    least `least` right ones and the share `support` of them have it; `most` nodes a problem."""

    rollouts: int = Field(default=16, ge=2)
    support: float = Field(default=0.5, gt=0, le=1)
    least: int = Field(default=2, ge=1)
    most: int = Field(default=8, ge=1)
    problems_per_level: int | None = Field(default=None, ge=1)


class ConsensusSpec(Section):
    """ConsensusPR (2609.04648): reward = alpha × node coverage + (1 - alpha) × reward.

    `nodes`: the file of `hanse consensus build`. `curriculum`: "mix" all along, or only one of the two until
    the share `switch_at` of the steps is done and then the other. `dump_limit`: distinct numbers a node that
    a completion may name before its coverage shrinks.
    """

    enabled: bool = False
    nodes: str | None = None
    alpha: float = Field(default=0.5, ge=0, le=1)
    curriculum: Literal["mix", "process-first", "outcome-first"] = "mix"
    switch_at: float = Field(default=0.5, gt=0, lt=1)
    dump_limit: float = Field(default=4.0, ge=1)
    build: BuildSpec = BuildSpec()


class DraSpec(Section):
    """DRA (2505.09655): reward / (1 + summed similarity to the rest of the group).

    `embedder`: "ngrams" hashes `ngram` bytes at a time into `width` counts; "minilm" is packaged (extra
    `embed`); "sentence-transformers" loads `model`. `rewards`: which are divided; dividing a negative one
    would soften it. `skip_equal`: groups of equal rewards stay without advantage, instead of learning the
    embedder's noise. `normalise`: multiply by the group's mean divisor, which keeps the rewards' size.
    """

    enabled: bool = False
    embedder: Literal["ngrams", "minilm", "sentence-transformers"] = "ngrams"
    model: str | None = None
    ngram: int = Field(default=4, ge=1, le=16)
    width: int = Field(default=4096, ge=16, le=1 << 20)
    rewards: Literal["positive", "all"] = "positive"
    skip_equal: bool = True
    normalise: bool = False


class BotSpec(Section):
    """BoT (2610.09804): a token's reward is global_weight × reward + local_weight × its step's verdict.

    `judge`: "arithmetic" does the sums of each step, "chat" asks the model of `[grpo.shaping.bot.chat]`.
    Steps are lines, or parts between semicolons, inside `<within>` tags where a completion has them.
    `after_error`: verdicts behind the first wrong step count as none ("none"), or as given ("own").
    """

    enabled: bool = False
    global_weight: float = Field(default=3.0, ge=0)
    local_weight: float = Field(default=0.5, ge=0)
    judge: Literal["arithmetic", "chat"] = "arithmetic"
    chat: ChatSpec | None = None
    within: str = Field(default="think", pattern="^[A-Za-z][A-Za-z0-9_-]{0,30}$")
    after_error: Literal["none", "own"] = "none"


class ShapingSpec(Section):
    """What shapes rewards, in order."""

    consensus: ConsensusSpec = ConsensusSpec()
    dra: DraSpec = DraSpec()
    bot: BotSpec = BotSpec()

    @property
    def enabled(self) -> bool:
        return self.consensus.enabled or self.dra.enabled or self.bot.enabled
