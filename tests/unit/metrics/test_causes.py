"""Why the worst events came about, on facilities whose events are known by
construction."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from builders import profile, tiny_data, tiny_library, tiny_run, write_scenario
from command_line import call
from hypothesis import given
from hypothesis import strategies as st
from serving_builders import one_service, serving_scenario, write_serving

from diploee import Run
from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.facility import Block
from diploee.metrics.attribution import calendar_change
from diploee.metrics.attribution_text import (
    cause_lines,
    cause_text,
    event_label,
    read_causes,
)
from diploee.profiles import ProfileLibrary
from diploee.reports.run_sections import run_sections
from diploee.scenario import Scenario, load_scenario

LOG = ["submitted,run_s,nodes"]
IDLE_W, BUSY_W = 400.0, 2_000.0
STAGES = [
    {"kind": "auxiliary_load", "power_kw": 1.0},
    {"kind": "constant_loss", "loss_fraction": 0.2},
]
CHAT = "request_streams.chat"


def flat_library() -> ProfileLibrary:
    """Return one training profile of three hours at a constant power."""
    return ProfileLibrary([profile("tune-1n-1", np.full(10_800, BUSY_W))])


def jobs_together(
    folder: Path,
    changes: dict[str, Any] | None = None,
    more: Sequence[tuple[str, int]] = (),
    stages: Sequence[Any] = (),
) -> Run:
    """Run twenty jobs that start at 02:00:30 and end at 05:00:30 together, beside one
    all day.

    With three of a minute at the start as many nodes are busy as on average: the run
    begins filled.
    """
    jobs = [("00:00:00", 86_400)] + 3 * [("00:00:00", 60)] + 20 * [("02:00:30", 10_800)]
    jobs += more
    rows = [f"2018-01-01T{submit},{run_s},1" for submit, run_s in jobs]
    folder.mkdir(exist_ok=True)
    (folder / "jobs.csv").write_text("\n".join([*LOG, *rows]) + "\n", "utf-8")
    columns = {"submit": "submitted", "duration": "run_s", "nodes": "nodes"}
    rules = [{"workload": "tune"}]
    replay = {"log": "jobs.csv", "columns": columns, "rules": rules}
    replay |= {"align": "start", "repeat": False}
    site = {f"facility.{key}": value for key, value in (changes or {}).items()}
    stream = {"training": {"pool": "main", "replay": replay}}
    span = {"duration": "1 d", "resolution": "10 s"}
    nodes = {"facility.pools.main.n_nodes": 30}
    given = {**span, **nodes, "streams": stream, **site}
    scenario = load_scenario(write_scenario(folder / "run.yaml", given))
    how: Any = {"profiles": flat_library(), "event_windows": True, "stages": stages}
    return simulate(scenario, folder / "run", **how)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Twenty jobs together, with nothing else."""
    return jobs_together(tmp_path_factory.mktemp("together") / "jobs")


def causes(run: Run) -> dict[tuple[str, float, str], dict[str, Any]]:
    return {key: dict(cause) for key, _, cause in read_causes(run.metrics)}


def parts(cause: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(part.get("of", ""), part["what"]): part for part in cause["parts"]}


def assert_lines_explain(cause: dict[str, Any]) -> None:
    """Check that the lines net to the event, lead in its direction and leave a tenth at
    most."""
    lines, rest_mw = cause_lines(cause)
    change_mw = cause["change_mw"]
    net_mw = [line.net_mw for line in lines]
    assert sum(net_mw) + rest_mw == pytest.approx(change_mw, rel=1e-6, abs=1e-12)
    assert abs(rest_mw) <= 0.1 * abs(change_mw) + 1e-12
    assert all(mw * change_mw >= 0 for mw in net_mw[:1])
    words = cause_text(cause)
    assert "unexplained" not in words
    if change_mw and (first := re.search(r" ([+-])\d", words)):
        assert float(f"{first[1]}1") * change_mw > 0, words


