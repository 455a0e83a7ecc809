"""The server: one of Hanse's strategies, in a ServerApp like any other."""

from __future__ import annotations

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from hanse.runtime.flower.strategies import HanseRewardWeighted, HanseRobust
from town.policy import new_policy, to_arrays

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    seed, rounds = int(context.run_config["seed"]), int(context.run_config["rounds"])
    chosen = {"reward-weighted": HanseRewardWeighted, "robust": HanseRobust}
    strategy = chosen[str(context.run_config["strategy"])](seed=seed)
    result = strategy.start(grid, to_arrays(new_policy(seed)), num_rounds=rounds)
    for number, metrics in result.train_metrics_clientapp.items():
        print(f"round {number}: mean reward {metrics['reward-mean']:.3f}")
    print("weights of the last round:", {node: round(w, 3) for node, w in strategy.weights.items()})
    print("refused:", dict(strategy.ledger) or "nothing")
