"""Whole runs that answer events and signals, against closed laws and against their
twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import profile, tiny_data, tiny_library

import diploee
from diploee import Run
from diploee.base.column_specs import Column
from diploee.facility import Block
from diploee.facility.base import POWER
from diploee.profiles import ProfileLibrary
from diploee.scenario import scenario_from_dict

MIN_PER_H, H_MS = 60, 3_600_000
IDLE_W = 10.0
EVENT = {
    "id": "event",
    "issued": "2018-01-01 09:00",
    "start": "2018-01-01 12:00",
    "end": "2018-01-01 15:00",
    "ramp_down": "0 s",
    "ramp_up": "0 s",
}
HELD = slice(12 * MIN_PER_H, 15 * MIN_PER_H)
"""The rows of the event."""
TUNING = {"tier": 3, "work": "fine_tuning"}

Runs = Callable[..., Run]
STREAM = "streams.training"
LIBRARY = tiny_library()


@pytest.fixture
def run_of(tmp_path: Path) -> Runs:
    """Run a scenario that reads files from a folder of its own."""

    def of(
        name: str, data: dict[str, Any], library: ProfileLibrary, **options: Any
    ) -> Run:
        scenario = scenario_from_dict(data).with_folder(tmp_path)
        return diploee.run(scenario, tmp_path / name, profiles=library, **options)

    return of


def endless(
    folder: Path, n_jobs: int, hours: int = 30, **flexibility: Any
) -> dict[str, Any]:
    """Return jobs of two nodes without CPUs, from the start on, at 1,000 W a node."""
    rows = [
        f"{k},2018-01-01T00:00:00Z,2018-01-01T00:00:00Z,{hours * 3600},2"
        for k in range(n_jobs)
    ]
    head = "job_id,submit_time,start_time,duration_s,n_nodes"
    (folder / "log.csv").write_text("\n".join([head, *rows]) + "\n")
    log = {"log": "log.csv", "format": "csv", "columns": {"duration": "duration_s"}}
    once = {"align": "date", "repeat": False, "rules": [{"workload": "flat"}]}
    stream = {"pool": "main", "replay": log | once}
    node = {"n_cpus": 0, "gpu_tdp_w": 400, "idle_power_w": IDLE_W}
    changes = {f"facility.node_types.node.{key}": value for key, value in node.items()}
    changes["facility.pools.main.n_nodes"] = 2 * n_jobs
    tuning = stream | {"flexibility": flexibility or TUNING}
    return tiny_data(changes | {"streams": {"tuning": tuning}})


def held_to(data: dict[str, Any], **target: float) -> dict[str, Any]:
    """Return a scenario whose controller answers the event with a target."""
    return data | {"flexibility": {"events": [EVENT | {"target": target}]}}


def flat_library() -> ProfileLibrary:
    return ProfileLibrary([profile("flat-2n-1", [2000.0] * 600, n_nodes=2)])


def series(run: Run, name: str = "facility_power_w") -> np.ndarray:
    return np.asarray(run.facility()[name], dtype=np.float64)


def ends_h(run: Run) -> np.ndarray:
    times = run.jobs()["end_time"]
    return np.asarray((times - times.dt.floor("D").min()).dt.total_seconds()) / 3600


def test_endless_jobs_capped_at_half_draw_less_and_are_as_late_as_the_table_says(
    tmp_path: Path, run_of: Runs
) -> None:
    data = endless(tmp_path, 4)
    plain = run_of("plain", data, flat_library())
    run = run_of("capped", held_to(data, fraction=0.1), flat_library())
    np.testing.assert_array_equal(series(run, "baseline_power_w"), series(plain))
    assert series(plain)[HELD].mean() == 8000
    # A cap of 200 W on 400 W: the A100 table's 56.8 % of the power at 79.6 % of the
    # work.
    assert series(run)[HELD] == pytest.approx(8000 * (1 - 0.432), rel=1e-4)
    late_min = (ends_h(run) - ends_h(plain)) * 60
    assert late_min == pytest.approx([180 * 0.204] * 4, abs=0.01)
    event = run.metrics["flexibility"]["events"][0]
    assert event["weighted_performance"] == pytest.approx(0.796, abs=1e-4)
    assert event["mean_reduction"] == pytest.approx(0.432, abs=1e-4)


def test_a_paused_job_falls_to_idle_and_loses_its_stop_and_its_restart(
    tmp_path: Path, run_of: Runs
) -> None:
    data = endless(tmp_path, 1, **TUNING, pausable=True, restart="10 min", stop="2 min")
    plain = run_of("plain", data, flat_library())
    run = run_of("paused", held_to(data, fraction=0.1), flat_library())
    power_w = series(run)
    assert power_w[12 * MIN_PER_H + 2 : 15 * MIN_PER_H] == pytest.approx(2 * IDLE_W)
    assert power_w[12 * MIN_PER_H : 12 * MIN_PER_H + 2] == pytest.approx(0.2 * 2000)
    restarting = slice(15 * MIN_PER_H, 15 * MIN_PER_H + 10)
    assert power_w[restarting] == pytest.approx(0.2 * 2000)
    assert (ends_h(run) - ends_h(plain)) * 60 == pytest.approx([180 + 10])
    jobs = run.metrics["flexibility"]["jobs"]
    assert jobs["restart_node_h"] == pytest.approx(2 * 12 / 60)
    assert jobs["lost_node_h"] == 0


def test_a_job_without_notice_loses_the_work_since_its_last_checkpoint(
    tmp_path: Path, run_of: Runs
) -> None:
    data = endless(tmp_path, 1, **TUNING, pausable=True, checkpoint_interval="35 min")
    event = {**EVENT, "issued": EVENT["start"], "target": {"fraction": 0.1}}
    data["flexibility"] = {"events": [event]}
    run = run_of("killed", data, flat_library())
    # Twelve hours hold 20 checkpoints of 35 min and 20 min more.
    jobs = run.metrics["flexibility"]["jobs"]
    assert jobs["lost_node_h"] == pytest.approx(2 * 20 / 60)


def test_jobs_go_on_with_fewer_nodes_where_that_is_all_they_tolerate(
    tmp_path: Path, run_of: Runs
) -> None:
    data = endless(tmp_path, 2)
    job = {"workload": "flat", "n_nodes": 2, "probability": 1}
    job |= {"duration": {"quantiles_s": {0: 72000, 1: 72001}}}
    job |= {"flexibility": {**TUNING, "min_nodes": 1}}
    data["streams"]["tuning"] = {"pool": "main", "jobs_per_day": 12, "classes": [job]}
    data["warm_up"] = "2 d"
    run = run_of("resized", held_to(data, fraction=0.3), flat_library())
    twin_w, own_w = series(run, "baseline_power_w"), series(run)
    held = slice(HELD.start + 15, HELD.stop)
    assert twin_w[held].max() > 2000
    assert own_w[held].mean() < 0.45 * twin_w[held].mean()
    assert run.metrics["flexibility"]["jobs"]["restart_node_h"] > 0


FLEXIBLE = {"streams.training.flexibility": {"tier": 2, "pausable": True}}
QUARTER = {**EVENT, "target": {"fraction": 0.75}, "ramp_down": "15 min"}


def tables(run: Run) -> list[bytes]:
    """Return what a run drew and what became of its jobs, but for the twin's power."""
    facility = run.facility()
    kept = [name for name in facility.columns if name != "baseline_power_w"]
    frames = (facility[kept], run.jobs())
    return [frame.to_csv().encode() for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize(
    "flexibility",
    [
        {"events": [QUARTER], "controller": "off"},
        {},
        {"events": [{**EVENT, "target": {"mw": 1.0}}]},
    ],
    ids=["off", "no event", "nothing asked for"],
)
def test_a_controller_that_has_nothing_to_answer_changes_no_byte(
    run_of: Runs, flexibility: dict[str, Any]
) -> None:
    plain = run_of("plain", tiny_data(FLEXIBLE), LIBRARY)
    run = run_of("run", tiny_data({**FLEXIBLE, "flexibility": flexibility}), LIBRARY)
    assert tables(run) == tables(plain)
    if flexibility:
        np.testing.assert_array_equal(series(run, "baseline_power_w"), series(plain))


def test_events_are_measured_against_the_run_itself_where_the_controller_is_off(
    run_of: Runs,
) -> None:
    off = {"events": [QUARTER], "controller": "off"}
    run = run_of("off", tiny_data({**FLEXIBLE, "flexibility": off}), LIBRARY)
    found = run.metrics["flexibility"]
    (event,) = found["events"]
    frame = run.facility()
    assert frame["baseline_power_w"].equals(frame["facility_power_w"])
    power_mw = series(run)[12 * MIN_PER_H : 15 * MIN_PER_H].mean() / 1e6
    assert event["mean_mw"] == event["twin_mw"] == pytest.approx(power_mw, rel=1e-6)
    unchanged = ("mean_reduction", "not_drawn_mwh", "rebound_mw", "rebound_mwh")
    assert [event[key] for key in unchanged] == [0] * len(unchanged)
    # The target is what the event asks for, so that what is not reached is seen.
    assert event["target_mw"] == pytest.approx(0.75 * event["before_mw"])
    assert event["held_fraction"] < 1 and event["overshoot_mw"] > 0
    jobs = found["jobs"]
    assert jobs["mean_wait_change_h"] in (0, None)
    assert jobs["deadline_misses"] == jobs["twin_deadline_misses"]
    assert found["energy_mwh"] == 0


class Panel:
    """A source at the meter from an hour of the run on."""

    columns = (Column("sun_w", "W", "facility", "mean", None, "sun", role="source"),)
    boundary = None

    def __init__(self, given_w: float, from_h: int) -> None:
        self.given_w, self.from_h = given_w, from_h

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> tuple[dict[str, np.ndarray], None]:
        given_w = self.given_w * (block.starts_ms >= self.from_h * H_MS)
        return {"sun_w": given_w, POWER: block.columns[POWER] - given_w}, state


@pytest.mark.parametrize(
    ("given_w", "from_h", "devices_w"),
    [
        (0, 0, 6850),
        (6000, 0, 6850),
        (8000, 0, 7852),
        (12000, 0, 8000),
        (6000, 12, 8000),
    ],
)
def test_a_source_takes_its_power_from_what_devices_must_give_up(
    tmp_path: Path, run_of: Runs, given_w: float, from_h: int, devices_w: float
) -> None:
    # 8,000 W of devices, 1,000 W less asked for at the meter: never below nothing
    # there, and nothing of the devices where the source has given it since.
    data = held_to(endless(tmp_path, 4), delta_mw=0.001)
    run = run_of("run", data, flat_library(), stages=[Panel(given_w, from_h)])
    assert series(run, "it_power_w")[HELD].mean() == pytest.approx(devices_w, rel=1e-3)
    assert run.metrics["flexibility"]["events"][0]["held_fraction"] == 1


def test_a_share_is_of_the_meter_where_a_source_gives_a_part(
    tmp_path: Path, run_of: Runs
) -> None:
    # 8,000 W of devices less 6,000 W: 80 % of 2,000 W at the meter leaves 7,600 W to
    # the devices.
    data = held_to(endless(tmp_path, 4), fraction=0.8)
    run = run_of("run", data, flat_library(), stages=[Panel(6_000, 0)])
    event = run.metrics["flexibility"]["events"][0]
    assert event["target_mw"] == pytest.approx(0.0016, rel=1e-3)
    # Less by the margin at most that the controller keeps below a target.
    assert 7_400 < series(run, "it_power_w")[HELD].mean() <= 7_601
    assert event["held_fraction"] == 1


def test_a_share_of_exported_power_is_nothing(tmp_path: Path, run_of: Runs) -> None:
    data = held_to(endless(tmp_path, 4), fraction=0.8)
    run = run_of("run", data, flat_library(), stages=[Panel(12_000, 0)])
    event = run.metrics["flexibility"]["events"][0]
    assert event["before_mw"] < 0 == event["target_mw"]


@pytest.mark.parametrize("scheduler", ["sjf", "easy", "conservative", "priority"])
def test_every_scheduler_goes_on_under_a_controller(
    run_of: Runs, scheduler: str
) -> None:
    deep = {**QUARTER, "target": {"fraction": 0.5}}
    busy = {f"{STREAM}.target_utilization": 0.9, "flexibility.events": [deep]}
    changes = FLEXIBLE | busy | {"facility.pools.main.scheduler": scheduler}
    run = run_of("run", tiny_data(changes), LIBRARY)
    assert series(run)[HELD].mean() < 0.8 * series(run, "baseline_power_w")[HELD].mean()


def test_the_ramp_back_leads_to_what_is_drawn_without_caps_and_not_to_the_power_before(
    tmp_path: Path, run_of: Runs
) -> None:
    # Three of eight jobs begin five minutes before the event: 11,200 W were drawn on
    # average.
    data = endless(tmp_path, 8)
    log = (tmp_path / "log.csv").read_text().splitlines()
    late = [line.replace("T00:00", "T11:55") for line in log[6:]]
    (tmp_path / "log.csv").write_text("\n".join([*log[:6], *late]) + "\n")
    event = EVENT | {"issued": "2018-01-01 11:59", "ramp_up": "30 min"}
    data["flexibility"] = {"events": [event | {"target": {"fraction": 0.85}}]}
    run = run_of("run", data, flat_library())
    (told,) = run.metrics["flexibility"]["events"]
    assert told["before_mw"] == pytest.approx(0.0112, abs=1e-4)
    power_w = series(run)[15 * MIN_PER_H - 1 : 15 * MIN_PER_H + 31]
    assert (power_w[0] < 9520) and power_w[-1] == 16_000
    assert np.diff(power_w).max() < 0.1 * (power_w[-1] - power_w[0])  # levels are steps


def test_room_for_what_starts_is_made_at_the_same_instant(run_of: Runs) -> None:
    deep = {**QUARTER, "target": {"fraction": 0.5}, "ramp_up": "15 min"}
    busy = {f"{STREAM}.target_utilization": 0.9, "flexibility.events": [deep]}
    run = run_of("run", tiny_data({**FLEXIBLE, **busy}), LIBRARY)
    jobs = run.metrics["flexibility"]["events"][0]["widest_jobs"]
    lengths_s = np.concatenate([np.subtract(j["to_s"], j["from_s"]) for j in jobs])
    assert lengths_s.size > len(jobs)
    # None runs at full power for a ms until it is capped
    assert lengths_s.min() > 0.0015


def test_nothing_reacts_before_an_event_is_issued(run_of: Runs) -> None:
    plain = series(run_of("plain", tiny_data(FLEXIBLE), LIBRARY))
    data = tiny_data({**FLEXIBLE, "flexibility": {"events": [QUARTER]}})
    run = series(run_of("run", data, LIBRARY))
    n_before = 9 * MIN_PER_H  # issued at nine
    np.testing.assert_array_equal(run[:n_before], plain[:n_before])
    assert (run != plain).any()


def prices(folder: Path, values: list[float]) -> None:
    rows = [
        f"2018-01-{1 + k // 24:02}T{k % 24:02}:00Z,{v}" for k, v in enumerate(values)
    ]
    (folder / "price.csv").write_text("\n".join(["time,price", *rows]) + "\n")


def following(**keys: Any) -> dict[str, Any]:
    follow = {"signal": "price", "quantile": 0.75, "target": {"fraction": 0.6}}
    signals = {"price": {"file": "price.csv", **keys}}
    flexibility = {"signals": signals, "follow": follow}
    return tiny_data({**FLEXIBLE, "flexibility": flexibility})


@pytest.mark.slow
def test_a_later_change_of_a_signal_leaves_all_before_it_as_it_was(
    tmp_path: Path, run_of: Runs
) -> None:
    values = [20.0 + 10 * ((k // 4) % 3) for k in range(48)]
    prices(tmp_path, values)
    first = run_of("first", following(), LIBRARY)
    prices(tmp_path, [*values[:30], *(90.0 - v for v in values[30:])])
    second = run_of("second", following(), LIBRARY)
    same = slice(0, 30 * MIN_PER_H)
    np.testing.assert_array_equal(series(first)[same], series(second)[same])
    assert (series(first) != series(second)).any()
    assert (series(first) != series(first, "baseline_power_w"))[same].any()


def test_power_is_lower_while_a_price_is_high_and_the_money_is_reported(
    tmp_path: Path, run_of: Runs
) -> None:
    high = np.isin(np.arange(48) % 24, np.arange(12, 17))
    values = np.where(high, 100.0, 10.0)
    prices(tmp_path, values.tolist())
    run = run_of("run", following(known_ahead="24 h"), LIBRARY)
    own_w, twin_w = series(run), series(run, "baseline_power_w")
    # Two steps of the signal pass before it is answered.
    answered = np.repeat(np.append(False, high[:-1]) & high, MIN_PER_H)
    assert own_w[answered].mean() < 0.9 * twin_w[answered].mean()
    flexibility = run.metrics["flexibility"]
    price = np.repeat(values, MIN_PER_H)
    money = float(price @ (own_w - twin_w)) / 60 / 1e6
    assert flexibility["money"] == pytest.approx(money, rel=1e-3) and money < 0


def test_targets_in_mw_are_of_the_meter_behind_all_stages(
    tmp_path: Path, run_of: Runs
) -> None:
    data = endless(tmp_path, 8)
    data["facility"]["stages"] = [{"kind": "constant_loss", "loss_fraction": 0.2}]
    run = run_of("behind", held_to(data, mw=0.0142), flat_library())
    assert series(run, "baseline_power_w")[HELD].min() > 17_000
    assert 0.95 * 14_200 < series(run)[HELD].min() <= series(run)[HELD].max() < 14_200


def test_a_cap_from_a_file_is_kept(tmp_path: Path, run_of: Runs) -> None:
    rows = ("01T00:00Z,1", "01T10:00Z,0.011", "02T00:00Z,1")
    lines = ["time,cap", *(f"2018-01-{row}" for row in rows)]
    (tmp_path / "cap.csv").write_text("\n".join(lines) + "\n")
    data = tiny_data({**FLEXIBLE, "flexibility.signals.cap": {"file": "cap.csv"}})
    run = run_of("capped", data, LIBRARY)
    limited = slice(10 * MIN_PER_H + 5, 24 * MIN_PER_H)
    assert series(run, "baseline_power_w")[limited].max() > 11_500
    assert np.quantile(series(run)[limited], 0.9) < 11_500