def assert_parts_sum(run: Run) -> None:
    """Hold the parts of all events to their changes, and these to the metrics."""
    assert len(causes(run)) > 5
    for key, cause in causes(run).items():
        assert_lines_explain(cause)
        total_mw = sum(part["mw"] for part in cause["parts"])
        if "mean_mw" in cause["parts"][0]:
            total_mw -= sum(part["mean_mw"] for part in cause["parts"])
        assert total_mw == pytest.approx(cause["change_mw"], abs=1e-9), key
    grid = run.metrics["grid"]
    for entry in grid["ramps"]["intervals"]:
        for way, sign in (("up", 1), ("down", -1)):
            if entry[way]["time"]:
                expected = pytest.approx(sign * entry[way]["max_mw"], abs=2e-7)
                assert entry[way]["cause"]["change_mw"] == expected
    for entry in grid["rolling_range"]["windows"]:
        change_mw = abs(entry["cause"]["change_mw"])
        assert change_mw == pytest.approx(entry["max_mw"], abs=2e-7)
    of_peak_mw = sum(part["mw"] for part in grid["peak"]["cause"]["parts"])
    assert of_peak_mw == pytest.approx(grid["peak"]["max_mw"], abs=1e-9)
    for window in run.metrics.get("zooms", {}).get("windows", ()):
        if window["name"] != "peak":
            change_mw = window["cause"]["change_mw"]
            assert change_mw == pytest.approx(window["value_mw"], abs=1e-9)


def test_jobs_that_end_together_are_the_cause_of_the_drop(together: Run) -> None:
    assert_parts_sum(together)
    found = causes(together)
    ramps = [("ramps", length_s, "down") for length_s in (60.0, 3600.0)]
    for key in (*ramps, ("zooms", 0.0, "drop_10s")):
        ended = parts(found[key])["training", "jobs ended"]
        assert (ended["count"], ended["pool"]) == (20, "main")
        assert ended["mw"] == pytest.approx(-20 * (BUSY_W - IDLE_W) / 1e6)
        assert ended["largest"]["mw"] == pytest.approx(-(BUSY_W - IDLE_W) / 1e6)
    started = parts(found["ramps", 60.0, "up"])["training", "jobs started"]
    assert (started["count"], started["mw"]) == (20, pytest.approx(0.032))
    ran_on = parts(found["ramps", 60.0, "up"])["training", "jobs ran on"]
    assert (ran_on["count"], ran_on["mw"]) == (1, pytest.approx(0))
    words = cause_text(found["ramps", 60.0, "down"])
    assert words == "stream training -32.0 kW (20 jobs ended)"


def test_jobs_that_start_and_end_together_are_one_net_change(tmp_path: Path) -> None:
    run = jobs_together(tmp_path, more=12 * [("05:00:30", 72_000)])
    cause = causes(run)["ramps", 60.0, "down"]
    assert_lines_explain(cause)
    (line,), rest_mw = cause_lines(cause)
    assert (line.kind, line.of, len(line.parts)) == ("stream", "training", 2)
    assert cause["change_mw"] == pytest.approx(-8 * (BUSY_W - IDLE_W) / 1e6)
    assert line.net_mw == pytest.approx(cause["change_mw"])
    assert rest_mw == pytest.approx(0, abs=1e-12)
    words = "stream training -12.8 kW (20 jobs ended -32.0, 12 jobs started +19.2)"
    assert cause_text(cause) == words


