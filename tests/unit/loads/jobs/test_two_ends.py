"""Both ends of a large job: all of its nodes at once, and within a lag."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builders import tiny_library
from synchronous_builders import NODE, synchronous_scenario

from diploee import run as simulate
from diploee.base.errors import EarlyStopError
from diploee.base.progress import Progress
from diploee.facility.base import Block
from diploee.grid.limits import Limits, load_limits
from diploee.grid.limits.watch import WatchedLimits, lower_end
from diploee.importers.input_reader import load_inputs
from diploee.scenario import Scenario
from diploee.scenario.synchronous import SynchronousJob
from diploee.simulation.pipeline import Pipeline
from diploee.simulation.prepared import NO_WATCH, RunOptions, prepare
from diploee.simulation.size import scale_scenario

JOB = {
    "n_nodes": 64,
    "period_s": 6.0,
    "work_days": 0.01,
    "high": 0.9,
    "low": 0.9,
    "warm_up_s": 60,
    "checkpoint_interval": 200,
    "failures_per_1000_node_days": 0,
    "planned_per_1000_node_days": 0,
}
STALL_MW = 64 * 5_600 * (0.9 - 0.25) / 1e6


def scenario_of(
    stream: dict[str, Any] | None = None, site: dict[str, Any] | None = None, **job: Any
) -> Scenario:
    given = {"duration": "10 min", "resolution": "0.1 s"} | (site or {})
    return synchronous_scenario(JOB | job, n_nodes=70, stream=stream, **given)


def limits_of(folder: Path, mw_per_min: float) -> Any:
    path = folder / "limits.yaml"
    path.write_text(
        "ramps:\n  - {interval: 0.2 s, between: end_points, down_mw_per_min: "
        f"{mw_per_min}}}\n"
    )
    return load_limits(path)


def power_mw(folder: Path, **job: Any) -> list[np.ndarray]:
    """Return the power of a job whose nodes change phase at once, and within a second
    [MW]."""
    return [
        simulate(
            scenario_of(lag_s=lag_s, **job),
            folder / f"{lag_s}",
            profiles=tiny_library(),
        )
        .facility(["it_power_w"])["it_power_w"]
        .to_numpy(dtype=np.float64)
        / 1e6
        for lag_s in (0, 1)
    ]


def test_nodes_that_are_late_change_level_within_the_lag(tmp_path: Path) -> None:
    # The first stall is at 260 s
    at_once, late = (w[2595:2625] for w in power_mw(tmp_path))
    assert at_once[4] - at_once[5] == pytest.approx(STALL_MW, rel=1e-5)
    fall = np.diff(late)
    assert fall[4:15] == pytest.approx(
        -STALL_MW / 10 * np.array([0.5, *[1.0] * 9, 0.5]), abs=1e-4
    )
    assert late[15:] == pytest.approx(at_once[15:], rel=1e-5)


def test_a_lag_adds_no_swing_and_leaves_iterations_where_they_are(
    tmp_path: Path,
) -> None:
    job = {
        "low": 0.45,
        "edge_s": 0.1,
        "checkpoint_interval": 41.3,
        "hung_level": 0.143,
        "failures_per_1000_node_days": 9000,
        "detection_median_s": 10,
        "reschedule_s": 10,
        "load_s": 10,
        "spare_nodes": 0,
        "repair_s": 0,
    }
    at_once, late = power_mw(tmp_path, **job)
    changed = np.flatnonzero(~np.isclose(at_once, late, rtol=1e-6))
    assert np.sum(np.diff(changed) > 20) > 10  # changes of phase
    # None beyond a second of each
    assert changed.size < 12 * (1 + np.sum(np.diff(changed) > 1))
    for n_steps in (1, 3, 5, 10, 20, 100):
        upper, lower = (
            np.ptp(
                np.lib.stride_tricks.sliding_window_view(w, n_steps + 1), axis=1
            ).max()
            for w in (at_once, late)
        )
        assert lower <= upper * (1 + 1e-6)


@pytest.mark.parametrize(("allowed", "verdict"), [(30, "not met"), (100, "met")])
def test_a_limit_has_the_verdicts_of_both_ends(
    allowed: float, verdict: str, tmp_path: Path
) -> None:
    # a stall is 0.233 MW: at once 70 MW/min over 0.2 s, within a second 14
    limits = limits_of(tmp_path, allowed)
    run = simulate(
        scenario_of(), tmp_path / "run", profiles=tiny_library(), limits=[limits]
    )
    (result,) = run.verdicts[0].results
    assert result.verdict == verdict
    assert result.value == pytest.approx(STALL_MW * 300, rel=1e-3)
    assert (
        "at the lower end of a large job's lag_s and edge_s: met, worst 13.9"
        in result.ends
    )


def joined_w(blocks: list[Block]) -> np.ndarray:
    return np.concatenate([block.columns["facility_power_w"] for block in blocks])


@pytest.mark.parametrize(
    ("node", "window_days"), [(NODE, None), (NODE | {"ac_power": "dlc"}, 0.25)]
)
def test_both_ends_of_one_pass_are_those_of_two_runs(
    node: dict[str, Any], window_days: float | None, tmp_path: Path
) -> None:
    """Beside other jobs, some of them in its own pool."""
    of_class = {"workload": "tune", "n_nodes": 2, "probability": 1}
    of_job = JOB | {"low": 0.4, "failures_per_1000_node_days": 90, "work_days": 0.2}
    streams: dict[str, Any] = {
        f"of_{pool}": {"pool": pool, "jobs_per_day": 500, "classes": [of_class]}
        for pool in ("main", "b")
    }
    streams["pretraining"] = {"pool": "main", "synchronous": {"jobs": [of_job]}}
    pool = {"node_type": "node", "n_nodes": 140}
    site = {
        "duration": "7 h",
        "facility": {"node_types": {"node": node}, "pools": {"main": pool, "b": pool}},
        "streams": streams,
    }
    both = scenario_of(site=site)
    lower = lower_end(both)
    assert lower is not None
    watch = WatchedLimits((limits_of(tmp_path, 30),))
    found = []
    for scenario, of in ((both, watch), (lower, NO_WATCH)):
        options = RunOptions(engine="compiled", window_days=window_days)
        inputs = load_inputs(scenario, tiny_library())
        line = Pipeline.open(prepare(scenario, inputs, options, of))
        at_end = list[Block]()
        if line.lower_end is not None:
            line.lower_end.sinks = [SimpleNamespace(add=at_end.append)]
        windows = line.windows(window_days, lambda *_: None)
        found += [joined_w([*line.blocks(windows, 0)])]
        found += [joined_w(at_end)] if at_end else []
    of_run, beside, alone = found
    assert beside == pytest.approx(alone, rel=1e-12)
    assert np.abs(of_run - beside).max() > 1e3


def test_a_run_until_decided_stops_where_both_ends_are_not_met(tmp_path: Path) -> None:
    told: list[str] = []

    class Telling(Progress):
        def tell(self, text: str) -> None:
            told.append(text)

    own: dict[str, Any] = {"profiles": tiny_library(), "until_decided": True}
    site = scenario_of(site={"duration": "12 h"}, work_days=1)
    not_met = [limits_of(tmp_path, 10)]
    with pytest.raises(EarlyStopError, match="no run folder") as stopped:
        simulate(site, tmp_path / "a", limits=not_met, progress=Telling(), **own)
    (report,) = stopped.value.reports
    assert report.verdict == "not met" and 0 < report.days < 0.4
    assert not (tmp_path / "a").exists()
    assert [text.partition(", ")[0] for text in told] == [
        "limits: not met from 2026-01-01 at 00:04:19 on at the lower end of a large "
        "job's lag_s and edge_s",
        "limits: not met from 2026-01-01 at 00:04:19 on",
    ]
    # Kept at the lower end: that the year alone decides
    run = simulate(site, tmp_path / "b", limits=[limits_of(tmp_path, 30)], **own)
    assert run.verdicts[0].not_met and run.verdicts[0].days == 0.5


def test_both_ends_stand_beside_every_limit_though_its_words_hold_numbers(
    tmp_path: Path,
) -> None:
    """The text of a check holds the swing without its filter, which differs from end to
    end."""
    band = {"low_hz": 0.1, "high_hz": 4.0}
    swings = [{"window": "0.5 s", "max_mw": mw, "filter": band} for mw in (0.01, 100.0)]
    ramp = {"interval": "0.2 s", "between": "end_points"}
    ramps = [{**ramp, "down_mw_per_min": 30, "up_mw_per_min": 200}]
    limits = Limits.model_validate({"name": "own", "ramps": ramps, "swings": swings})
    run = simulate(
        scenario_of(), tmp_path / "run", profiles=tiny_library(), limits=[limits]
    )
    lower = lower_end(scenario_of())
    assert lower is not None
    end = simulate(lower, tmp_path / "end", profiles=tiny_library(), limits=[limits])
    here, there = run.verdicts[0].results, end.verdicts[0].results
    assert len(here) == len(there) == 4
    assert any(a.text != b.text for a, b in zip(here, there, strict=True))
    for upper, own in zip(here, there, strict=True):
        said = f"lag_s and edge_s: {own.verdict}, worst {own.value:.4g} {own.unit}"
        assert upper.ends.endswith(said)
    (table,) = run.sections()[1].tables
    assert all(
        "lower end" in cells["Other end of a large job"].value
        for cells in table.rows.values()
    )


def test_only_jobs_on_several_nodes_whose_lag_is_not_given_have_a_lower_end() -> None:
    lower = lower_end(scenario_of())
    assert lower is not None
    assert lower.streams["pretraining"].synchronous is not None
    (job,) = lower.streams["pretraining"].synchronous.jobs
    assert (job.lag_s, job.edge_s) == (1.0, 0.3)
    assert lower_end(scenario_of(lag_s=0.5, edge_s=0.1)) is None
    assert lower_end(scale_scenario(scenario_of(), 2.0)) is not None, (
        "what a larger site is not given"
    )
    assert lower_end(scale_scenario(scenario_of(lag_s=0.5, edge_s=0.1), 2.0)) is None
    assert lower_end(scenario_of({"power_smoothing": {}})) is None
    short = SynchronousJob(**JOB | {"period_s": 0.9, "edge_s": 0.1})
    assert SynchronousJob(**JOB | {"n_nodes": 1}).lower_end(8) is None
    end = short.lower_end(8)
    assert end is not None
    assert (end.lag_s, end.edge_s) == (1.0, 0.1)
