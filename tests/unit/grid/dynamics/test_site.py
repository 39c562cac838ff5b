"""The site in a simulator's steps: the run's own column, and what voltage and frequency
change."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from builders import TYPICAL_DENVER, tiny_run, write_library, write_scenario
from command_line import call
from scipy.integrate import solve_ivp

from diploee import Run
from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.base.errors import InputError
from diploee.grid.dynamics import Event, Site, Voltage, ride_through
from diploee.grid.dynamics.motor import H_S, LOADING, RA, Motor
from diploee.runs.load_parts import LoadParts
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.scenario.ride_through import RideThrough

RAMPS = {"up_mw_per_min": 0.02, "down_mw_per_min": 0.02}
BATTERY = {"kind": "battery", "power_mw": 0.05, "energy_mwh": 0.05, "ramp_limit": RAMPS}
CHAIN = [
    "pdu",
    "ups",
    "dlc_tower",
    "auxiliary_load",
    "transformers",
    "point_of_interconnection",
]
POI = {
    "facility.node_types.node.ac_power": "dlc",
    "facility.stages": CHAIN,
    **TYPICAL_DENVER,
    "duration": "10 min",
    "resolution": "1 s",
}
PERC1 = RideThrough(preset="perc1")
HZ = 60.0


def chain(at: int, *stages: dict[str, Any]) -> dict[str, Any]:
    return POI | {"facility.stages": [*CHAIN[:at], *stages, *CHAIN[at:]]}


def powers(site: Site, times, pu=1.0, hz=HZ) -> np.ndarray:
    return np.array([site.step(float(t), pu, hz) for t in times])


def column(run: Run, name: str = "facility_power_w") -> np.ndarray:
    return run.series().read([name]).columns[name] / 1e6


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "poi", POI)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs") / "battery"
    return tiny_run(place, chain(4, BATTERY), before_stores=True)


def shipped(name: str, *stages: dict[str, Any]) -> Scenario:
    """Return five minutes of a shipped site by the second, some stages before its
    transformers."""
    found = load_scenario(name, ["duration=5 min", "resolution=1 s"])
    if not stages:
        return found
    data = found.model_dump(mode="json", exclude_none=True)
    chain = data["facility"]["stages"]
    at = next(
        k for k, of in enumerate(found.facility.stages) if of.kind == "transformers"
    )
    chain[at:at] = stages
    return scenario_from_dict(data)


BIG = BATTERY | {"power_mw": 2, "energy_mwh": 1, "ramp_limit": dict.fromkeys(RAMPS, 1)}
SHAVES = {
    "kind": "battery",
    "power_mw": 10,
    "energy_mwh": 5,
    "peak_shaving": {"target_mw": 40},
}
LIMIT = {"kind": "ramp_limit", "curtails": True, **dict.fromkeys(RAMPS, 1)}


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("colocation_10mw", ()),
        ("colocation_10mw_poi", ()),
        ("inference_1mw_poi", ()),
        ("colocation_10mw_poi", (BIG,)),
        ("colocation_10mw_poi_air", (LIMIT,)),
        pytest.param(
            "campus_100mw_synchronous", (SHAVES, LIMIT), marks=pytest.mark.slow
        ),
    ],
)
def test_a_shipped_site_at_nominal_voltage_draws_the_run_s_own_power(
    name, stages, tmp_path
):
    scenario = shipped(name, *stages)
    run = simulate(
        scenario, tmp_path / "run", engine="compiled", before_stores=bool(stages)
    )
    found = powers(run.site(), np.arange(1, 301))
    names = ["facility_power_w", "facility_reactive_var"][
        : 1 + scenario.facility.has_ac_power
    ]
    for mine, name in zip(found.T, names, strict=False):
        wanted = column(run, name)[:300]
        assert np.abs(mine - wanted).max() <= 1e-9 * np.abs(wanted).max()
    assert np.ptp(found[:, 0]) > 0
    if len(names) == 1:
        assert (found[:, 1] == 0).all()


def test_a_site_without_a_store_draws_it_in_steps_of_any_length(run):
    times = np.sort(np.random.default_rng(0).uniform(0, 600, 300))
    found = powers(run.site(), times)[:, 0]
    assert found == pytest.approx(
        column(run)[np.ceil(times).astype(int) - 1], rel=1e-12
    )


def test_a_site_opened_within_a_run_has_its_battery_as_the_run_had_it_then(stored):
    at = stored.series().at(200)
    found = powers(stored.site(at), np.arange(1, 301))[:, 0]
    assert found == pytest.approx(column(stored)[200:500], rel=1e-9)
    charge = column(stored, "battery_state_of_charge")
    assert np.ptp(charge[200:500]) > 0


@pytest.mark.parametrize("of", ["run", "stored"])
def test_going_on_from_a_saved_state_equals_never_having_stopped(of, request):
    run, times = request.getfixturevalue(of), np.arange(0.02, 6, 0.02)
    volts = np.where((times % 2 > 0.5) & (times % 2 < 0.62), 0.4, 1.02)

    def answers(site: Site, rows: slice) -> list[tuple[float, float]]:
        pairs = zip(times[rows], volts[rows], strict=True)
        return [site.step(float(t), float(v), HZ + 0.1 * (v < 1)) for t, v in pairs]

    options = {"settings": {"it": PERC1}, "drives": 0.5}
    whole = answers(run.site(**options), slice(None))
    site = run.site(**options)
    first = answers(site, slice(0, 28))  # within a dip, its timer running
    kept = pickle.dumps(site.state)
    answers(site, slice(28, 60))
    again = run.site(state=pickle.loads(kept))
    assert first + answers(again, slice(28, None)) == whole
    assert len({round(p, 6) for p, _ in whole}) > 20


def test_what_ride_through_moves_is_what_its_answer_to_the_same_event_moves(run):
    settings = {
        "it": PERC1,
        "motors": RideThrough(
            preset="perc1",
            recovery={"voltage_pu": 0.7, "time_s": 0.2, "ramp_mw_per_min": 0.5},
        ),
    }
    dips = Voltage((0.0, 1.0, 1.1, 3.0, 3.07), (1.0, 0.3, 1.0, 0.4, 1.0))
    at = run.series().at(60)
    answer = ride_through(run, Event("dips", "", series=dips), at, settings)
    frame = answer.table().to_pandas().groupby("block")
    site, step = run.site(at, settings=settings, drives=1.0), 2e-3
    for k in range(1, 2401):
        time = k * step
        pu = dips.pu[int(np.searchsorted(dips.time_s, time - step / 2)) - 1]
        mw, _ = site.step(time, pu, HZ)
        if pu < 1 or k % 7:
            continue
        wanted = sum(
            np.interp(time - 1e-9, of.t_s + np.arange(len(of)) * 1e-12, of.power_mw)
            for _, of in frame
        )
        assert mw == pytest.approx(wanted, rel=1e-3), time


def test_each_part_answers_the_voltage_by_what_it_is(run):
    of = LoadParts.from_run(run)
    w = of.powers(run.series().read(of.load, (0, 1)).columns)
    it, motors, rest = (float(w[name][0]) / 1e6 for name in ("it", "motors", "rest"))
    assert min(it, motors, rest) > 0

    def drawn(pu: float) -> float:
        return run.site(drives=1.0).step(0.01, pu, HZ)[0]

    assert drawn(0.9) == pytest.approx(it + motors + 0.81 * rest, rel=1e-6)
    assert drawn(0.4) == pytest.approx(0.5 * (it + motors) + 0.16 * rest, rel=1e-6)
    assert drawn(0.0) == pytest.approx(0, abs=1e-8)
    on_line = run.site(drives=0.0).step(1e-6, 0.9, HZ)[0]  # before their slip has moved
    assert on_line == pytest.approx(it + 0.81 * (motors + rest), rel=1e-4)
    slow = run.site(drives=0.0).step(0.9, 1.0, 59.0)[0]
    assert slow == pytest.approx(it + motors * 59 / 60 + rest, rel=1e-3)


class TestMotor:
    def test_at_rest_it_draws_its_loading_and_stays(self):
        motor = Motor(60.0)
        assert motor.nominal.real == pytest.approx(LOADING)
        assert motor.nominal.imag > 0
        assert motor.advance_speed(motor.nominal_pu, 60.0, 1.0, 1.0) == motor.nominal_pu

    def test_a_dip_slows_it_as_an_integrator_says(self):
        motor = Motor(50.0)

        def torque(speed, pu):  # power less what heats the stator
            drawn = motor.power(speed, pu, 1.0)
            return drawn.real - RA * abs(drawn / pu) ** 2

        def turns(_t, speed, pu):
            return [(torque(speed[0], pu) - torque(motor.nominal_pu, 1.0)) / (2 * H_S)]

        speed = motor.nominal_pu
        for length, pu in ((0.1, 0.4), (0.3, 1.0)):
            wanted = solve_ivp(
                turns, (0, length), [speed], args=(pu,), rtol=1e-10, atol=1e-12
            )
            speed = motor.advance_speed(speed, length, pu, 1.0)
            assert speed == pytest.approx(wanted.y[0, -1], abs=2e-3)
        assert speed == pytest.approx(motor.nominal_pu, abs=1e-6)

    def test_a_long_deep_dip_stalls_it_and_it_starts_again(self):
        motor = Motor(60.0)
        stalled = motor.advance_speed(motor.nominal_pu, 2.0, 0.2, 1.0)
        assert stalled == 0
        assert motor.power(0.0, 1.0, 1.0).real > LOADING
        assert motor.advance_speed(stalled, 5.0, 1.0, 1.0) == pytest.approx(
            motor.nominal_pu, abs=1e-6
        )


def test_a_battery_holds_its_ramp_when_the_load_leaves(stored):
    leaves = {"it": RideThrough(stages=({"voltage_pu": 0.9, "time_s": 0.01},))}
    times = np.arange(0.05, 20, 0.05)
    found = []
    for settings in ({}, leaves):
        site = stored.site(settings=settings)
        volts = np.where((times > 2) & (times < 2.2), 0.5, 1.0)
        steps = zip(times.tolist(), volts.tolist(), strict=True)
        found.append(np.array([site.step(t, pu, HZ)[0] for t, pu in steps]))
    stays, left = found
    behind = 1.05 / (1 - 0.02)  # transformers behind it add to the ramp
    falls = np.diff(left[times > 2.3]) / 0.05 * 60
    assert falls.min() >= -RAMPS["down_mw_per_min"] * behind
    assert left[-1] < stays[-1] - 0.005


def test_cooling_behind_the_battery_leaves_with_its_block(tmp_path):
    run = tiny_run(tmp_path / "run", chain(2, BATTERY), before_stores=True)
    assert powers(run.site(), range(1, 101))[:, 0] == pytest.approx(
        column(run)[:100], rel=1e-9
    )
    gone = {"motors": RideThrough(stages=({"voltage_pu": 0.9, "time_s": 0.01},))}
    site = run.site(settings=gone)
    site.step(1.0, 1.0, HZ)
    site.step(1.5, 0.7, HZ)
    mw, _ = site.step(10.0, 1.0, HZ)
    less = column(run)[9] - mw
    # And transformers' losses
    assert less == pytest.approx(column(run, "cooling_w")[9], rel=0.03)


def test_a_run_that_lacks_the_load_before_its_battery_names_the_flag(tmp_path):
    bare = tiny_run(tmp_path / "bare", chain(4, BATTERY))
    with pytest.raises(InputError, match=r"run it again with before_stores$"):
        bare.site()
    coarse = chain(4, BATTERY) | {"resolution": "60 s", "duration": "1 h"}
    with pytest.raises(
        InputError, match=r"steps of 6 s; .* before_stores values resolution='6 s'"
    ):
        tiny_run(tmp_path / "coarse", coarse, before_stores=True).site()


def test_the_command_keeps_what_a_site_starts_from(tmp_path):
    data = chain(4, BATTERY) | {"duration": "1 min"}
    place = write_scenario(tmp_path / "site.yaml", data)
    command = ("run", place, "--before-stores", "-q", "--out", tmp_path / "run")
    call(*command, "--profiles", write_library(tmp_path / "library"))
    run = Run(tmp_path / "run")
    frame = run.facility()
    assert frame["before_stores_w"].dtype == np.float64
    assert powers(run.site(), [1.0])[0, 0] == pytest.approx(column(run)[0], rel=1e-9)


class Holds:
    """A stage from Python that holds back a tenth."""

    columns = (Column("held_w", "W", "facility", "mean", None, "held back", "hold"),)
    boundary = None

    def start(self) -> None:
        return None

    def apply(self, block, state):
        power_w = block.columns["facility_power_w"]
        return {"held_w": 0.1 * power_w, "facility_power_w": 0.9 * power_w}, state


def test_a_site_behind_a_battery_names_what_opens_it_with_its_weather(stored):
    with pytest.raises(
        InputError, match=r"needs its weather; diploee\.Run\.site opens it"
    ):
        Site.open(stored)


def test_a_stage_that_the_scenario_does_not_name_can_not_be_opened_again(
    tmp_path,
):
    short = POI | {"facility.stages": CHAIN[:2]}
    run = tiny_run(tmp_path / "run", short, stages=[Holds()], before_stores=True)
    with pytest.raises(InputError, match="stages of your own"):
        run.site()


def test_an_event_window_is_opened_where_no_battery_has_a_past(tmp_path):
    plain = tiny_run(
        tmp_path / "plain", POI | {"resolution": "60 s"}, event_windows=True
    )
    name = next(iter(plain.event_windows))
    found = powers(plain.site(event_window=name), np.arange(1, 101) / 10)[:, 0]
    wanted = (
        plain.event_window(name)["facility_power_w"].to_numpy(np.float64)[:100] / 1e6
    )
    assert found == pytest.approx(wanted, rel=1e-9)
    kept = tiny_run(
        tmp_path / "kept", chain(4, BATTERY), event_windows=True, before_stores=True
    )
    with pytest.raises(InputError, match="event window isn't kept"):
        kept.site(event_window=name)


def test_time_that_goes_back_or_beyond_the_run_is_refused(run):
    site = run.site()
    before = site.step(5.0, 1.0, HZ)
    assert site.step(5.0, 1.0, HZ) == pytest.approx(site.step(5.5, 1.0, HZ))
    assert before[0] == pytest.approx(column(run)[4])
    for time, pu, hz, match in (
        (4.0, 1.0, HZ, "from 5.5 s"),
        (700.0, 1.0, HZ, "to 600 s"),
        (float("nan"), 1.0, HZ, "time: must be"),
        (6.0, -0.1, HZ, "voltage_pu must be"),
        (6.0, 1.0, 0.0, "frequency_hz above 0"),
    ):
        with pytest.raises(InputError, match=match):
            site.step(time, pu, hz)
    assert any("constant" not in note for note in site.notes)


def test_a_share_of_drives_and_a_frequency_that_can_not_be_are_refused(run):
    for options in ({"drives": 80}, {"drives": -0.1}, {"nominal_hz": 0.0}):
        with pytest.raises(InputError, match="from 0 to 1 and above 0"):
            run.site(**options)


def test_a_step_over_many_rows_ends_where_small_ones_do(stored):
    small, large = stored.site(), stored.site()
    assert powers(small, np.arange(1, 121))[-1] == pytest.approx(
        large.step(120.0, 1.0, HZ)
    )
