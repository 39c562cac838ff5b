"""Requests of a trace instead of a calendar: rates, scaling, output lengths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from samples import AZURE
from serving_builders import (
    CODING,
    CONVERSATION,
    load_curves,
    one_service,
    plan_of,
    request_rates,
    serving_data,
    write_serving,
)

from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.importers.request_traces import TRACE_FORMATS
from diploee.importers.request_traces.aggregate import csv_format
from diploee.loads.services.load import service_columns
from diploee.loads.services.service_plan import ServicePlan
from diploee.scenario import Scenario, load_scenario

CHAT = "request_streams.chat"


@pytest.fixture(scope="module")
def requests() -> str:
    seconds = np.concatenate(
        [np.arange(0, 3_600, 0.1), np.arange(3_600, 7_200, 1 / 30)]
    )
    stamps = np.datetime64("2023-11-16T00:00:00", "ns") + (seconds * 1e9).astype(
        "timedelta64[ns]"
    )
    rows = (f"{str(s)[:27].replace('T', ' ')},100,900" for s in stamps.astype(str))
    return "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n"


@pytest.fixture
def trace(tmp_path: Path, requests: str) -> Path:
    """Two hours of requests in Azure's format: 10 a second, then 30; answers of 900
    tokens."""
    path = tmp_path / "trace.csv"
    path.write_text(requests, "utf-8")
    return path


def scenario_of(
    folder: Path, changes: dict[str, Any] | None = None, **replay: Any
) -> Scenario:
    standard = {
        f"{CHAT}.request_rate_rps": None,
        f"{CHAT}.calendar": None,
        f"{CHAT}.replay": {"trace": "trace.csv", **replay},
    }
    return load_scenario(
        write_serving(folder / "s.yaml", {**standard, **(changes or {})})
    )


def minute_rates_rps(plan: ServicePlan) -> np.ndarray:
    columns = service_columns([plan], 0, 60_000, 24 * 60)
    return np.sum([columns[f"incoming_rps.{s.name}"] for s in plan.services], axis=0)


@pytest.mark.slow
def test_a_trace_gives_the_rates_and_repeats_until_the_run_ends(trace: Path) -> None:
    plan = plan_of(scenario_of(trace.parent))
    rate_rps = minute_rates_rps(plan)
    assert rate_rps[:60] == pytest.approx(np.full(60, 10), rel=0.01)
    assert rate_rps[60:120] == pytest.approx(np.full(60, 30), rel=0.01)
    np.testing.assert_allclose(
        rate_rps.reshape(12, 120), rate_rps[None, :120].repeat(12, 0), rtol=1e-5
    )
    assert plan.match.match == "replayed"
    assert plan.match.requests_per_day == pytest.approx(
        12 * (36_000 + 108_000), rel=1e-9
    )


@pytest.mark.parametrize("named", [{"format": "gateway"}, {}])
def test_a_trace_format_from_outside_is_recognised_by_its_content_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: dict[str, str]
) -> None:
    monkeypatch.setattr(TRACE_FORMATS, "by_name", dict(TRACE_FORMATS))
    gateway = csv_format("gateway", "a gateway's log", {"time": "arrived_s"}, "s")
    TRACE_FORMATS.register(gateway)
    lines = ["arrived_s", *(f"{second / 10:g}" for second in range(36_000))]
    (tmp_path / "trace.csv").write_text("\n".join(lines) + "\n", "utf-8")
    rate_rps = minute_rates_rps(plan_of(scenario_of(tmp_path, **named)))
    assert rate_rps[:60] == pytest.approx(np.full(60, 10), rel=0.01)


def test_a_trace_has_no_step_on_the_minute(trace: Path) -> None:
    rates = request_rates(scenario_of(trace.parent), "chat")
    assert rates.nodes_ms.size > 2 * 24 * 60
    # Where the trace's rate trebles from one minute to the next it does so within both
    # of them.
    assert np.abs(np.diff(rates.relative_mean)).max() < 0.75 * np.ptp(
        rates.relative_mean
    )


@pytest.mark.slow
def test_a_rate_or_a_target_beside_the_trace_scales_it(trace: Path) -> None:
    given = plan_of(scenario_of(trace.parent, {f"{CHAT}.request_rate_rps": 400}))
    assert minute_rates_rps(given).mean() == pytest.approx(400)
    assert given.match.match == "given"
    target = plan_of(scenario_of(trace.parent, {f"{CHAT}.target_utilization": 0.5}))
    assert target.match.matched_utilization == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
def test_output_lengths_of_the_trace_choose_the_rows_of_the_latency_curve(
    trace: Path,
) -> None:
    lengths = {f"{CODING}.output_tokens": "trace", f"{CONVERSATION}.output_tokens": 256}
    curves = load_curves(scenario_of(trace.parent, lengths))
    of_trace, short = (
        curves["chat", name].latency for name in ("coding", "conversation")
    )
    assert of_trace is not None
    assert short is not None
    known = {f"{CODING}.output_tokens": 1024}
    expected = load_curves(scenario_of(trace.parent, known))["chat", "coding"].latency
    assert expected is not None
    assert of_trace.latency_s.tolist() == expected.latency_s.tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "replay", "words"),
    [
        ({}, {"trace": "none.csv"}, "replay.trace is relative to the scenario file"),
        ({}, {"service": "gpt"}, "no service 'gpt'"),
        ({}, {"tile": "week"}, "tiling by weeks needs seven"),
        (
            {
                f"{CHAT}.replay": None,
                f"{CHAT}.request_rate_rps": 1,
                f"{CODING}.output_tokens": "trace",
            },
            {},
            "needs a replay",
        ),
        (
            {f"{CHAT}.calendar": {"hour_of_day": [1] * 24}},
            {},
            "'replay' can't go with 'calendar'; remove one",
        ),
    ],
)
def test_what_can_not_be_replayed_is_one_line(
    trace: Path, changes: dict[str, Any], replay: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        plan_of(scenario_of(trace.parent, changes, **replay))
    assert "\n" not in str(error.value)


def test_a_trace_of_no_known_unit_is_named_with_its_replay(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("timestamp\n0\n")
    words = r"^request_streams.chat.replay: .*trace.csv:2: .*give time_unit, such as s"
    with pytest.raises(InputError, match=words):
        plan_of(scenario_of(tmp_path))


def with_own_traces(folder: Path, changes: dict[str, Any] | None = None) -> Scenario:
    """Two services with traces of their own: 10/s and then 30/s, and 5/s for ten
    minutes."""
    few = ["time_s", *(f"{second / 5 + 0.1:g}" for second in range(3_000))]
    (folder / "few.csv").write_text("\n".join(few) + "\n", "utf-8")
    own: dict[str, Any] = {f"{CHAT}.replay": None}
    for service, trace in ((CODING, "trace.csv"), (CONVERSATION, "few.csv")):
        own |= {f"{service}.probability": None, f"{service}.replay": {"trace": trace}}
    return scenario_of(folder, own | (changes or {}))


@pytest.mark.slow
def test_services_of_a_stream_replay_traces_of_their_own(trace: Path) -> None:
    plan = plan_of(with_own_traces(trace.parent))
    columns = service_columns([plan], 0, 60_000, 24 * 60)
    coding, conversation = (columns[f"incoming_rps.{s.name}"] for s in plan.services)
    assert [s.name for s in plan.services] == ["coding", "conversation"]
    np.testing.assert_allclose(conversation, 5, rtol=1e-6)
    assert coding[:60] == pytest.approx(np.full(60, 10), rel=0.01)
    assert coding.sum() * 60 == pytest.approx(12 * (36_000 + 108_000), rel=1e-9)
    assert plan.match.requests_per_day == pytest.approx(86_400 * 25, rel=1e-6)
    half = plan_of(with_own_traces(trace.parent, {f"{CHAT}.request_rate_rps": 12.5}))
    halves = service_columns([half], 0, 60_000, 24 * 60)
    np.testing.assert_allclose(halves["incoming_rps.conversation"], 2.5, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {f"{CODING}.probability": 0.5},
            "service 'coding' must have no probability; shares are those of",
        ),
        (
            {f"{CODING}.replay": None},
            "service 'conversation' has a replay; give all services their own",
        ),
        ({f"{CONVERSATION}.output_tokens": "trace"}, "few.csv has no output lengths"),
    ],
)
def test_own_traces_that_do_not_fit_are_one_line(
    trace: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        plan_of(with_own_traces(trace.parent, changes))


def test_the_azure_code_hour_runs_on_one_node_of_four_gpus(
    tmp_path: Path, sample: Callable[[str], Path]
) -> None:
    trace = sample(AZURE)
    data = serving_data(
        {
            "duration": "1 h",
            "start": "2023-11-16T18:00:00",
            "facility.pools": {"main": {"node_type": "node", "n_nodes": 1}},
            f"{CHAT}.request_rate_rps": None,
            f"{CHAT}.calendar": None,
            f"{CHAT}.replay": {"trace": str(trace), "tile": "none"},
            **one_service(output_tokens="trace"),
        }
    )
    path = tmp_path / "azure.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    run = simulate(load_scenario(path), tmp_path / "run")
    frame = run.facility()
    lines = trace.read_text("utf-8").splitlines()[1:]
    assert frame["incoming_rps.coding"].sum() * 60 == pytest.approx(
        len(lines), rel=1e-6
    )
    stamps = np.array([line[:23] for line in lines], "datetime64[ms]").astype(np.int64)
    into_min = (stamps - stamps[0]) // 60_000
    peak = np.bincount(into_min).max()
    assert frame["incoming_rps.coding"].max() * 60 == pytest.approx(peak, rel=0.02)
    assert run.metrics["requests"]["incomplete_rps"] == 0
    busy_w = frame.loc[frame["n_instances.coding"] == 1, "it_power_w"]
    assert busy_w.between(1_900, 2_900).all()
