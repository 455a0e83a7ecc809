"""What the receiver's policy says of completions: one forward pass for all checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from hanse.policy.logprobs import ReadPrompts, read_prompts
from hanse.policy.noise import gumbel_noise, stream_keys
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampling, truncate

_LOGITS_AT_ONCE = 1 << 27
"""Logits that a forward pass may give at once (512 MiB in float32), unless one completion has more."""

_TOKENS_AT_ONCE = 1 << 11
"""Completion tokens that go through a model at once: more do not fit a processor's caches."""

_PROMPTS_AT_ONCE = 32

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

    `top_k`: of the margin; None is the sampler's. `lengths_PG`: what is behind them is left out (0), which
    saves time. `edge`: see EDGE. Prompts are read once.
    """
    P, G, T = tokens_PGT.shape
    device = policy.device
    lengths = (torch.full((P, G), T) if lengths_PG is None else lengths_PG.long().cpu()).flatten()
    seeds = torch.tensor(list(seeds_P), dtype=torch.int64).repeat_interleave(G)
    keys = stream_keys(seeds, slots_PG.to(seeds).reshape(-1))
    reader = _Reader(sampling, policy.vocabulary, sampling.top_k if top_k is None else top_k, edge)
    policy.model.eval()
    out = torch.zeros(len(fields(Readings)), P * G, T, device=device)
    for p in range(0, P, _PROMPTS_AT_ONCE):
        some = slice(p * G, min(P, p + _PROMPTS_AT_ONCE) * G)
        prompts = read_prompts(policy, prompts_P[p : p + _PROMPTS_AT_ONCE], device)
        rows = _Rows(tokens_PGT.view(P * G, T)[some].to(device), lengths[some], keys[some].to(device), G)
        reader.fill(out[:, some], rows, prompts)
    return Readings(*out.to(tokens_PGT.device).unbind(0))


@dataclass(frozen=True)
class _Rows:
    """Completions of prompts in a row, G of each. Lengths stay on the CPU: they decide shapes."""

    tokens_NT: Tensor
    lengths_N: Tensor
    keys_N: Tensor
    G: int


def _batches(lengths_N: Tensor, vocabulary: int) -> Iterator[Tensor]:
    """Indices of rows of more than one token, by rising length, so many at once that nothing grows large."""
    most = min(_TOKENS_AT_ONCE, _LOGITS_AT_ONCE // vocabulary)
    order = lengths_N.argsort(stable=True)
    order = order[lengths_N[order] > 1]
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * (int(lengths_N[order[stop]]) - 1) <= most:
            stop += 1
        yield order[start:stop]
        start = stop


@dataclass(frozen=True)
class _Reader:
    """Reduces logits to readings. `top_k`: of the margin; 0 where nothing is cut."""

    sampling: Sampling
    vocabulary: int
    top_k: int
    edge: float

    def fill(self, out_NT: Tensor, of: _Rows, prompts: ReadPrompts) -> None:
        """All readings of the rows into `out_NT`, shape (readings, N, T)."""
        device = of.keys_N.device
        begun = of.lengths_N.nonzero().squeeze(1).to(device)
        first = torch.zeros_like(begun)
        out_NT[:, begun, 0] = self.read(
            prompts.first_PV, begun // of.G, of.tokens_NT[begun, 0], of.keys_N[begun], first
        )
        for some in _batches(of.lengths_N, self.vocabulary):
            inner = of.lengths_N[some] - 1
            width = int(inner[-1])
            row, t = (torch.arange(width) < inner.unsqueeze(1)).nonzero(as_tuple=True)
            place, row, t = (row * width + t).to(device), some[row].to(device), (t + 1).to(device)
            some = some.to(device)
            logits = prompts.follow(some // of.G, of.tokens_NT[some, : width + 1]).flatten(0, 1)
            out_NT[:, row, t] = self.read(logits, place, of.tokens_NT[row, t], of.keys_N[row], t)

    def read(
        self, logits_MV: Tensor, rows_R: Tensor, tokens_R: Tensor, keys_R: Tensor, positions_R: Tensor
    ) -> Tensor:
        """Of R places with the logits of `rows_R`. Shape (readings, R)."""
        step = max(1, _ENTRIES_AT_ONCE // self.vocabulary)
        parts = [x.split(step) for x in (rows_R, tokens_R, keys_R, positions_R)]
        found = [self._values(logits_MV[row], *rest) for row, *rest in zip(*parts, strict=True)]
        return torch.cat(found, 1)

    def _values(self, logits_RV: Tensor, tokens_R: Tensor, keys_R: Tensor, positions_R: Tensor) -> Tensor:
        """All readings of R places. Shape (readings, R)."""
        sampling, token = self.sampling, tokens_R.unsqueeze(1)
        logp = torch.log_softmax(logits_RV.float() / sampling.temperature, dim=-1)
        own = logp.gather(1, token).squeeze(1)
        p, surprise = logp.exp(), logp.clamp(min=-1e4)
        weighted = p * surprise
        entropy = -weighted.sum(1)
        variance = weighted.mul_(surprise).sum(1) - entropy.square()
        last, out = _cut(logp, sampling.top_k)
        kept = torch.zeros_like(own)
        if sampling.top_p < 1.0:
            kept = truncate(logp, sampling.top_k, sampling.top_p).logsumexp(1)
        elif sampling.truncates:
            kept = p.masked_fill_(logp < last.unsqueeze(1), 0.0).sum(1).log()
        margin = own - (last if self.top_k == sampling.top_k else _cut(logp, self.top_k)[0])
        gap = own - logp.amax(1)
        score = logp if sampling.greedy else logp + gumbel_noise(keys_R, positions_R, logp.shape[1])
        lead = self._lead(logp, score, score.gather(1, token).squeeze(1), own, last, out)
        return torch.stack([own, kept, entropy, variance.clamp(min=0), margin, gap, lead])

    def _lead(
        self, logp_RV: Tensor, score_RV: Tensor, score_R: Tensor, own_R: Tensor, last_R: Tensor, out_R: Tensor
    ) -> Tensor:
        """How much the best score that surely passes exceeds the token's, or how far that is cut off."""
        if not self.sampling.truncates:
            return score_RV.amax(1) - score_R
        sure, may = out_R + self.edge, last_R
        if self.sampling.top_p < 1.0:
            nucleus_sure, nucleus_may = _nucleus(logp_RV, self.sampling, last_R, self.edge)
            sure, may = torch.maximum(sure, nucleus_sure), torch.maximum(may, nucleus_may)
        best = score_RV.masked_fill(logp_RV < sure.unsqueeze(1), -torch.inf).amax(1)
        return torch.maximum(best - score_R, may - own_R)


def _cut(logp_RV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k-th largest of each row, the last that top-k keeps, and the one after it; -inf where k cuts
    nothing. Shape (R,) each."""
    if not 0 < k < logp_RV.shape[1]:
        nothing = logp_RV.new_full((len(logp_RV),), -torch.inf)
        return nothing, nothing
    last = logp_RV.topk(k + 1, dim=1).values[:, -2:]
    return last[:, 0], last[:, 1]


def _nucleus(logp_RV: Tensor, sampling: Sampling, kth_R: Tensor, edge: float) -> tuple[Tensor, Tensor]:
    """Log-probs from which tokens surely pass top-p behind top-k, and below which they surely do not,
    whatever rounding within `edge` does: by the mass before a token, at most and at least. Shape (R,) each.

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