def test_what_opposes_an_event_follows_it_with_its_own_calendar_alone() -> None:
    parts = [
        {"of": "a", "pool": "main", "what": "jobs started", "mw": 5.0, "count": 9},
        {"of": "b", "pool": "main", "what": "jobs ended", "mw": -4.0, "count": 8},
        {"of": "c", "pool": "main", "what": "jobs ended", "mw": -3.0, "count": 7},
    ]
    calendar = [
        {"of": "a", "pool": "main", "change": 1.5, "mw": 4.0},
        {"of": "b", "pool": "main", "change": 0.3, "mw": 1.0},
    ]
    assert cause_text({"change_mw": -2.0, "parts": parts, "calendar": calendar}) == (
        "stream b -4.00 MW (8 jobs ended), stream c -3.00 MW (7 jobs ended); against "
        "it stream a +5.00 MW (9 jobs started, the calendar rose by 150%: +4.00)"
    )


def test_an_event_that_its_parts_leave_open_is_unexplained() -> None:
    part = {"of": "a", "pool": "main", "what": "jobs started", "mw": 6.0, "count": 9}
    words = "40% unexplained; stream a +6.00 MW (9 jobs started); the rest +4.00 MW"
    assert cause_text({"change_mw": 10.0, "parts": [part]}) == words


KINDS = ["jobs started", "jobs ended", "instances", "stage", "idle nodes"]
_PART = st.fixed_dictionaries(
    {
        "what": st.sampled_from(KINDS),
        "of": st.sampled_from("abcdefgh"),
        "mw": st.floats(-9, 9),
        "count": st.integers(1, 99),
    }
)


@given(st.lists(_PART, min_size=1, max_size=20))
def test_lines_of_any_parts_net_to_the_change_and_lead_in_its_direction(
    parts: list[dict[str, Any]],
) -> None:
    change_mw = sum(part["mw"] for part in parts)
    assert_lines_explain({"change_mw": change_mw, "parts": parts})


class Ballast:
    """A load of a user's: a tenth of the power before it, in a column of its own."""

    boundary = None

    def __init__(self, name: str) -> None:
        column = Column(name, "W", "facility", "mean", None, "of a ballast", "load")
        self.columns = (column,)

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
        power_w = block.columns["facility_power_w"]
        name = self.columns[0].name
        return {name: 0.1 * power_w, "facility_power_w": 1.1 * power_w}, state


def test_stages_of_a_user_are_parts_by_their_names(tmp_path: Path) -> None:
    run = jobs_together(tmp_path, stages=[Ballast("first_w"), Ballast("second_w")])
    assert_parts_sum(run)
    cause = causes(run)["ramps", 60.0, "down"]
    of = parts(cause)
    assert of["Ballast 1", "stage"]["mw"] == pytest.approx(-0.0032)
    assert of["Ballast 2", "stage"]["mw"] == pytest.approx(-0.00352)
    assert "stage Ballast 2 -3.5 kW" in cause_text(cause)


def test_the_peak_is_split_over_streams_and_idle_nodes_beside_their_means(
    together: Run,
) -> None:
    peak = parts(together.metrics["grid"]["peak"]["cause"])
    jobs, idle = peak["training", "jobs"], peak["", "idle nodes"]
    assert (jobs["count"], jobs["mw"]) == (21, pytest.approx(21 * BUSY_W / 1e6))
    assert jobs["mean_mw"] == pytest.approx(
        (1 + 3 / 1440 + 20 / 8) * BUSY_W / 1e6, rel=1e-6
    )
    assert (idle["count"], idle["mw"]) == (9, pytest.approx(9 * IDLE_W / 1e6))


def test_what_the_stages_add_to_an_event_is_a_part_of_its_own(tmp_path: Path) -> None:
    run = jobs_together(tmp_path, {"stages": STAGES})
    assert_parts_sum(run)
    found = causes(run)
    drop = parts(found["ramps", 60.0, "down"])
    assert drop["training", "jobs ended"]["mw"] == pytest.approx(-0.032)
    assert drop["constant_loss", "stage"]["mw"] == pytest.approx(-0.032 / 4)
    assert drop["auxiliary_load", "stage"]["mw"] == 0
    assert "stage constant_loss -8.0 kW" in cause_text(found["ramps", 60.0, "down"])
    peak = parts(found["peak", 10.0, ""])
    losses_mw = (21 * BUSY_W + 9 * IDLE_W) / 4e6 + 0.25e-3
    assert peak["constant_loss", "stage"]["mw"] == pytest.approx(losses_mw)
    assert peak["auxiliary_load", "stage"]["mw"] == pytest.approx(1e-3)
    assert "stage constant_loss" in cause_text(found["peak", 10.0, ""])
    assert ("", "node overhead") not in peak


