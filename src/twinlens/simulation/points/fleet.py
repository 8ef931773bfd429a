"""A fleet of equal replicas, as points are served by it: how many, how requests are routed, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass

from twinlens.errors import BadInput
from twinlens.simulation.fleet import Replica
from twinlens.simulation.law import StepLaw
from twinlens.simulation.noise import Noise
from twinlens.simulation.routing import Policy, Routing
from twinlens.simulation.rules import Rules
from twinlens.spec.study import RunSpec


@dataclass(frozen=True, slots=True)
class Fleet:
    """`replicas` [>= 1] alike. The first dies at `dies_s` and is back `down_s` later with an empty cache; None: never.

    The last takes `slow` times as long for every step. `prefill`: the first so many compute prompts alone, whose KV
    cache goes to the others over one link of `link_bytes_per_s`, which transfers share; 0: each replica does both.
    """

    replicas: int = 1
    policy: Policy = "round-robin"
    signal_age_s: float = 0.0
    dies_s: float | None = None
    down_s: float | None = None
    slow: float = 1.0
    prefill: int = 0
    link_bytes_per_s: float = 0.0

    @property
    def size(self) -> str:
        """ "4 replicas", "pools of 2+4"."""
        if self.prefill:
            return f"pools of {self.prefill}+{self.replicas - self.prefill}"
        return f"{self.replicas} replica{'' if self.replicas == 1 else 's'}"

    @property
    def name(self) -> str:
        """ "4 replicas, shortest-queue"; of one, there is nothing to route."""
        return self.size if self.replicas == 1 else f"{self.size}, {self.policy}"

    @property
    def engines(self) -> float:
        """Engines at full speed that serve as much, while all are there."""
        return self.replicas - 1 + 1 / self.slow

    def members(self, law: StepLaw, rules: Rules, noise: Noise | None) -> list[Replica]:
        """Its replicas under a law."""
        last = self.replicas - 1
        return [
            Replica(rules, law, noise, self.slow if place == last else 1.0,
                    dies_s=None if place else self.dies_s, down_s=None if place else self.down_s)
            for place in range(self.replicas)
        ]  # fmt: skip

    def routing(self, seed: int) -> Routing:
        """How one simulation routes: chance has the seed of its load."""
        return Routing(self.policy, self.signal_age_s, seed=seed)

    def options(self) -> dict[str, str | int | float]:
        """What the run folders keep of it, as options of the executor."""
        told: dict[str, str | int | float | None] = {
            "replicas": self.replicas, "routing": self.policy if self.replicas > 1 else None,
            "signal_age_s": self.signal_age_s or None, "replica_dies_s": self.dies_s, "replica_down_s": self.down_s,
            "replica_slow": self.slow if self.slow != 1 else None,
            "prefill_replicas": self.prefill or None, "link_bytes_per_s": self.link_bytes_per_s or None,
        }  # fmt: skip
        return {name: value for name, value in told.items() if value is not None}


def refuse_waiting(spec: RunSpec, plan_known: bool, fleet: Fleet) -> None:
    """Raises BadInput (TL250) for a load that a fleet does not serve."""
    if spec.point.admission is not None:
        raise BadInput(
            "a fleet takes requests as they arrive, and this load is held back in batches; leave point.admission out, "
            "or batch in the engines (--batching 'engine:static(8)')", code="TL250")  # fmt: skip
    if not plan_known and (fleet.dies_s is not None or fleet.prefill):
        what = "--failing" if fleet.dies_s is not None else "--pools"
        raise BadInput(
            f"in this load some requests wait for answers (sessions, or so many in flight), and {what} takes requests "
            f"by a schedule; give rates (--at rate_per_s=4), or leave {what} out", code="TL250")  # fmt: skip
