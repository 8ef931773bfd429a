"""Kinds of interval that the program can print, and the published line of each that says how often it holds the truth.

A function that gives bounds to a number (`producers.py` finds them all) stands here once, under its kind. A kind has
a page of docs/results and the beginning of its lines there, or is no interval of confidence and says what it is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`lines`: how its lines in `page` begin; none for what claims no confidence of its own, which `what` explains."""

    what: str
    of: tuple[str, ...]
    page: str = ""
    lines: tuple[str, ...] = ()


KINDS = (
    Kind("a mean within a run", ("stats/estimator/interval.py:mean_interval",), "coverage.md", ("| mean |",)),
    Kind("a rate within a run", ("stats/estimator/rate.py:rate_interval",), "coverage.md", ("| rate |",)),
    Kind("a quantile within a run", ("stats/estimator/quantile.py:quantile",), "coverage.md",
         ("| p50 |", "| p90 |", "| p99 |", "| ITL p50 |", "| e2e p90 |")),
    Kind("a share within a run", ("stats/serving/goodput.py:share",), "coverage.md", ("| share |",)),
    Kind("goodput", ("stats/serving/goodput.py:_came", "stats/serving/goodput.py:_good_rate"), "coverage-served.md",
         ("| goodput_per_s |", "| goodput_per_s, closed loop |", "| slo_attainment |")),
    Kind("a quantile or a share of a run that ended when it was decided", (), "coverage-looks.md",
         ("| looks, independent |", "| looks, a queue |")),
    Kind("a quantile over runs", ("stats/estimator/quantile.py:pooled_quantile",), "coverage-served.md",
         ("| ttft_s_p50 |", "| e2e_latency_s_p50 |", "| e2e_latency_s_p90 |")),
    Kind("means of runs", ("stats/estimator/repeats.py:_of_means",), "coverage.md", ("| runs |",)),
    Kind("shares over runs", ("stats/estimator/repeats.py:_of_shares",), "coverage.md", ("| share over runs |",)),
    Kind("times to a target over runs", ("stats/estimator/repeats.py:_of_brackets",), "coverage.md",
         ("| time to target over runs |",)),
    Kind("a ratio of runs", ("stats/estimator/ratio.py:ratio_of_runs",), "coverage.md", ("| ratio of runs |",)),
    Kind("a difference of runs", ("stats/estimator/ratio.py:difference_of_runs",), "coverage.md",
         ("| difference of runs |",)),
    Kind("a ratio of two estimates", ("stats/estimator/ratio.py:ratio",), "coverage-others.md",
         ("| ratio of independent estimates |",)),
    Kind("a difference of two estimates; added waits take both at their worst, which is wider",
         ("stats/estimator/ratio.py:difference", "diagnosis/time_split.py:added_wait"), "coverage-others.md",
         ("| difference of independent estimates |",)),
    Kind("a ratio of points that took turns", ("stats/paired/ratio.py:ratio_over", "stats/paired/ratio.py:mean_over"),
         "coverage-paired.md",
         ("| quiet |", "| bursts of 1.5 s |", "| heavy tails |", "| 1.9, 1.4; bursts of 1.5 s, 30% |")),
    Kind("what a gateway predicts of a request: meant to hold nine in ten",
         ("gateway/routing/calibration.py:band", "gateway/routing/state.py:candidate"), "coverage-gateway.md",
         ("| TTFT of a gateway |", "| TPOT of a gateway |")),
    Kind("what a gateway adds, by turns", ("stats/paired/added.py:_difference",), "coverage-added.md",
         ("| added ttft_s_p50 |", "| added ttft_s_p99 |", "| added itl_s_p50 |", "| added itl_s_p99 |")),
    Kind("a quantile of points that met the same arrivals", ("stats/paired/arrivals.py:_median",),
         "coverage-arrivals.md", ("| arrivals, p50 |", "| arrivals, p90 |", "| arrivals, p99 |")),
    Kind("a mean over prompts or answers", ("stats/estimator/interval.py:mean_of_independent",), "coverage-others.md",
         ("| mean of independent values |", "| mean of skewed values |")),
    Kind("a mean of shares over prompts", ("stats/estimator/repeats.py:mean_of_shares",), "coverage-others.md",
         ("| mean of shares |",)),
    Kind("partings per token", ("stats/compliance.py:_parting", "stats/metrics/fidelity.py:_of_answers"),
         "coverage-others.md", ("| partings per token |",)),
    Kind("a ratio of times by ranks", ("stats/estimator/ratio.py:rank_ratio",), "coverage-others.md",
         ("| ratio of times |",)),
    Kind("a ceiling", ("executors/in_process/ceiling.py:rate",), "coverage-others.md", ("| median of a ceiling |",)),
    Kind("a slope of a steady part", ("stats/steady/slope.py:slope_from",), "coverage-others.md",
         ("| slope of a steady part |",)),
    Kind("the highest rate within an SLO; its ends in four digits, outward",
         ("stats/search/trial.py:so_far",), "coverage.md", ("| 16 slots, TTFT",)),
    Kind("shares of a search's runs as one", ("stats/search/trial.py:pooled",), "coverage.md", ("| M/G/16,",)),
    Kind(
        "another interval, moved by an exact law: a factor, an inverse, a logarithm, a cut at what can be",
        (
            "comparison/scaling.py:_less_one",
            "comparison/scaling.py:_negative", "comparison/effect.py:_no_narrower",
            "comparison/scaling.py:_inverse", "comparison/scaling.py:_times", "stats/compliance.py:_shifted",
            "stats/estimator/repeats.py:cut", "stats/estimator/repeats.py:inverse", "stats/estimator/repeats.py:scaled",
            "stats/metrics/fidelity.py:_clip", "stats/metrics/fidelity.py:_exponential",
            "stats/metrics/training.py:_gap", "stats/metrics/training.py:_share_of_time",
            "stats/server/metrics.py:_levels", "stats/serving/metrics.py:_not_negative",
            "stats/serving/latency.py:waits", "stats/steady/segment.py:retention", "api/plan/like.py:measured",
            "diagnosis/scale_out.py:utilisation",
        ),
    ),
    Kind(
        "another interval, made wider by what a change that could hide would do to it: it holds at least as often",
        (
            "stats/estimator/repeats.py:widened", "stats/estimator/repeats.py:widened_difference",
            "stats/summary/point.py:_moved",
        ),
    ),
    Kind(
        "no interval of confidence: a range, a bracket, or the ends of what was assumed or quoted, and said as that",
        (
            "stats/estimator/repeats.py:_range", "stats/metrics/energy.py:_spent", "stats/metrics/energy.py:_in_turns",
            "stats/metrics/energy.py:_to_target", "stats/metrics/training.py:_to_target",
            "diagnosis/counter.py:_matrix", "diagnosis/quantise.py:_predicted",
            "api/plan/reading/money.py:_rate", "executors/torch/parallel/over_ranks.py:_summed",
            "planning/cost/algebra.py:cents", "planning/cost/machine.py:figure", "planning/checkpoint.py:input",
            "planning/check/deadline.py:_of", "planning/method.py:_cost", "planning/method.py:_longer",
            "planning/method.py:_once", "planning/method.py:_over", "planning/method.py:_scaled",
            "planning/capacity/target.py:_tail",
            "claims/several.py:ends_of", "claims/several.py:ruling_of", "claims/meaning.py:_scaled",
            "claims/grammar.py:_elliptic", "claims/grammar.py:_of_groups",
        ),
    ),
    Kind(
        "a plan's band: that of the prediction it is worked out from",
        (
            "planning/capacity/serving.py:_devices", "planning/check/deadline.py:deadlines",
            "planning/check/deadline.py:device_hours", "planning/check/deadline.py:run_time",
            "planning/check/perceived.py:users_at", "planning/fit/answer.py:needed",
            "planning/prediction/band.py:band", "planning/prediction/band.py:band_of",
        ),
        "prediction.md", ("|",),
    ),
    Kind(
        "nine of ten simulations, each of its own seed and of constants as likely as the law's",
        (
            "simulation/points/figures.py:band", "simulation/points/figures.py:spread",
            "simulation/points/smallest.py:cost",
        ),
        "coverage-twins.md", ("|",),
    ),
    Kind("the gain of a tuning, from pairs of repeats", ("tuning/proof.py:ratio_of_pairs",), "coverage-tuning.md",
         ("| one value of a setting is worth 5 % |",)),
    Kind("what a setting is worth over the candidates of a search", ("tuning/effects.py:_estimate",),
         "coverage-tuning.md", ("| nothing differs |",)),
    Kind("a constant of a law that was learnt from a run's steps: held to its truth in tests/simulation/fit",
         ("simulation/fit/law.py:_estimates",)),
    Kind("a measured run beside simulations of it, five parts at once: not held to a truth yet",
         ("comparison/twin.py:_measured", "comparison/twin.py:_ratio", "comparison/twin.py:_simulated")),
    Kind("a drift of a burn-in", ("acceptance/trend.py:_slope",), "coverage-burnin.md", ("| drift |",)),
    Kind("what a burn-in sustained, and devices over their median", ("acceptance/rates.py:mean_of_logs",),
         "coverage-burnin.md", ("| sustained rate |",)),
    Kind("retention of a burn-in", ("acceptance/rates.py:retention",), "coverage-burnin.md", ("| retention |",)),
    Kind("events of a burn-in, in its worst quarter", ("acceptance/counts.py:worst_rate",), "coverage-burnin.md",
         ("| events an hour |",)),
    Kind("faults of a burn-in", ("acceptance/judge.py:fault_rate",), "coverage-burnin.md",
         ("| faults a device hour |",)),
)  # fmt: skip
