"""Values of several keys that no scenario can have together: each is one line with its
place and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from builders import TINY, tiny_scenario

from diploee.base.errors import InputError

STREAM, POOL, STAGES = "streams.training", "facility.pools.main", "facility.stages"
NODE = "facility.node_types.node"
CLASS = {"workload": "tune", "n_nodes": 1, "probability": 1}
ARRAYS = {"job_share": 0.5, "sizes": {2: 0.5, 3: 0.5}}
LASTING = {"lognormal": [{"weight": 1.0, "median_s": 60, "sigma": 1.0}]}
SYNCHRONOUS = {"jobs": [{"preset": "dense_70b_1k", "n_gpus": 8}]}
BATTERY: dict[str, Any] = {
    "kind": "battery",
    "power_mw": 1.0,
    "energy_mwh": 1.0,
    "ramp_limit": {"up_mw_per_min": 1},
}
LIMIT = {"kind": "ramp_limit"}
UPS, AUXILIARY = {"kind": "ups"}, {"kind": "auxiliary_load"}
OTHER_POOL = {"node_type": "node", "n_nodes": 2, "scale_profiles": "by_tdp"}


def phases(*rows: tuple[Any, int]) -> list[dict[str, Any]]:
    return [{"since": since, "n_nodes": n_nodes} for since, n_nodes in rows]


def efficient(kind: str, at: dict[float, float]) -> dict[str, Any]:
    return UPS | {"efficiency": {"kind": kind, "efficiency": at}}


def units(**keys: Any) -> dict[str, Any]:
    return {"kind": "transformers", "units": [keys]}


OF_KEYS: dict[str, list[tuple[Any, str]]] = {
    f"{STREAM}.calendar": [
        ({"holidays": "Germny"}, "must be a country such as 'US'"),
        ({"holidays": "DE-XX"}, "must be a subdivision of DE ('BB'"),
        ({"holiday_as": "monday"}, "'holiday_as' needs 'holidays'"),
    ],
    f"{STREAM}.classes": [
        (
            [CLASS | {"duration": LASTING, "arrays": ARRAYS | {"sizes": {2: 0.5}}}],
            "must sum to 1",
        ),
        (
            [CLASS | {"arrays": ARRAYS | {"duration": LASTING}}],
            "arrays.duration needs duration",
        ),
        (
            [CLASS | {"n_gpus": 1}],
            "needs a pool that allocates GPUs; set facility.pools.main.allocate: gpus",
        ),
    ],
    f"{POOL}.scheduler": [
        (
            {"kind": "sjf", "estimate": {"classes": ["1 x"]}},
            "classes.0: must be a number and a",
        ),
    ],
    f"{POOL}.phases": [
        (
            phases(("2018-01-01", 8), ("2018-01-02", 6)),
            "6 nodes since 2018-01-02 are no",
        ),
        (phases(("2018-01-01", 8), ("2018-01-01", 9)), "overlap: 9 nodes since"),
        (phases(("2018-01-02", 8), ("2018-01-01", 9)), "overlap: 9 nodes since"),
        (
            phases(("2018-01-01", 13)),
            "13 nodes since 2018-01-01 are more than the pool",
        ),
        (phases(("2017-12-31", 8)), "since: must lie within the run, 2018-01-01 to "),
        (phases(("2018-01-03", 8)), "found 2018-01-03; of phases before the run give"),
        (
            phases(("2018-01-01 00:30", 8)),
            "must be a date or a whole hour of local time",
        ),
    ],
    "warm_up": [
        ("0 d", "warm_up: must be longer than 0"),
        ("1.5 months", "warm_up: must be longer than 0, and of whole months"),
        ("200 years", "warm_up: must lie in the years 1900 to 2199"),
        ("999999999 weeks", "warm_up: must lie in the years 1900 to 2199"),
    ],
    "facility.pools": [
        (TINY["facility"]["pools"] | {"other": OTHER_POOL}, "scale_profiles: ")
    ],
    STAGES: [
        (
            [BATTERY, BATTERY],
            "stages.1.name: must tell this battery from that before it",
        ),
        ([BATTERY | {"name": "2nd"}], "name: must be text that matches ^[a-z]"),
        (["constant_loss"], "loss_fraction: this key is missing; add it"),
    ],
}
OF_STAGE: list[tuple[dict[str, Any], str]] = [
    (AUXILIARY | {"power_kw": 5, "design_share": 0.1}, "either power_kw or des"),
    ({"power_kw": 1}, "must be a kind of stage ("),
    (
        UPS | {"installed_mw": 5, "redundancy": "2n"},
        "either redundancy or installed_mw",
    ),
    (
        UPS | {"mode": "eco", "filter_share": 0.1},
        "filter_share is of double conversion",
    ),
    (efficient("table", {0.1: 1, 1: 1}) | {"mode": "none"}, "mode 'none' has no loss"),
    (efficient("points", {0.2: 0.9, 0.5: 1.1, 1: 0.9}), "at most 1, found 1.1 at load"),
    (
        efficient("points", {0.25: 0.7, 0.5: 0.99, 1: 0.8}),
        "mend the point, or use 'tab",
    ),
    (units(p0=0.001), "give p_k, i0, u_k, or a preset"),
    (units(preset="mv_lv", i0=0.001), "i0 must be p0 (0.0012) or more, found 0.001"),
    (units(preset="mv_lv", u_k=0.001), "u_k must be p_k"),
    (BATTERY | {"peak_shaving": {"target_mw": 8}}, "found ramp_limit and peak_shaving"),
    (BATTERY | {"ramp_limit": {}}, "give up_mw_per_min, down_mw_per_min or both"),
    (BATTERY | {"min_state_of_charge": 0.6}, "must rise, found 0.6, 0.5, 0.9"),
    (LIMIT, "give up_mw_per_min, down_mw_per_min or both"),
    (LIMIT | {"up_mw_per_min": 1, "ballast_mw": 2}, "ballast_mw limits falls only"),
    (LIMIT | {"down_mw_per_min": 1, "curtails": True}, "curtails limits rises only"),
]
OF_SHARED_NODES: list[tuple[dict[str, Any], str]] = [
    ({f"{NODE}.n_gpus": 0}, "gpus needs nodes with GPUs; leave it out"),
    (
        {f"{NODE}.n_gpus": 1_000, f"{POOL}.n_nodes": 30_000},
        "must be at most 21,474 nodes of 1000 GPUs with allocate: gpus, found 30000",
    ),
    ({f"{POOL}.scheduler": "easy"}, "gpus can't go with scheduler easy; leave"),
    ({f"{POOL}.phases": phases(("2018-01-01", 12))}, "can't go with phases"),
    ({"flexibility": {}}, "gpus can't go with the facility's flexibility"),
    (
        {f"{STREAM}.flexibility": {"tier": 1}},
        "gpus can't go with streams.training's flexib",
    ),
    (
        {STREAM: {"pool": "main", "synchronous": SYNCHRONOUS}},
        "gpus can't go with streams.training.synchronous",
    ),
]
OF_JOB_ON_GPUS: list[tuple[dict[str, Any], str]] = [
    ({"n_gpus": 5}, "at most the 4 GPUs of a node of pool 'main', found 5"),
    ({"n_gpus": 1, "n_nodes": 2}, "n_gpus needs n_nodes: 1, found 2; leave n_gpus out"),
    ({"n_gpus": 1.5}, "must be a whole number, or hundredths of one GPU, found 1.5"),
    (
        {"n_gpus": 0.001},
        "must be a whole number, or hundredths of one GPU, found 0.001",
    ),
]
OF_STREAM: list[tuple[dict[str, Any], str]] = [
    (
        {f"{STREAM}.power_smoothing": {}},
        "acts within seconds, which intervals of 60 s do not show",
    ),
    (
        {f"{STREAM}.power_smoothing": {}, "resolution": "1 s", f"{NODE}.n_gpus": 0},
        "needs GPUs with a TDP, found 0",
    ),
    (
        {f"{POOL}.phases": phases(("2018-01-01", 3), ("2018-01-02", 12))},
        "has 3 in its first phase; it would hold up",
    ),
]
ON_GPUS = {f"{POOL}.allocate": "gpus"}
REFUSED = [
    *((at, {at: value}, words) for at, of in OF_KEYS.items() for value, words in of),
    *((STAGES, {STAGES: [stage]}, words) for stage, words in OF_STAGE),
    *((POOL, ON_GPUS | changes, words) for changes, words in OF_SHARED_NODES),
    *(
        (STREAM, ON_GPUS | {f"{STREAM}.classes": [CLASS | job]}, words)
        for job, words in OF_JOB_ON_GPUS
    ),
    *((STREAM, changes, words) for changes, words in OF_STREAM),
]


@pytest.mark.parametrize(
    ("place", "changes", "words"), REFUSED, ids=[row[2] for row in REFUSED]
)
def test_values_that_no_scenario_can_have_are_one_line_with_their_place(
    place: str, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        tiny_scenario(changes)
    problems = [problem for problem in caught.value.problems if words in problem]
    assert problems, str(caught.value)
    for problem in problems:
        assert problem.startswith(place.removesuffix(".phases"))
        assert "\n" not in problem and len(problem) < 500
