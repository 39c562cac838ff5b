"""Model-quality tests of a site: flat start, steps, ride-through by named curves."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from builders import TYPICAL_DENVER, tiny_run
from command_line import call

from diploee.base.errors import InputError
from diploee.grid.dynamics import (
    CURVES,
    Event,
    ModelQuality,
    Site,
    Voltage,
    model_quality,
)
from diploee.grid.dynamics.curves import uncovered_text
from diploee.grid.dynamics.quality_tests import BEFORE_S, envelope
from diploee.reports import write_model_quality
from diploee.reports.build import is_report
from diploee.reports.model_quality_page import model_quality_chart
from diploee.runs.load_parts import LoadParts
from diploee.runs.sections import as_lines
from diploee.scenario.ride_through import RideThrough

CHAIN = ["pdu", "ups", "dlc_tower", "auxiliary_load", "point_of_interconnection"]
POI = {
    "facility.node_types.node.ac_power": "dlc",
    "facility.stages": CHAIN,
    **TYPICAL_DENVER,
    "duration": "10 min",
    "resolution": "1 s",
}
NO_JOBS = {
    "streams.training.target_utilization": None,
    "streams.training.jobs_per_day": 1e-9,
    "facility.node_types.node.idle_power_w": 0,
}
LEAVES = RideThrough(stages=({"voltage_pu": 0.9, "time_s": 0.0},))
STEPS = {"-5": 0.95, "+5": 1.05, "-10": 0.9, "+10": 1.1}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "poi", POI)


@pytest.fixture(scope="module")
def plain(run) -> ModelQuality:
    return run.model_quality()


def outcomes(of: ModelQuality, group: str) -> dict[str, str]:
    return {test.name: test.outcome for test in of.tests if test.group == group}


def figure(of: ModelQuality, test: str, name: str) -> float | None:
    ((value, _),) = [
        (value, unit)
        for each in of.tests
        if each.name == test
        for head, value, unit in each.figures
        if head == name
    ]
    return value


def drawn(of: ModelQuality) -> dict[str, float]:
    """Return P at the end of each voltage step, over that before."""
    result = {}
    for name in STEPS:
        test = next(t for t in of.tests if t.name == f"voltage {name} %")
        assert test.outcome == "pass", test
        at_its_end = figure(of, test.name, "P as the disturbance ends")
        result[name] = at_its_end / figure(of, test.name, "P before")
    return result


def test_flat_start_passes_and_is_the_run_s_own_power_at_its_peak(run, plain):
    assert outcomes(plain, "flat start") == {"flat start": "pass"}
    of = plain.tests[0].recording
    power_mw = run.facility(["facility_power_w"])["facility_power_w"] / 1e6
    assert plain.at == power_mw.idxmax()
    assert of.p_mw == pytest.approx(power_mw.max(), rel=1e-6)
    assert np.ptp(of.q_mvar) == 0 and of.q_mvar[0] != 0


def test_load_of_electronics_alone_keeps_its_power_through_every_step(tmp_path):
    run = tiny_run(tmp_path / "run", {"duration": "10 min"})
    found = run.model_quality()
    assert drawn(found) == pytest.approx(dict.fromkeys(STEPS, 1.0))
    assert set(outcomes(found, "frequency steps").values()) == {"pass"}


def test_an_impedance_answers_a_voltage_step_with_its_square(tmp_path):
    site = NO_JOBS | {"facility.stages": ["auxiliary_load"], "duration": "10 min"}
    found = tiny_run(tmp_path / "run", site).model_quality()
    assert drawn(found) == pytest.approx({n: pu**2 for n, pu in STEPS.items()})


def test_a_site_of_both_answers_by_their_shares(run):
    found = run.model_quality(drives=1.0)
    series, of = run.series(), LoadParts.from_run(run)
    row = series.row_at(found.at, "at")
    parts = of.powers(series.read(of.load, (row, row + 1)).columns)
    rest = parts["rest"][0] / sum(parts[n][0] for n in ("it", "motors", "rest"))
    wanted = {name: 1 + rest * (pu**2 - 1) for name, pu in STEPS.items()}
    assert drawn(found) == pytest.approx(wanted)
    assert rest > 0.001


def test_motors_on_line_draw_by_the_frequency(run, plain):
    series, of = run.series(), LoadParts.from_run(run)
    row = series.row_at(plain.at, "at")
    motors = of.powers(series.read(of.load, (row, row + 1)).columns)["motors"][0] / 1e6
    before = figure(plain, "flat start", "P before")
    for by_hz in (-0.5, 0.5):
        name = f"frequency {by_hz:+g} Hz"
        found = figure(plain, name, "P as the disturbance ends")
        assert found == pytest.approx(before + motors * by_hz / 60, rel=1e-5)


def test_a_run_without_settings_has_no_ride_through_that_is_covered(plain):
    for group in ("low voltage", "high voltage"):
        tests = [test for test in plain.tests if test.group == group]
        assert {test.outcome for test in tests} == {"not covered"}
        assert all("has no stage" in t.why or "gives no" in t.why for t in tests)
        assert all(test.recording is None for test in tests)


def test_settings_that_take_all_load_off_for_good_fail_every_curve_that_has_voltages(
    run,
):
    found = run.model_quality(settings=dict.fromkeys(("it", "motors", "rest"), LEAVES))
    asked = {name for name, curve in CURVES.items() if curve.zones}
    for test in found.tests:
        if test.group == "low voltage":
            name = test.name.partition(",")[0]
            judged = name in asked and CURVES[name].level is not None
            assert test.outcome == ("fail" if judged else "not covered")
            if name in asked:
                assert figure(found, test.name, "Connected, least") == 0
                assert figure(found, test.name, "Back in") is None
                assert test.recording.p_mw[-1] == pytest.approx(0, abs=1e-9)
    assert set(outcomes(found, "voltage steps").values()) == {"pass"}
    assert "not back in 10 s" in "".join(as_lines(found.sections()))


def test_load_that_leaves_at_a_normal_voltage_fails_the_step(run):
    early = RideThrough(stages=({"voltage_pu": 0.93, "time_s": 0.1},))
    found = outcomes(run.model_quality(settings={"it": early}), "voltage steps")
    assert [name for name, of in found.items() if of == "fail"] == ["voltage -10 %"]


def test_a_preset_that_rides_ercot_s_zones_passes_its_curve_below_and_has_none_above(
    run,
):
    settings = {"it": RideThrough(preset="rides_ercot")}
    found = run.model_quality(settings=settings)
    low, high = (outcomes(found, f"{of} voltage") for of in ("low", "high"))
    assert low["ercot_nogrr282, low voltage"] == "pass"
    assert low["ieso_3_0, low voltage"] == "not covered"
    assert set(high.values()) == {"not covered"}
    # It leaves, and comes back in time; of so small a load 20 MW/min is no limit
    caiso = "caiso_straw_2026_06, low voltage"
    assert low[caiso] == "pass" and figure(found, caiso, "Back in") < 3
    slow = RideThrough(
        preset="rides_ercot",
        stages=({"voltage_pu": 0.5, "time_s": 0.0},),
        recovery={"voltage_pu": 0.9, "time_s": 2.0, "ramp_s": 5.0},
    )
    found, name = (
        run.model_quality(settings={"it": slow}),
        "ercot_nogrr282, low voltage",
    )
    assert outcomes(found, "low voltage")[name] == "fail"
    # Nine tenths of P after 2 s and part of the ramp, less what stays on
    on = figure(found, name, "Connected, least") / 100
    wanted = 2 + 5 * (0.9 - on) / (1 - on)
    assert figure(found, name, "Back in") == pytest.approx(wanted, abs=0.05)


def test_load_that_leaves_as_its_settings_say_is_named_where_no_return_is_asked(run):
    found = run.model_quality(settings={"it": LEAVES})
    test = next(of for of in found.tests if of.name == "spp_hill, low voltage")
    assert test.outcome == "not covered"
    assert "as its settings say, leaves on 4 ms at 0.5 pu, must ride 150" in test.why


def test_a_return_on_a_ramp_that_the_curve_allows_passes(run):
    p_mw = run.model_quality().tests[0].recording.p_mw[0]
    for ramp_s, outcome in ((60 * p_mw / 19, "pass"), (60 * p_mw / 21, "fail")):
        back = {"voltage_pu": 0.9, "time_s": 0.0, "ramp_s": ramp_s}
        settings = dict.fromkeys(
            ("it", "motors", "rest"),
            RideThrough(stages=({"voltage_pu": 0.5, "time_s": 0.0},), recovery=back),
        )
        low = outcomes(run.model_quality(settings=settings), "low voltage")
        assert low["caiso_straw_2026_06, low voltage"] == outcome


def test_settings_that_count_dips_fail_where_that_is_prohibited(run):
    counts = {"n": 3, "window_s": 60.0, "voltage_pu": 0.9}
    stays = RideThrough(preset="rides_ercot", counter=counts)
    low = outcomes(run.model_quality(settings={"it": stays}), "low voltage")
    assert low["ercot_nogrr282, low voltage"] == "fail"
    assert low["spp_hill, low voltage"] == "pass"


def test_load_that_leaves_above_and_returns_too_late_fails_the_high_voltage(run):
    over = {"voltage_pu": 1.1, "time_s": 0.1, "side": "over"}
    for time_s, outcome in ((0.1, "pass"), (20.0, "fail")):
        back = {"voltage_pu": 0.9, "time_s": time_s, "ramp_s": 0.0}
        settings = {"it": RideThrough(stages=(over,), recovery=back)}
        found = outcomes(run.model_quality(settings=settings), "high voltage")
        assert found["ercot_nogrr282, high voltage"] == outcome
        assert found["spp_hill, high voltage"] == "not covered"


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("side", ["under", "over"])
def test_voltage_of_a_test_is_one_that_its_curve_asks_to_ride_through(name, side):
    steps = envelope(CURVES[name], side)
    n_zones = sum(zone.side == side for zone in CURVES[name].zones)
    assert len(steps) == 2 + n_zones
    if n_zones:
        time_s, pu, _ = zip(*steps, strict=True)
        voltage = Voltage(time_s, pu)
        assert (
            uncovered_text(CURVES[name], Event("", "", series=voltage), voltage) == ""
        )
        assert min(voltage.pu) < 0.9 or max(voltage.pu) > 1.1
        assert voltage.pu[0] == voltage.pu[-1] == 1


class Swings(Site):
    """A site whose power swings while the voltage is away from 1 pu."""

    notes = ()
    state = SimpleNamespace(nominal_hz=60.0, machines={}, stages=(), time_s=0.0)

    def __init__(self, rate: float) -> None:
        self.rate, self.connected = rate, 1.0

    def step(self, time, voltage_pu, frequency_hz):
        since_s = time - BEFORE_S
        wave = np.exp(-self.rate * since_s) * np.sin(9 * since_s)
        return (10.0 if voltage_pu == 1 else 10 + wave), 0.0


@pytest.mark.parametrize(("rate", "outcome"), [(3.5, "pass"), (-0.1, "fail")])
def test_swings_that_fade_pass_a_step_and_those_that_grow_fail_it(run, rate, outcome):
    found = outcomes(
        model_quality(run, Swings(rate), run.series().at(0)), "voltage steps"
    )
    assert set(found.values()) == {outcome}


def test_held_load_stays_that_of_its_moment_and_has_no_end(run):
    at = run.series().at(3)
    site = run.site(at, hold=True)
    wanted = run.facility(["facility_power_w"])["facility_power_w"].iloc[3] / 1e6
    for time in (0.5, 100.0, 5000.0):
        assert site.step(time, 1.0, 60.0)[0] == pytest.approx(wanted, rel=1e-6)
    assert run.site(state=site.state).step(6000.0, 1.0, 60.0)[0] > 0
    with pytest.raises(InputError, match="where the run does"):
        run.site(at).step(5000.0, 1.0, 60.0)


def test_a_battery_comes_to_rest_before_the_tests_and_holds_no_step_back(tmp_path):
    limit = {"up_mw_per_min": 0.02, "down_mw_per_min": 0.02}
    battery = {"kind": "battery", "power_mw": 0.05, "energy_mwh": 0.05}
    chain = [*CHAIN[:-1], battery | {"ramp_limit": limit}, CHAIN[-1]]
    site = POI | {"facility.stages": chain}
    run = tiny_run(tmp_path / "run", site, before_stores=True)
    found = run.model_quality()
    assert all(drawn(found).values())  # each passes
    assert set(outcomes(found, "flat start").values()) == {"pass"}
    assert any("come to rest" in note for note in found.notes)


def test_sections_have_every_outcome_and_a_chart_of_each_group(plain):
    (section,) = plain.sections()
    counts = {figure.item: figure.value for figure in section.figures}
    assert sum(counts.values()) == len(plain.tests) == len(section.tables[0].rows)
    assert section.charts == ("flat start", "voltage steps", "frequency steps")
    chart = model_quality_chart(plain, "frequency steps")
    assert [panel.title for panel in chart.panels] == ["Frequency", "P", "Q"]
    assert [len(panel.layers) for panel in chart.panels] == [2, 2, 2]
    assert "flat start" in plain._repr_html_()


@pytest.mark.slow
def test_command_writes_the_page_that_python_writes(run, tmp_path):
    page = tmp_path / "quality.html"
    setting = ("--set", "facility.ride_through.it.preset=four_stages")
    command = ("model-quality", run.folder, *setting)
    ended = call(*command, "--out", page)
    assert ended.code == 0 and "flat start" in ended.out and is_report(page)
    settings = {"it": RideThrough(preset="four_stages")}
    mine = run.model_quality(settings=settings)
    assert write_model_quality(mine, tmp_path / "b.html").read_text("utf-8") == (
        page.read_text("utf-8")
    )
    printed = json.loads(call(*command, "--json", "-q").out)
    cells = printed["sections"][0]["tables"][0]["figures"]
    assert [of["value"] for of in cells if of.get("quantity") == "Verdict"] == [
        test.outcome for test in mine.tests
    ]
    refused = call("model-quality", run.folder, "--set", "duration=1 day")
    assert refused.code == 2 and "only facility.ride_through can be set" in refused.err
