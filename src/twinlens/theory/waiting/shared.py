"""Work that shares or takes turns: gradients sent beside backward, training in the gaps of serving, rollouts and steps.

All numbers may be arrays (theory/number.py).
"""

from __future__ import annotations

from twinlens.theory.number import Number, amount, choose, count, rate, share, smaller


def exposed_s(backward_s: Number, buckets: Number, bucket_s: Number) -> Number:
    """Seconds of an exchange of gradients that backward does not hide, in `buckets` alike that are ready evenly.

    Each takes `bucket_s`, one after another. The last is ready when backward ends, so one is never hidden; where an
    exchange takes longer than the piece of backward before it, they queue from the first.
    """
    many, each = count("buckets", buckets), amount("bucket_s", bucket_s)
    piece = amount("backward_s", backward_s) / many
    return choose(each > piece, piece + many * each - many * piece, each)


def wait_beside_training_s(
    load: Number, service_s: Number, service_cv: Number, step_s: Number, step_cv: Number = 0.0
) -> Number:
    """Mean wait of a request, served one at a time, where training takes a step whenever nobody waits.

    A step is never cut short. M/G/1 with vacations: the wait without training (Pollaczek–Khinchine) and what is left of
    a step, E[V²]/2E[V] (Doshi 1986, "Queueing systems with vacations", Queueing Systems 1).
    """
    busy, served = share("load", load), rate("service_s", service_s)
    alone = busy * served * (1 + amount("service_cv", service_cv) ** 2) / (2 * (1 - busy))
    return alone + rate("step_s", step_s) * (1 + amount("step_cv", step_cv) ** 2) / 2


def steps_in_gaps_per_s(load: Number, step_s: Number) -> Number:
    """Steps that training takes in a second where it has all the time that serving leaves: (1 − ρ)/E[V]."""
    return (1 - share("load", load)) / rate("step_s", step_s)


def cycle_s(rollout_s: Number, train_s: Number) -> Number:
    """Seconds of one update of synchronous reinforcement learning: the rollouts of a batch, then a step on them."""
    return amount("rollout_s", rollout_s) + amount("train_s", train_s)


def updates_per_s(rollout_s: Number, train_s: Number) -> Number:
    """Updates a second where batches are made while training steps on others: that of the slower of the two."""
    return smaller(1 / rate("rollout_s", rollout_s), 1 / rate("train_s", train_s))


def age_updates(in_flight: Number, batch: Number, train_s: Number, rollout_per_s: Number) -> Number:
    """Updates between the weights that made a sample and those that train on it, on average, where training waits.

    `in_flight` rollouts are always under way, and give `rollout_per_s` samples, of which each update takes `batch`.
    Exact, as Little's law is: each update makes all samples older that are under way or wait when it ends, which are
    those in flight and those that came during `train_s`.
    """
    came = amount("train_s", train_s) * rate("rollout_per_s", rollout_per_s)
    return (rate("in_flight", in_flight) + came) / rate("batch", batch)
