"""Presets of `streams.X.synchronous.jobs`: the keys that a name stands for; others can be given.

Marks: [S] seen in the named source; [S2] seen in a page that quotes it; [C] computed from these;
[A] ASSUMPTION. Sheet "Flexibility and mitigation", section 6.
"""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "llama3_405b_16k": {
        # Llama 3 405B, arXiv:2407.21783 by a ledger of its figures [S2]: 16 M tokens a step at 400
        # TFLOP/s per GPU, a step of 5.93 s [C]; 15.6 T tokens [S2], 67 days of steps [C].
        "n_gpus": 16_384,
        "parameters": 405e9,
        "tokens_per_step": 16e6,
        "tflops_per_gpu": 400.0,
        "tokens": 15.6e12,
        # 419 unexpected and 47 planned interruptions in 54 days [S] on 2,048 nodes [C].
        "failures_per_1000_node_days": 3.79,
        "planned_per_1000_node_days": 0.43,
    },
    "dense_70b_1k": {
        # A dense model of 70e9 parameters on 1,024 GPUs, 4 M tokens a step, a week of steps [A]; a
        # step of 4.1 s [C]. At this size the rate of failures is not confirmed: 1,024 GPUs were
        # measured at 7.9 h between failures [S2], where the rate of that cluster gives 28.8 h [C].
        "n_gpus": 1_024,
        "parameters": 70e9,
        "tokens_per_step": 4e6,
        "tflops_per_gpu": 400.0,
        "work_days": 7.0,
    },
    "dense_2t_100k": {
        # A dense model of 2e12 parameters on 100,000 GPUs, 32 M tokens a step, 90 days of steps
        # [A]; a step of 9.6 s [C]. With a failure every half hour [C] it must come back fast: one
        # minute until it is detected, one to reschedule, two to load [A]. Planned interruptions are
        # those of the job, not of its nodes: as many a day as Llama 3 had [S, C].
        "n_gpus": 100_000,
        "parameters": 2e12,
        "tokens_per_step": 32e6,
        "tflops_per_gpu": 400.0,
        "work_days": 90.0,
        "detection_median_s": 60.0,
        "reschedule_s": 60.0,
        "load_s": 120.0,
        "planned_per_1000_node_days": 0.07,
    },
}  # fmt: skip
"""Keys by preset."""

ALTERNATIVES = (
    ({"n_gpus"}, {"n_nodes"}),
    ({"period_s"}, {"parameters", "tflops_per_gpu"}),
    ({"work_days"}, {"tokens"}),
)
"""Of each pair a job has one: what is given puts the preset's other aside."""


def with_preset(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a job with those of its preset that it leaves open."""
    preset = dict(PRESETS[given["preset"]])
    told = {key for key, value in given.items() if value is not None}
    for pair in ALTERNATIVES:
        for one, other in (pair, pair[::-1]):
            if told & one:
                for key in other - told:
                    preset.pop(key, None)
    return {**preset, **given}
