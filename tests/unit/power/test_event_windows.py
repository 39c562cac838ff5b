"""The worst windows, against a dense search of the same series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import tiny_library, tiny_scenario

from diploee import generate_jobs
from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.facility import Block
from diploee.facility.base import Stages
from diploee.power.blocks import PowerModel
from diploee.power.extreme_windows import EventWindowSearch
from diploee.simulation.steps import job_segments, power_series, schedule_jobs


@pytest.fixture(scope="module")
def load():
    scenario, library = (
        tiny_scenario({"duration": "30 h", "resolution": "1 s"}),
        tiny_library(),
    )
    schedule = schedule_jobs(
        generate_jobs(scenario, library).jobs, scenario, "compiled"
    )
    return job_segments(schedule, library, scenario), scenario, library


class Cumulated:
    """A stage with a state: adds a watt for each hour of energy since the start of the
    run."""

    columns = (
        Column(
            "cumulated_w",
            "W",
            "facility",
            "mean",
            None,
            "a watt per kWh so far",
            role="load",
        ),
    )
    boundary = "with a watt per kWh"

    def start(self) -> float:
        return 0.0

    def apply(
        self, block: Block, energy_kwh: float
    ) -> tuple[dict[str, np.ndarray], float]:
        own_kwh = block.columns["it_power_w"] * (block.dt_ms / 3.6e9)
        so_far = energy_kwh + np.cumsum(own_kwh)
        power_w = block.columns["facility_power_w"] + so_far
        return {"cumulated_w": so_far, "facility_power_w": power_w}, float(so_far[-1])


def searched(
    load, window_ms: int | None = None, stages: Stages | None = None
) -> EventWindowSearch:
    """Search a run that comes in windows of a length [ms]."""
    segments, scenario, library = load
    horizon_ms = scenario.horizon_ms
    used = tuple(np.unique(segments.profile_id).tolist())
    model = PowerModel(
        scenario.facility, library, used, scenario.resolution_ms, horizon_ms
    )
    search = EventWindowSearch(model, stages or Stages([]))
    ends_ms = [
        *range(window_ms or horizon_ms, horizon_ms, window_ms or horizon_ms),
        horizon_ms,
    ]
    edges = np.searchsorted(segments.start_ms, [0, *ends_ms])
    windows = [
        (segments.take(slice(first, stop)), end_ms)
        for (first, stop), end_ms in zip(pairwise(edges), ends_ms, strict=True)
    ]
    assert [end_ms for _, end_ms in search.watch(windows)] == ends_ms
    return search


def found(load, **how):
    return {
        event.name: (event, list(blocks))
        for event, _, blocks in searched(load, **how).event_windows()
    }


def largest_step(power_w: np.ndarray, length: int, sign: int) -> float:
    means = np.convolve(power_w, np.full(length, 1 / length), mode="valid")
    return float((sign * (means[length:] - means[:-length])).max() * sign)


def test_event_windows_find_the_extremes_of_a_dense_search(load) -> None:
    power_w = power_series(*load)["facility_power_w"].to_numpy()
    events = {name: event for name, (event, _) in found(load).items()}
    assert events["peak"].value_w == pytest.approx(power_w.max())
    for length in (1, 10, 60):
        for name, sign in (("rise", 1), ("drop", -1)):
            expected_w = largest_step(power_w, length, sign)
            assert events[f"{name}_{length}s"].value_w == pytest.approx(
                expected_w, rel=1e-9
            )


@pytest.mark.parametrize("stages", [[], [Cumulated()]])
def test_event_windows_do_not_depend_on_the_windows_of_a_run(load, stages) -> None:
    whole = found(load, stages=Stages(stages))
    in_pieces = found(load, window_ms=5 * 3_600_000 + 1, stages=Stages(stages))
    assert list(in_pieces) == list(whole)
    for name, (event, blocks) in whole.items():
        assert in_pieces[name][0] == event
        for here, there in zip(blocks, in_pieces[name][1], strict=True):
            for column, values in here.columns.items():
                assert values.tobytes() == there.columns[column].tobytes()


def test_event_window_holds_its_extreme_at_the_stated_time(load) -> None:
    for stages in ([], [Cumulated()]):
        for event, blocks in found(load, stages=Stages(stages)).values():
            fine_w = np.concatenate(
                [block.columns["facility_power_w"] for block in blocks]
            )
            assert fine_w.size == (event.end_ms - event.start_ms) // 100
            seconds_w = fine_w.reshape(-1, 10).mean(axis=1)
            at = (event.at_ms - event.start_ms) // 1000
            if event.name == "peak":
                assert seconds_w[at] == pytest.approx(event.value_w, rel=1e-6)
            else:
                length = int(event.name.split("_")[1].removesuffix("s"))
                step_w = (
                    seconds_w[at : at + length].mean()
                    - seconds_w[at - length : at].mean()
                )
                assert step_w == pytest.approx(event.value_w, rel=1e-3)


def test_run_keeps_its_event_windows_at_a_tenth_of_a_second(tmp_path) -> None:
    scenario = tiny_scenario({"duration": "6 h"})
    run = simulate(
        scenario, tmp_path / "run", profiles=tiny_library(), event_windows=True
    )
    windows = run.metrics["zooms"]["windows"]
    assert {window["name"] for window in windows} >= {"peak", "rise_1s", "drop_60s"}
    for window in windows:
        rows = pq.read_table(run.folder / window["file"]).num_rows
        assert rows == window["window_s"] * 10
