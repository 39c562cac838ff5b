"""The catalogue of metrics: one declaration that every reader shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import TYPICAL_DENVER, tiny_scenario

import diploee
from diploee.base.errors import InputError
from diploee.base.metric import Metric, catalogue, find_metric, flatten
from diploee.base.units import KILOWATT, MEGAWATT
from diploee.metrics.catalogue import declared_metrics
from diploee.profiles import ProfileLibrary
from diploee.scenario import load_scenario

NUMBERS = (int, float)
OPTIONAL = ("requests.", "flexibility.", "solar.")


RAMP = "grid.ramps.intervals.10s.up.max_mw_per_min"
DEMAND = "grid.maximum_demand.intervals.15min"
TITLES = {
    "power.max_mw": "maximum power [MW]",
    "pools.h100.power.max_mw": "maximum power, pool h100 [MW]",
    "pools.a.b.jobs.unstarted": "jobs never started, pool a.b [jobs]",
    "requests.services.a.b.latency_s.p50": (
        "median end-to-end latency, service a.b [s]"
    ),
    RAMP: "largest ramp up over 10 s [MW/min]",
    f"{DEMAND}.max_mw": "maximum demand over 15 min [MW]",
    f"{DEMAND}.monthly.2018-01.max_mw": "maximum demand over 15 min in 2018-01 [MW]",
    "grid.spectrum.bands.0.25-0.44Hz.rms_p99_mw": "P99 rms in 0.25-0.44 Hz [MW]",
    "grid.coincidence.pools.h100.max_mw": "peak of pool h100 [MW]",
    "zooms.windows.rise_10s.value_mw": "rise_10s of 1 s means [MW]",
}


def test_a_key_is_named_after_what_it_stands_for() -> None:
    for key, title in TITLES.items():
        found = find_metric(key, declared_metrics())
        assert found is not None
        assert (found.key, found.title) == (key, title)


def test_a_key_that_nobody_declares_has_no_metric() -> None:
    for key in ("power.mean", "power.max_mw.x", "xpower.max_mw", ""):
        assert find_metric(key, declared_metrics()) is None, key


def test_a_key_taken_twice_is_refused_by_what_both_declare() -> None:
    mine = Metric("power.max_mw", "MW", "my peak")
    with pytest.raises(
        InputError, match=r"twice: as maximum power \[MW\] and as my peak \[MW\]"
    ):
        catalogue(declared_metrics(), [mine])


def test_entries_of_lists_go_by_what_tells_them_apart() -> None:
    nested = {
        "a": {"b": 1, "curve": [1.0, 2.0], "none": None},
        "duration": {"percent_of_time": [0.0, 0.5], "exceeded_mw": [7.0, 6.0]},
        "lines": [{"frequency_hz": 0.1}, {"frequency_hz": 0.2}],
        "sizes": [
            {"from_mw": 0.5, "to_mw": 1.0, "n": 3},
            {"from_mw": 1.0, "to_mw": None, "n": 4},
        ],
        "intervals": [
            {"interval_s": 10.0, "up": {"max": 2}},
            {"interval_s": 0.5, "up": {"max": 3}},
        ],
        "demand": [{"interval_min": 15, "max": 4}],
        "bands": [{"low_hz": 0.1, "high_hz": 0.25, "rms": 5}],
        "windows": [{"name": "peak", "window_s": 240.0}],
        "classes": [{"from_mw": 1}],
        "absent": [{"interval_s": 2.0, "reason": "too short"}],
    }
    assert dict(flatten(nested)) == {
        "a.b": 1,
        "a.none": None,
        "duration.0%.exceeded_mw": 7.0,
        "duration.0.5%.exceeded_mw": 6.0,
        "lines.1.frequency_hz": 0.1,
        "lines.2.frequency_hz": 0.2,
        "sizes.0.5-1MW.n": 3,
        "sizes.1-infMW.n": 4,
        "intervals.10s.up.max": 2,
        "intervals.0.5s.up.max": 3,
        "demand.15min.max": 4,
        "bands.0.1-0.25Hz.rms": 5,
        "windows.peak.window_s": 240.0,
    }


def undeclared(metrics: object) -> list[str]:
    """Return the keys of numbers that nobody declares."""
    numbers = [
        k
        for k, v in flatten(metrics)
        if isinstance(v, NUMBERS) and not isinstance(v, bool)
    ]
    assert len(numbers) > 150
    return [key for key in numbers if find_metric(key, declared_metrics()) is None]


def test_every_number_of_a_run_is_declared(tmp_path: Path) -> None:
    scenario = load_scenario("mixed_11mw", ["duration=3 h", "resolution=1 s"])
    run = diploee.run(scenario, tmp_path / "run", engine="compiled", event_windows=True)
    assert undeclared(run.metrics) == []


def test_a_number_is_shown_in_its_unit_and_none_where_there_is_none() -> None:
    share = Metric("a", "%", "share", "{:.1f}", factor=100)
    assert (share.show(0.256), share.heading) == ("25.6", "Share [%]")
    assert [share.show(value, "-") for value in (None, float("nan"), True, "x")] == [
        "-"
    ] * 4


def test_powers_and_energies_are_shown_in_the_unit_of_their_size() -> None:
    units = {
        "MW": "kW",
        "MWh": "kWh",
        "MW/min": "kW/min",
        "1/s": "1/s",
        "Mvarh": "kvarh",
        "MVA": "kVA",
    }
    shown = {unit: Metric("a", unit, "of").sized(KILOWATT) for unit in units}
    assert {unit: metric.unit for unit, metric in shown.items()} == units
    assert shown["MW"].show(0.0123) == "12.300"
    assert shown["1/s"].show(0.0123) == "0.012"
    assert Metric("a", "MW", "power").sized(MEGAWATT).show(1.5) == "1.500"


def test_metrics_of_every_stage_keep_the_keys_that_they_are_declared_by(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    chain = [
        {"kind": "constant_loss", "loss_fraction": 0.1},
        "pdu",
        "ups",
        "wse",
        {"kind": "auxiliary_load", "power_kw": 1.0},
        "transformers",
        {"kind": "battery", "power_mw": 1.0, "energy_mwh": 1.0, "smoothing_s": 60.0},
        {"kind": "ramp_limit", "down_mw_per_min": 1.0},
        {"kind": "generator", "power_mw": 1.0, "above_mw": 1.0},
        {"kind": "point_of_interconnection", "contract_mva": 1.0},
    ]
    keys = TYPICAL_DENVER | {
        f"facility.node_types.{n}.ac_power": "dlc"
        for n in tiny_scenario().facility.node_types
    }
    scenario = tiny_scenario({"facility.stages": chain, **keys})
    run = diploee.run(scenario, tmp_path / "tiny", profiles=library)
    assert undeclared(run.metrics) == []
    tables = {
        m.key for m in declared_metrics() if m.view != "detail" and "<" not in m.key
    }
    needed = {key for key in tables if not key.startswith(OPTIONAL)}
    assert needed <= set(dict(flatten(run.metrics)))