def test_every_stage_is_a_part_by_its_name_beside_the_nodes_supplies(
    tmp_path: Path,
) -> None:
    stages = [
        "pdu",
        {"kind": "dlc_tower"},
        {"kind": "battery", "power_mw": 0.001, "energy_mwh": 0.001, "smoothing_s": 60},
    ]
    changes = {
        "stages": stages,
        "weather": {"kind": "typical_day", "station": "denver"},
        "utc_offset": "-07:00",
        "node_types.node.ac_power": "dlc",
    }
    run = jobs_together(tmp_path, changes)
    assert_parts_sum(run)
    frame = run.facility()
    peak = parts(causes(run)["peak", 10.0, ""])
    overhead_w = (frame["it_ac_power_w"] - frame["it_power_w"]).mean()
    for part, mean_w in (
        (("", "node overhead"), overhead_w),
        (("dlc_tower", "stage"), frame["cooling_w"].mean()),
        (("pdu", "stage"), frame["pdu_loss_w"].mean()),
    ):
        assert peak[part]["mean_mw"] == pytest.approx(mean_w / 1e6, rel=1e-5)
    drop = parts(causes(run)["ramps", 60.0, "down"])
    assert abs(drop["battery", "stage"]["mw"]) > 1e-4
    assert drop["", "node overhead"]["mw"] < 0


@pytest.mark.slow
def test_effect_of_the_queue_is_reported_beside_the_jobs(
    tmp_path: Path, together: Run
) -> None:
    run = jobs_together(tmp_path, {"pools.main.n_nodes": 11})
    cause = causes(run)["ramps", 60.0, "up"]
    assert cause["queued_jobs"] == [0, 10]
    assert cause_text(cause).endswith(
        "+16.0 kW (10 jobs started); a queue of 10 jobs built up"
    )
    emptied = cause_text({**cause, "queued_jobs": [10, 0]})
    assert emptied.endswith("; the queue of 10 jobs emptied")
    assert "queued_jobs" not in causes(together)["ramps", 60.0, "up"]


def doubling_trace(folder: Path) -> Path:
    """Write twenty minutes of requests, 60 a second and from the tenth minute on 120."""  # noqa: E501
    seconds = [np.arange(0, 600, 1 / 60), np.arange(600, 1_200, 1 / 120)]
    begin = pd.Timestamp("2018-01-01")
    times = begin + pd.to_timedelta(np.concatenate(seconds), unit="s")
    tokens = {"TIMESTAMP": times, "ContextTokens": 100, "GeneratedTokens": 900}
    path = folder / "trace.csv"
    pd.DataFrame(tokens).to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_a_trace_that_doubles_starts_instances(tmp_path: Path) -> None:
    doubling_trace(tmp_path)
    changes = {
        "duration": "20 min",
        "resolution": "10 s",
        f"{CHAT}.request_rate_rps": None,
        f"{CHAT}.calendar": None,
        f"{CHAT}.replay": {"trace": "trace.csv", "tile": "none"},
        **one_service(max_request_rate_rps=11.5, standby="warm"),
        "facility.node_types.node.warm_power_w": 700,
    }
    run = simulate(
        load_scenario(write_serving(tmp_path / "s.yaml", changes)), tmp_path / "run"
    )
    assert_parts_sum(run)
    cause = causes(run)["ramps", 300.0, "up"]
    of = parts(cause)
    instances, rate = of["coding", "instances"], of["coding", "rate per instance"]
    assert instances["started"] - instances["stopped"] == 5
    assert rate["rate_rps"] == pytest.approx([60, 120], rel=0.02)
    assert instances["mw"] > 0.8 * cause["change_mw"] > 0
    assert "calendar" not in cause
    assert instances["instances"][1] == pytest.approx(11, rel=0.01)
    gross_mw = instances["started_mw"] + instances["stopped_mw"]
    assert gross_mw == pytest.approx(instances["mw"], rel=1e-9)
    assert " instances started" in cause_text(cause)


