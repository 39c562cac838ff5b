"""A run computed at a step and written at a resolution, and the limits that it watches."""  # noqa: E501

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import checked_site, tiny_library, tiny_run, tiny_scenario, write_scenario
from command_line import call

from diploee import Run
from diploee.base.errors import InputError, ScenarioError
from diploee.grid.limits import Limits, check_limits
from diploee.grid.limits.watch import WatchedLimits, needed_step_ms
from diploee.scenario.times import steps_ms
from diploee.simulation.prepared import at_needed_step

LIMITS = Limits.model_validate(
    {
        "name": "seconds",
        "ramps": [{"interval": "10 s", "mw_per_s": 1e-4}],
        "swings": [{"window": "5 s", "max_mw": 0.5}],
        "band_rms": [{"low_hz": 0.01, "high_hz": 0.1, "max_rms_mw": 1e-3}],
        "peaks": [{"max_mw": 1}],
        "daily_energy_mwh": 1.0,
        "power_factor": [{"min_lagging": 0.9}],
    }
)
NODE = "facility.node_types.node"
SITE = {
    f"{NODE}.ac_power": "air_hgx",
    "facility.stages": [
        {"kind": "pdu"},
        {"kind": "constant_loss", "loss_fraction": 0.03},
        {"kind": "point_of_interconnection"},
    ],
}
SPAN = {"duration": "6 h", "warm_up": "2 h"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def stepped(folder: Path) -> Run:
    changes = SPAN | SITE | {"resolution": "1 min", "step": "0.5 s"}
    return tiny_run(folder / "stepped", changes, limits=[LIMITS])


@pytest.fixture(scope="module")
def fine(folder: Path) -> Run:
    return tiny_run(folder / "fine", SPAN | SITE | {"resolution": "0.5 s"})


def columns_of(run: Run) -> dict[str, np.ndarray]:
    names = pq.read_schema(run.folder / "facility.parquet").names[1:]
    blocks = list(run.blocks(names))
    return {
        n: np.concatenate([b.columns[n] for b in blocks]).astype(float) for n in names
    }


def test_what_is_written_is_the_mean_of_the_steps_and_instants_are_those_of_the_start(
    stepped: Run, fine: Run
) -> None:
    written, at_steps = columns_of(stepped), columns_of(fine)
    kinds = {column.name: column.kind for column in stepped.columns}
    assert set(written) == set(at_steps) and set(kinds.values()) == {"mean", "instant"}
    for name, values in written.items():
        steps = at_steps[name].reshape(-1, 120)
        expected = steps[:, 0] if kinds[name] == "instant" else steps.mean(axis=1)
        assert values == pytest.approx(expected, rel=2e-7), name


def test_stages_are_measured_at_the_step(stepped: Run, fine: Run) -> None:
    assert stepped.metrics["pdu"] == pytest.approx(fine.metrics["pdu"], rel=1e-9)
    assert stepped.metrics["grid"]["resolution_s"] == 60
    assert fine.metrics["grid"]["resolution_s"] == 0.5


def test_verdicts_of_the_watch_are_those_of_a_run_written_at_the_step(
    stepped: Run, fine: Run
) -> None:
    (watched,), checked = stepped.verdicts, check_limits(fine, LIMITS)
    assert (watched.verdict, watched.resolution_s) == ("not met", 0.5)
    assert watched.days == 0.25
    assert watched.unchecked == checked.unchecked and watched.outside == checked.outside
    assert len(watched.results) == 5
    names = (
        "key",
        "text",
        "limit",
        "violations",
        "duration_s",
        "value",
        "time",
        "note",
    )
    for name in names:
        mine, theirs = (
            [getattr(result, name) for result in report.results]
            for report in (watched, checked)
        )
        assert mine == theirs, name


def test_a_run_tells_again_what_it_found_of_the_same_limits_alone(stepped: Run) -> None:
    assert stepped.limits(LIMITS) == stepped.verdicts[0]
    others = LIMITS.model_copy(update={"daily_energy_mwh": 2.0})
    assert stepped.limits(others).resolution_s == 60


@pytest.mark.parametrize(
    ("limits", "step_ms"),
    [
        ({"peaks": [{"max_mw": 1}]}, 60_000),
        ({"ramps": [{"interval": "10 min", "mw_per_min": 1}]}, 60_000),
        ({"ramps": [{"interval": "1 min", "mw_per_min": 1}]}, 6_000),
        ({"swings": [{"window": "5 s", "max_mw": 1}]}, 500),
        ({"swings": [{"window": "1 s", "max_mw": 1}]}, 100),
        ({"band_rms": [{"low_hz": 0.01, "high_hz": 0.02, "max_rms_mw": 1}]}, 12_000),
        ({"lines": [{"low_hz": 0.1, "high_hz": 60, "max_amplitude_mw": 1}]}, 100),
    ],
)
def test_limits_ask_for_a_tenth_of_their_windows_and_four_steps_in_a_period(
    limits: dict, step_ms: int
) -> None:
    scenario = tiny_scenario({"resolution": "1 min"})
    assert needed_step_ms(Limits.model_validate(limits), scenario) == step_ms


@pytest.mark.parametrize(
    ("period_s", "step_ms"), [(6.0, 100), (90.0, 1_500), (400.0, 6_000), (0.7, 100)]
)
def test_limits_on_points_ask_for_sixty_steps_in_an_iteration_and_those_on_means_do_not(
    period_s: float, step_ms: int
) -> None:
    job = {"n_nodes": 2, "period_s": period_s, "work_days": 1}
    stream = {"pool": "main", "synchronous": {"jobs": [job]}}
    scenario = tiny_scenario({"resolution": "1 min", "streams": {"training": stream}})
    ramp = {"interval": "1 min", "mw_per_min": 1}
    points = Limits.model_validate({"ramps": [ramp | {"between": "end_points"}]})
    assert needed_step_ms(points, scenario) == step_ms
    assert needed_step_ms(Limits.model_validate({"ramps": [ramp]}), scenario) == 6_000


def test_steps_are_what_a_resolution_is_made_of() -> None:
    assert list(steps_ms(1_000)) == [1_000, 500, 200, 100]
    assert list(steps_ms(100)) == [100]
    for step_ms in steps_ms(3_600_000):
        assert 3_600_000 % step_ms == 0 and step_ms % 100 == 0


def test_a_step_that_is_given_stays_and_leaves_limits_inconclusive(
    folder: Path,
) -> None:
    scenario = tiny_scenario({"step": "30 s"})
    assert at_needed_step(scenario, watch=WatchedLimits((LIMITS,))) is scenario
    run = tiny_run(folder / "coarse", SPAN | {"step": "30 s"}, limits=[LIMITS])
    (report,) = run.verdicts
    assert report.resolution_s == 30
    assert {key for key, *_ in report.unchecked} >= {"ramps.0", "band_rms.0"}


def test_limits_of_a_scenario_are_files_beside_it_or_presets(
    folder: Path, tmp_path: Path, library_folder: Path
) -> None:
    (tmp_path / "own.yaml").write_text("name: own\npeaks: [{max_mw: 9}]\n", "utf-8")
    site = write_scenario(
        tmp_path / "site.yaml", SPAN | {"limits": ["own.yaml", "example"]}
    )
    profiles = ("--profiles", library_folder, "--out", tmp_path / "run")
    ended = call("run", site, *profiles, "--json")
    assert ended.code == 0, ended.err
    named = [report["name"] for report in json.loads(ended.out)["limits"]]
    assert named == ["own", "example"]


def test_verdicts_are_printed_first(tmp_path: Path, library_folder: Path) -> None:
    site = write_scenario(tmp_path / "site.yaml", SPAN)
    (tmp_path / "own.yaml").write_text(
        "name: own\npeaks: [{max_mw: 1.0e-6}]\n", "utf-8"
    )
    common = ("--profiles", library_folder, "--limits", tmp_path / "own.yaml")
    ended = call("run", site, *common, "--out", tmp_path / "run")
    first = "own, on means of 60 s: NOT MET (1 not met; 0.25 days of a year)"
    assert ended.code == 0 and ended.out.lstrip().startswith(first), ended.out
    again = call("limits", tmp_path / "own.yaml", tmp_path / "run", "--fail")
    assert again.code == 3


def test_a_run_that_would_take_too_long_ends_before_it_and_says_what_takes_less(
    tmp_path: Path, library_folder: Path
) -> None:
    site = write_scenario(tmp_path / "site.yaml", {"duration": "1 year"})
    out = tmp_path / "run"
    limits = ("--limits", "ercot_lcl_2026_06", "--quiet", "--at-most", "0.1")
    ended = call("run", site, "--profiles", library_folder, *limits, "--out", out)
    assert ended.code == 2 and not out.exists()
    assert (
        "in steps of 0.1 s, more than the 6 s of --at-most; raise it" in ended.problem
    )


def test_a_step_that_a_resolution_is_not_made_of_is_refused() -> None:
    words = "step: 40 s does not divide the resolution of 60 s"
    with pytest.raises(ScenarioError, match=words):
        tiny_scenario({"resolution": "1 min", "step": "40 s"})


def test_a_percentage_of_the_peak_without_a_contract_is_of_the_year_s_own_means(
    folder: Path,
) -> None:
    ramp = {"interval": "10 min", "mw_per_min": {"percent_of_peak": 1}}
    limits = Limits.model_validate({"name": "part", "ramps": [ramp]})
    hourly = {"duration": "1 year", "resolution": "1 h"}
    year = tiny_run(folder / "year", hourly, limits=[limits])
    (result,) = year.verdicts[0].results
    assert year.verdicts[0].resolution_s == 60
    assert result.limit == pytest.approx(0.01 * year.metrics["grid"]["peak"]["max_mw"])
    part = tiny_run(folder / "part", hourly | {"duration": "2 d"}, limits=[limits])
    ((_, _, why, _),) = part.verdicts[0].unchecked
    assert "contract_mw" in why


def test_a_forecast_counts_the_steps() -> None:
    times_s = [
        checked_site(
            tiny_scenario({"duration": "1 year", "step": step}), tiny_library()
        ).forecast.time_s
        for step in ("1 min", "0.5 s")
    ]
    assert times_s[1] > 2 * times_s[0]


def test_a_stage_that_needs_a_finer_step_than_is_given_is_named(monkeypatch) -> None:
    from diploee.facility.constant_loss import ConstantLossSpec

    monkeypatch.setattr(ConstantLossSpec, "needed_step_ms", lambda _: 7_000)
    scenario = tiny_scenario(SITE)
    assert at_needed_step(scenario).step_ms == 6_000
    with pytest.raises(
        InputError, match=r"step: 30 s is coarser than the 6 s that facility"
    ):
        at_needed_step(scenario.model_copy(update={"step": 30_000}))


def test_peaks_and_ramps_by_averaging_time_are_those_of_the_steps(
    stepped: Run, fine: Run
) -> None:
    found = stepped.metrics["grid"]["at_step"]
    power_mw = columns_of(fine)["facility_power_w"] / 1e6
    assert found["step_s"] == 0.5 and set(found["peaks"]) == {"1s", "60s", "900s"}
    for name, entry in found["peaks"].items():
        n = round(2 * float(name[:-1]))
        means_mw = power_mw.reshape(-1, n).mean(axis=1)
        assert entry["max_mw"] == pytest.approx(means_mw.max(), rel=1e-6)
    for name, entry in found["ramps"].items():
        n = round(2 * float(name[:-1]))
        means_mw = np.convolve(power_mw, np.full(n, 1 / n), "valid")
        changes = (means_mw[n:] - means_mw[:-n]) / (n / 120)
        assert entry["up_mw_per_min"] == pytest.approx(changes.max(), rel=1e-5)
        assert entry["down_mw_per_min"] == pytest.approx(-changes.min(), rel=1e-5)


AVERAGED = ("1 s", "1 min", "10 min", "15 min")


def test_the_data_sheet_has_one_row_of_peaks_and_of_ramps(stepped: Run) -> None:
    from diploee.reports.datasheet import data_sheet

    (section,) = (s for s in data_sheet(stepped).sections if s.id == "averaging")
    (table,) = section.tables
    assert [row.partition(" [")[0] for row in table.rows] == [
        *("Peak", "Largest ramp up", "Largest ramp down")
    ]
    peak_mw = stepped.metrics["grid"]["at_step"]["peaks"]["1s"]["max_mw"]
    shown = float(table.cell("Peak [MW]", "1 s means"))
    assert shown == pytest.approx(peak_mw, rel=1e-3)
    assert list(table.units) == [f"{of} means" for of in AVERAGED]


GENERATOR = {"kind": "generator", "power_mw": 0.004, "above_mw": 0.014}
QUICK = {"min_up_time_min": 1, "min_down_time_min": 1, "start_delay_s": 10}
STORE = {"kind": "battery", "power_mw": 0.005, "energy_mwh": 0.001, "smoothing_s": 60}
STORED = {"facility.stages": [GENERATOR | QUICK, STORE]}


@pytest.mark.parametrize("rows_s", [60, 300])
def test_charge_and_starts_of_a_row_are_those_of_its_steps(
    rows_s: int, tmp_path: Path
) -> None:
    run = tiny_run(
        tmp_path / "run",
        STORED | {"duration": "2 h", "resolution": "1 min", "step": "1 s"},
    )
    names = ["generator_starts", "battery_state_of_charge", "battery_discharge_w"]
    blocks = list(run.blocks(names, step_ms=rows_s * 1_000))
    starts, charge, given_w = (
        np.concatenate([b.columns[name] for b in blocks]) for name in names
    )
    # Each order to start counts once, and the store has lost what left it by the end of
    # a row.
    assert starts.sum() == run.metrics["generator"]["starts"] > 2
    nominal_j = 0.001 * 3.6e9
    left_j = charge[0] * nominal_j - np.cumsum(given_w[1:]) * rows_s
    assert charge[1:] == pytest.approx(left_j / nominal_j, abs=2e-6)
