"""The model's own clock does not show in the load of services: no minute, hour or month
does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from serving_builders import services_load

import diploee
from diploee.base.tables import Float64Array

pytestmark = pytest.mark.slow


def series_w(tmp_path: Path, name: str, **values: object) -> Float64Array:
    scenario = diploee.load_scenario("inference_1mw", values=values)
    run = diploee.run(scenario, tmp_path / name)
    power_w: Float64Array = run.facility()["it_power_w"].to_numpy().astype(np.float64)
    return power_w


def test_steps_on_the_minute_are_no_larger_than_others(tmp_path: Path) -> None:
    power_w = series_w(tmp_path, "week", duration="1 week", resolution="1 s")
    step_w = np.abs(np.diff(power_w))
    on_minute = np.arange(1, power_w.size) % 60 == 0
    assert stats.ks_2samp(step_w[on_minute], step_w[~on_minute]).pvalue > 1e-3
    largest = np.argsort(step_w)[-200:]
    assert stats.binom.sf(np.count_nonzero(on_minute[largest]) - 1, 200, 1 / 60) > 1e-3
    # One-minute power is the mean of what the seconds have.
    minutes_w = series_w(tmp_path, "minutes", duration="1 week")
    assert minutes_w == pytest.approx(power_w.reshape(-1, 60).mean(axis=1), rel=1e-6)


def test_no_jump_of_a_bank_leads_the_steps_of_a_day(tmp_path: Path) -> None:
    """Another place or another sample, with the same instances, is no event of the
    load."""
    values = {"duration": "1 day", "resolution": "0.1 s"}
    step_w = np.abs(np.diff(series_w(tmp_path, "day", **values)))
    scenario = diploee.load_scenario("inference_1mw", values=values)
    load = services_load(scenario)
    there = np.zeros(step_w.size, dtype=bool)
    for bank in load.banks:
        ahead_ms = np.diff(bank.offset_ms) - np.diff(bank.edges_ms)[:-1]
        moved = (ahead_ms % 180_000 != 0) | (np.diff(bank.profile_id) != 0)
        same = np.diff(bank.n_nodes) == 0
        interval = bank.edges_ms[1:-1][moved & same] // 100
        there[interval - 1] = there[interval[interval < step_w.size]] = True
    n_there = np.count_nonzero(there[np.argsort(step_w)[-200:]])
    assert stats.binom.sf(n_there - 1, 200, there.mean()) > 1e-3


@pytest.mark.parametrize("minutes", [1, 5, 15])
def test_largest_ramps_of_a_year_stand_on_no_hour_and_no_first_of_a_month(
    minutes: int, tmp_path: Path
) -> None:
    power_w = series_w(tmp_path, "year")
    ramp_w = np.abs(power_w[minutes:] - power_w[:-minutes])
    begins = np.arange(ramp_w.size)
    # One ramp of a cluster, the largest: its neighbours are the same event.
    chosen: list[int] = []
    for begin in np.argsort(ramp_w)[::-1].tolist():
        if all(abs(begin - other) > 60 for other in chosen):
            chosen.append(begin)
        if len(chosen) == 100:
            break
    spans = (begins[chosen][:, None] + np.arange(minutes + 1)) % 60
    on_hour = np.count_nonzero((spans == 0).any(axis=1))
    assert stats.binom.sf(on_hour - 1, 100, (minutes + 1) / 60) > 1e-3
    first = np.arange("2018-01", "2019-02", dtype="datetime64[M]").astype(
        "datetime64[m]"
    )
    first_minute = (first - first[0]).astype(int)
    assert np.abs(np.array(chosen[:10])[:, None] - first_minute).min() > 60


def test_fluctuation_falls_with_the_size_of_the_facility(tmp_path: Path) -> None:
    """Ten times the nodes and the rate, flat calendar: 0.5 (1 + 1 / 10) of the variance
    stays."""
    stream = "request_streams.llama3"
    flat = {f"{stream}.calendar": {"hour_of_day": [1] * 24}, "duration": "2 weeks"}
    found = []
    for factor in (1, 10):
        values = {
            **flat,
            f"{stream}.request_rate_rps": 3434.91 * factor,
            "facility.pools.serving.n_nodes": 285 * factor,
            "facility.rated_power_mw": factor,
        }
        scenario = diploee.load_scenario("inference_1mw", values=values)
        run = diploee.run(scenario, tmp_path / str(factor))
        frame = run.facility()
        rate_rps = sum(
            frame[f"incoming_rps.{name}"] for name in ("coding", "conversation")
        )
        found.append(float((rate_rps / rate_rps.mean()).std()))
    assert found[0] == pytest.approx(0.05, rel=0.1)
    assert found[1] / found[0] == pytest.approx(np.sqrt(0.55), rel=0.1)