def test_at_unchanged_rates_and_instances_all_of_a_service_is_noise(
    tmp_path: Path,
) -> None:
    changes = {f"{CHAT}.calendar": None, "duration": "6 h", "resolution": "1 s"}
    run = simulate(serving_scenario(changes), tmp_path / "run")
    assert_parts_sum(run)
    ramps = [cause for key, cause in causes(run).items() if key[0] == "ramps"]
    assert len(ramps) > 8
    for cause in ramps:
        noise = [p for p in cause["parts"] if p["what"] == "noise of serving samples"]
        others_mw = [part["mw"] for part in cause["parts"] if part not in noise]
        noise_mw = sum(part["mw"] for part in noise)
        assert noise_mw == pytest.approx(cause["change_mw"], rel=1e-6)
        assert np.abs(others_mw).max() < 1e-10
        assert cause_text(cause).startswith("noise of serving samples ")


def test_the_calendar_is_a_cause_where_it_moves_the_requests(tmp_path: Path) -> None:
    hours = {f"{CHAT}.calendar.hour_of_day": [1.0] * 12 + [2.0] * 12}
    changes = {"duration": "1 d", "resolution": "60 s"} | hours
    run = simulate(serving_scenario(changes), tmp_path / "run")
    assert_parts_sum(run)
    cause = causes(run)["ramps", 3600.0, "up"]
    change_mw = sum(entry["mw"] for entry in cause["calendar"])
    assert {entry["of"] for entry in cause["calendar"]} == {"coding", "conversation"}
    assert 0.4 < change_mw / cause["change_mw"] < 1.6
    assert "the calendar rose by" in cause_text(cause)


def mixed(resolution: str) -> Scenario:
    """Return jobs and requests, each on twelve nodes of their own, behind two stages."""  # noqa: E501
    tiny = tiny_data()
    pool = tiny["facility"]["pools"]["main"]
    return serving_scenario(
        {
            "streams": tiny["streams"],
            f"{CHAT}.pool": "serving",
            "facility.pools": {"main": pool, "serving": dict(pool)},
            "facility.stages": STAGES,
            "duration": "14 h",
            "resolution": resolution,
        }
    )


def test_the_calendar_of_jobs_is_a_cause_by_the_power_of_those_that_started(
    tmp_path: Path,
) -> None:
    calendar = {"hour_of_day": [0.1] * 12 + [1.0] * 12}
    changes = {"duration": "1 d", "warm_up": "1 d"}
    changes |= {"streams.training.calendar": calendar}
    run = tiny_run(tmp_path / "run", changes)
    assert_parts_sum(run)
    cause = causes(run)["ramps", 3600.0, "up"]
    (told,), of = cause["calendar"], parts(cause)
    started = sum(of[owner, what]["mw"] for owner, what in of if "started" in what)
    assert told["change"] > 0.5
    assert 0 < told["mw"] <= started
    assert "the calendar rose by" in cause_text(cause)


