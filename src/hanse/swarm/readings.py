"""What the receiver's policy says of completions: one forward pass for all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from hanse.policy.logprobs import completion_logits
from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampling, truncate

_LOGITS_AT_ONCE = 1 << 26
"""Logits that a forward pass may give at once (256 MiB in float32), unless one completion has more."""

_ENTRIES_AT_ONCE = 1 << 21
"""Vocabulary entries that are reduced at once: bounds the scratch memory."""

EDGE = 1e-3
"""Logits, over temperature, within which rounding may move a token across the sampler's cut. Float32 needs
about 1e-5."""


@dataclass(frozen=True)
class Readings:
    """Float32, shape (N, T); behind a completion's end they mean nothing. At the sampler's temperature,
    before truncation, unless said otherwise.

    `logp`: of the token. `kept`: log of the mass that the sampler's truncation keeps (0: nothing is cut).
    `entropy`, `variance`: mean and variance of -log p of a token drawn at this place.
    `margin`: the token's logit (over temperature) minus the k-th largest, k = `top_k` (inf where nothing
    is cut). `gap`: log p of the token minus that of the likeliest. `replay`: how much the best perturbed
    score among tokens that surely pass the sampler's truncation exceeds the token's own, in the slot's
    random stream, or, if more, how far the token is below what may pass: at most rounding for the sampler's
    own completions.
    """

    logp_NT: Tensor
    kept_NT: Tensor
    entropy_NT: Tensor
    variance_NT: Tensor
    margin_NT: Tensor
    gap_NT: Tensor
    replay_NT: Tensor

    def select(self, rows: Tensor | Sequence[int]) -> Readings:
        """Of some completions only."""
        index = torch.as_tensor(rows, dtype=torch.int64, device=self.logp_NT.device)
        return Readings(*(getattr(self, f.name)[index] for f in fields(self)))


@torch.no_grad()
def read_completions(
    policy: Policy,
    prompts_P: list[tuple[int, ...]],
    tokens_PGT: Tensor,
    seeds_P: Sequence[int],
    slots_PG: Tensor,
    sampling: Sampling,
    top_k: int | None = None,
    *,
    lengths_PG: Tensor | None = None,
    edge: float = EDGE,
) -> Readings:
    """Readings of G completions of each of P prompts, rows in (P, G) order, where the tokens are.

    `top_k`: of the margin; None is the sampler's. `lengths_PG`: what is behind them is left out (0), for
    speed. `edge`: see EDGE. A prompt is read once a group, unless a single group has too many logits.
    """
    P, G, T = tokens_PGT.shape
    device = policy.device
    full = torch.full((P, G), T)
    lengths = full if lengths_PG is None else lengths_PG.to(full)
    seeds = torch.tensor(list(seeds_P), dtype=torch.int64).unsqueeze(1).expand(P, G)
    keys = stream_keys(seeds.reshape(-1), slots_PG.to(seeds).reshape(-1)).view(P, G).to(device)
    reader = _Reader(sampling, policy.vocabulary, sampling.top_k if top_k is None else top_k, edge)
    policy.model.eval()
    out = torch.zeros(len(fields(Readings)), P, G, T, device=tokens_PGT.device)
    for some, slots in _parts(P, G, T * policy.vocabulary):
        width = int(lengths[some, slots].max())
        if width:
            real = (torch.arange(width) < lengths[some, slots].unsqueeze(-1)).to(device)
            tokens = tokens_PGT[some, slots, :width].to(device)
            logits = completion_logits(policy, prompts_P[some], tokens)
            found = reader.read(*logits, tokens, keys[some, slots], real)
            out[:, some, slots, :width] = found.to(out.device)
    return Readings(*out.view(-1, P * G, T).unbind(0))


def _parts(P: int, G: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Whole groups as many as fit, `size` being the logits of one completion; else parts of a single one."""
    most = max(1, _LOGITS_AT_ONCE // size)
    groups, slots = max(1, most // G), min(G, most)
    for p in range(0, P, groups):
        for g in range(0, G, slots):
            yield slice(p, p + groups), slice(g, g + slots)


@dataclass(frozen=True)
class _Reader:
    """Reduces logits to readings. `top_k`: of the margin; 0 where nothing is cut."""

    sampling: Sampling
    vocabulary: int
    top_k: int
    edge: float

    def read(
        self, first: Tensor, rest: Tensor, tokens_PGT: Tensor, keys_PG: Tensor, real_PGT: Tensor
    ) -> Tensor:
        """From `completion_logits`. Shape (readings, P, G, T), 0 where nothing is real."""
        P, G, T = tokens_PGT.shape
        out = torch.zeros(len(fields(Readings)), P * G, T, device=tokens_PGT.device)
        tokens, real, keys = tokens_PGT.reshape(P * G, T), real_PGT.reshape(P * G, T), keys_PG.flatten()
        group = torch.arange(P * G, device=out.device).div(G // first.shape[1], rounding_mode="floor")
        for row in real[:, 0].nonzero().squeeze(1).split(self._rows):
            logits = first.flatten(0, 1)[group[row]]
            out[:, row, 0] = self._values(logits, tokens[row, 0], keys[row], torch.zeros_like(row))
        if T == 1:
            return out.view(-1, P, G, T)
        for place in real[:, 1:].reshape(-1).nonzero().squeeze(1).split(self._rows):
            row, t = place.div(T - 1, rounding_mode="floor"), place % (T - 1)
            found = self._values(rest[row, t], tokens[row, t + 1], keys[row], t + 1)
            out[:, row, t + 1] = found
        return out.view(-1, P, G, T)

    @property
    def _rows(self) -> int:
        return max(1, _ENTRIES_AT_ONCE // self.vocabulary)

    def _values(self, logits_RV: Tensor, tokens_R: Tensor, keys_R: Tensor, positions_R: Tensor) -> Tensor:
        """All readings of R places. Shape (readings, R)."""
        sampling, token = self.sampling, tokens_R.unsqueeze(1)
        logp = torch.log_softmax(logits_RV.float() / sampling.temperature, dim=-1)
        own = logp.gather(1, token).squeeze(1)
        p = logp.exp()
        surprise = logp.clamp(min=-1e4)
        entropy = -(p * surprise).sum(1)
        variance = (p * surprise.square()).sum(1) - entropy.square()
        kept = torch.zeros_like(own)
        if sampling.truncates:
            kept = truncate(logp, sampling.top_k, sampling.top_p).logsumexp(1)
        margin = own - _cut(logp, self.top_k)[0]
        replay = self._replay(logp, token, keys_R, positions_R)
        gap = own - logp.amax(1)
        return torch.stack([own, kept, entropy, variance.clamp(min=0), margin, gap, replay])

    def _replay(self, logp_RV: Tensor, token_R1: Tensor, keys_R: Tensor, positions_R: Tensor) -> Tensor:
        score = logp_RV
        if not self.sampling.greedy:
            score = logp_RV + gumbel_noise(keys_R, positions_R, logp_RV.shape[1])
        own = score.gather(1, token_R1).squeeze(1)
        if not self.sampling.truncates:
            return score.amax(1) - own
        sure, may = _floors(logp_RV, self.sampling, self.edge)
        best = score.masked_fill(logp_RV < sure.unsqueeze(1), -torch.inf).amax(1)
        return torch.maximum(best - own, may - logp_RV.gather(1, token_R1).squeeze(1))


def _cut(logp_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k-th largest of each row, the last that top-k keeps, and the one after it; -inf where k cuts
    nothing. Shape (R,) each."""
    if not 0 < k < logp_RV.shape[1]:
        nothing = logp_RV.new_full((len(logp_RV),), -torch.inf)
        return nothing, nothing
    last = logp_RV.topk(k + 1, dim=1).values[:, -2:]
    return last[:, 0], last[:, 1]


def _floors(logp_RV: Tensor, sampling: Sampling, edge: float) -> tuple[Tensor, Tensor]:
    """Log-probs from which tokens surely pass the truncation, and below which they surely do not, whatever
    rounding within `edge` does. Shape (R,) each."""
    may, out = _cut(logp_RV, sampling.top_k)
    if sampling.top_p >= 1.0:
        return out + edge, may
    nucleus_sure, nucleus_may = _nucleus(logp_RV, sampling, may, edge)
    return torch.maximum(out + edge, nucleus_sure), torch.maximum(may, nucleus_may)


def _nucleus(logp_RV: Tensor, sampling: Sampling, kth_R: Tensor, edge: float) -> tuple[Tensor, Tensor]:
    """The same for top-p behind top-k: the mass before a token, at most and at least.

    Near ties may change the order, and at the k-th logit the mass that all is divided by.
    """
    V = logp_RV.shape[1]
    ordered = logp_RV.sort(dim=1, descending=True).values
    p, falling = ordered.exp(), -ordered
    mass = torch.nn.functional.pad(p.cumsum(1), (1, 0))
    least = mass[:, sampling.top_k if 0 < sampling.top_k < V else V].unsqueeze(1)
    within = torch.searchsorted(falling, (edge - kth_R).unsqueeze(1).contiguous(), right=True)
    most = mass.gather(1, within)
    before_most = mass.gather(1, torch.searchsorted(falling, falling + edge)) - p
    before_least = mass.gather(1, torch.searchsorted(falling, falling - edge))
    sure = ordered.masked_fill(before_most / least >= sampling.top_p - edge, torch.inf).amin(1)
    may = ordered.masked_fill(before_least / most >= sampling.top_p + edge, torch.inf).amin(1)
    return sure, may
