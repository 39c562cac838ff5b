"""Wrong request streams and curve files: each one clear line with place and remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from serving_builders import (
    CODING,
    CONVERSATION,
    load_curves,
    one_service,
    serving_scenario,
    write_serving,
)

from diploee import run as simulate
from diploee.base.errors import InputError, ScenarioError
from diploee.importers.serving.service_curves import (
    load_latency_curve,
    load_power_curve,
)
from diploee.scenario import load_scenario

CHAT = "request_streams.chat"
HEADER = "request_rate_rps,mean_power_w,peak_power_w\n"
ALONE = {"power_curve": None, "latency_curve": None}
TWO = {"power_samples": {1: "a.csv", 2: "b.csv"}}
OF_SERVICE: list[tuple[dict[str, Any], str, str]] = [
    (
        {**ALONE, "power_samples": {40: "a.csv"}},
        CODING,
        "power_samples has one rate, expected 2",
    ),
    (
        {"power_samples_boundary": "node_ac"},
        CODING,
        "'power_samples_boundary' needs 'power_samples'",
    ),
    (
        {**TWO, "power_samples_boundary": "node_ac"},
        CODING,
        "can't go with a power_curve or",
    ),
    (
        ALONE,
        CODING,
        "give one of 'power_curve', 'logistic', 'batch_power_model'",
    ),
]
FIXED = f"{CODING}.max_request_rate_rps"
CAPPED = {f"{CODING}.latency_cap": {"limit_s": 5}}
NO_LATENCY = {f"{CODING}.latency_curve": None}
NEEDED = "needs the measured throughput of service 'coding'"
THREE = {f"{CODING}.reserved_nodes": 3}
OF_STREAM: list[tuple[dict[str, Any], str, str]] = [
    ({f"{CODING}.probability": 0.5}, CHAT, "services must sum to 1, found 1.1"),
    ({f"{CHAT}.requests_per_day": 10}, CHAT, "give one of 'request_rate_rps'"),
    (CAPPED, CODING, "one of 'max_request_rate_rps'"),
    (
        {FIXED: None, **NO_LATENCY, **CAPPED},
        CODING,
        "'latency_cap' needs 'latency_curve'",
    ),
    (
        {f"{CHAT}.capacity": "sustained", **NO_LATENCY},
        CHAT,
        f"capacity: sustained {NEEDED}",
    ),
    (
        {f"{CODING}.reserved_nodes": 9, f"{CONVERSATION}.reserved_nodes": 4},
        f"{CHAT}.services",
        "reserve 13 nodes, pool 'main' has 12",
    ),
    ({f"{CODING}.reserved_nodes": 0}, f"{CODING}.reserved_nodes", "reserve more nodes"),
    (
        {**THREE, f"{CODING}.nodes_per_instance": 4},
        f"{CODING}.reserved_nodes",
        "3 nodes hold no instance of 4 node(s)",
    ),
    (
        {**THREE, f"{CODING}.min_instances": 4},
        f"{CODING}.min_instances",
        "must be at most the 3 instances of 3 reserved",
    ),
]


@pytest.mark.parametrize(
    ("changes", "place", "text"),
    [
        *((one_service(**keys), place, text) for keys, place, text in OF_SERVICE),
        *OF_STREAM,
    ],
)
def test_wrong_request_stream_is_one_clear_line(
    tmp_path: Path, changes: dict[str, Any], place: str, text: str
) -> None:
    path = write_serving(tmp_path / "bad.yaml", changes)
    with pytest.raises(ScenarioError) as error:
        load_scenario(path)
    (problem,) = error.value.problems
    assert problem.startswith(f"{path}:")
    assert f" {place}: " in problem
    assert text in problem
    assert "\n" not in problem


def test_jobs_and_requests_do_not_share_a_pool() -> None:
    jobs = {
        "pool": "main",
        "target_utilization": 0.5,
        "classes": [{"workload": "tune", "n_nodes": 2, "probability": 1}],
    }
    with pytest.raises(
        ScenarioError, match=r"also used by 'streams\.training'; split it"
    ):
        serving_scenario({"streams.training": jobs})


CURVES = [
    ("1,5,6\n3,5,6\n2,5,6\n", ":4: column 'request_rate_rps' is '2', expected a r"),
    ("1,5,6\n2,5,6\n", ": 2 points, a curve needs at least 3"),
    ("1,5,6\n2,-5,6\n3,5,6\n", ":3: column 'mean_power_w' is '-5'"),
    ("1,5,6\n2,٣,6\n3,5,6\n", ":3: column 'mean_power_w' is "),
    ("1,5,6\n2,7,6\n3,5,6\n", ":3: column 'peak_power_w' is '6', expected mean_powe"),
    ("1,5,6\n2,5\n3,5,6\n", ":3: 2 fields, expected 3 as in the header"),
]
OTHER_HEADS = [
    ("request_rate_rps,mean_power\n1,5\n", ": column 'mean_power_w' is missing"),
    ("# nothing\n", ":1: column 'request_rate_rps' is missing"),
]


@pytest.mark.parametrize(
    ("content", "text"),
    [*((HEADER + rows, text) for rows, text in CURVES), *OTHER_HEADS],
)
def test_wrong_curve_file_is_named_with_its_line(
    tmp_path: Path, content: str, text: str
) -> None:
    path = tmp_path / "curve.csv"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        load_power_curve("curve.csv", tmp_path)
    assert str(error.value).startswith(f"{path}{text}")


LATENCIES = "request_rate_rps,request_throughput_rps,mean_e2e_latency_s,p90_ttft_s\n"


@pytest.mark.parametrize(
    ("column", "value"),
    [(1, "x"), (2, "nan"), (3, "")],
)
def test_latency_file_with_an_odd_value_in_any_known_column_is_refused(
    tmp_path: Path, column: int, value: str
) -> None:
    cells = ["2", "2", "3", "0.1"]
    cells[column] = value
    rows = f"1,1,2,0.1\n{','.join(cells)}\n3,3,4,0.1\n"
    (tmp_path / "curve.csv").write_text(LATENCIES + rows)
    with pytest.raises(
        InputError,
        match=r"curve\.csv:3: column .* expected a number of 1e-09 or more up to",
    ):
        load_latency_curve("curve.csv", tmp_path)


@pytest.mark.parametrize(
    ("latencies", "warned"), [((2, 1.9, 3), False), ((4, 2, 1), True)]
)
def test_latency_that_falls_with_the_rate_is_warned_of(
    tmp_path: Path, latencies: tuple[float, ...], warned: bool
) -> None:
    rows = "".join(f"{50 * k},{50 * k},{s},0.1\n" for k, s in enumerate(latencies, 1))
    (tmp_path / "curve.csv").write_text(LATENCIES + rows)
    changes = {f"{CODING}.latency_curve": "curve.csv", "duration": "1 h"}
    path = write_serving(tmp_path / "falls.yaml", changes)
    run = simulate(load_scenario(path), tmp_path / "run")
    found = [
        line
        for line in run.manifest["warnings"]
        if "latency falls with the rate" in line
    ]
    assert len(found) == warned


def test_unknown_curve_is_refused_with_the_nearest_shipped_name() -> None:
    scenario = serving_scenario({f"{CODING}.power_curve": "llama3_70b_codng_power"})
    with pytest.raises(
        InputError, match=rf"^{CODING}: .*did you mean 'llama3_70b_coding_power'"
    ):
        load_curves(scenario)


@pytest.mark.parametrize("name", ["a\nb", "x" * 300 + "/y"])
def test_curve_name_that_no_file_can_have_is_one_clear_line(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        load_power_curve(name, tmp_path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


def test_output_length_without_measurements_is_refused_with_those_that_there_are() -> (
    None
):
    with pytest.raises(
        InputError, match=r"max_output_tokens 300 \(have: 256, 512, 1024\)"
    ):
        load_latency_curve("llama3_70b_coding_latency", Path(), output_tokens=300)