def test_a_calendar_that_falls_gives_less_power_and_falls_by_at_most_all(
    tmp_path: Path,
) -> None:
    """Jobs shorter than the spans are gone with the hours that brought them."""
    changes = {
        "streams.training.calendar": {"hour_of_day": 2 * ([1.0] * 6 + [0.02] * 6)},
        "streams.training.target_utilization": 0.15,
        "duration": "2 d",
        "warm_up": "1 d",
    }
    run = tiny_run(tmp_path / "run", changes)
    told = [e for cause in causes(run).values() for e in cause.get("calendar", ())]
    assert any(entry["change"] < -0.5 and entry["mw"] < 0 for entry in told)
    for entry in told:
        assert entry["change"] >= -1 and entry["change"] * entry["mw"] >= 0


def test_a_calendar_that_moves_from_nothing_or_to_it_is_reported_so() -> None:
    (rise,) = calendar_change("training", "main", (0.0, 2.0), 1e6)
    (fall,) = calendar_change("training", "main", (2.0, 0.0), 1e6)
    (double,) = calendar_change("training", "main", (1.0, 2.0), 3e6)
    assert (rise["change"], rise["mw"]) == (None, 1.0)
    assert (fall["change"], fall["mw"]) == (-1.0, -1.0)
    assert (double["change"], double["mw"]) == (1.0, 1.0)
    assert not list(calendar_change("training", "main", (1.0, 1.0), 1e6))
    part = {"of": "training", "pool": "main", "what": "jobs started", "count": 3}
    for told, words in (
        (rise, "the calendar rose from nothing: +1.00"),
        (fall, "the calendar fell by 100%: -1.00"),
        (double, "the calendar rose by 100%: +1.00"),
    ):
        cause = {"parts": [part | {"mw": told["mw"]}], "calendar": [told]}
        assert words in cause_text(cause)


@pytest.mark.slow
@pytest.mark.parametrize("resolution", ["1 s", "60 s"])
def test_parts_sum_to_every_event_whatever_windows_threads_and_engine(
    tmp_path: Path, resolution: str
) -> None:
    cut = {"window_days": 0.25, "n_threads": 1}
    ways: list[dict[str, Any]] = [{}, cut, {"engine": "compiled"}, {"jobs_file": False}]
    texts = set()
    for k, way in enumerate(ways):
        how = {"profiles": tiny_library(), "event_windows": True, **way}
        run = simulate(mixed(resolution), tmp_path / str(k), **how)
        texts.add((run.folder / "metrics.json").read_bytes())
    assert len(texts) == 1
    assert_parts_sum(run)
    kinds = {what for cause in causes(run).values() for _, what in parts(cause)}
    assert {"jobs started", "jobs ended", "instances", "rate per instance"} <= kinds
    assert {"noise of serving samples", "stage"} <= kinds


def test_short_blocks_are_stored_in_whole_row_groups(tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", {"resolution": "0.1 s", "duration": "3 h"})
    groups = pq.ParquetFile(run.folder / "facility.parquet").metadata
    rows = [groups.row_group(k).num_rows for k in range(groups.num_row_groups)]
    assert rows == [36_000] * 3


def test_limits_and_sections_say_why(tmp_path: Path, together: Run) -> None:
    limits = tmp_path / "limits.yaml"
    limits.write_text("ramps: [{interval: 1 min, down_mw_per_min: 0.01}]\n", "utf-8")
    why = "stream training -32.0 kW (20 jobs ended)"
    content = json.loads(call("limits", limits, together.folder, "--json").out)
    assert content["results"][0]["cause"] == why
    rows = {
        event: {name: figure.value for name, figure in row.items()}
        for section in run_sections(together)
        for table in section.tables
        if table.title.startswith("Why")
        for event, row in table.rows.items()
    }
    assert rows["Ramp down over 1 min"] == {
        "Change": pytest.approx(-32),
        "When": "2018-01-01 04:59:30",
        "Causes": why,
    }
    assert rows["Event window: drop over 10 s"]["Causes"] == why


def test_a_run_of_an_older_version_has_no_causes() -> None:
    assert list(read_causes({"power": {}})) == []
    assert event_label(("zooms", 0.0, "peak")) == "event window: peak"
