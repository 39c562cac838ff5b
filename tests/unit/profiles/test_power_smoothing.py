"""GPU power smoothing: what a floor burns, what ramps leave, what they cost in time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import profile, tiny_library, tiny_scenario

import diploee
from diploee.errors import ScenarioError
from diploee.profiles.smoothing import _smooth, smoothed, smoothed_course
from diploee.scenario.job_streams import PowerSmoothing

HIGH, LOW, DUTY, DT_S = 1.0, 0.35, 0.8, 0.1
AT_ONCE = 1e9


def wave(periods: int = 400) -> np.ndarray:
    """The sheet's square wave: 1 for 8 s, 0.35 for 2 s."""
    one = np.where(np.arange(100) < 100 * DUTY, HIGH, LOW)
    return np.tile(one, periods)


def course(
    own: np.ndarray, floor: float = 0.0, down: float = AT_ONCE, hold_s: float = 0.0
) -> np.ndarray:
    drawn = np.empty(4 * own.size)
    count, _ = _smooth(own, DT_S, floor, AT_ONCE, down, hold_s, 0.0, drawn)
    return drawn[:count]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("floor", "more", "swing"),
    [(0.5, 0.0345, 0.5), (0.65, 0.0690, 0.35), (0.8, 0.1034, 0.2), (0.9, 0.1264, 0.1)],
)
def test_floor_burns_its_law_and_leaves_the_swing_above_it(
    floor: float, more: float, swing: float
) -> None:
    drawn = course(wave(), floor=floor)[: wave().size]
    law = (1 - DUTY) * (floor - LOW) / (DUTY * HIGH + (1 - DUTY) * LOW)
    assert drawn.sum() / wave().sum() - 1 == pytest.approx(law, rel=1e-3)
    assert law == pytest.approx(more, abs=5e-5)
    assert np.ptp(drawn) == pytest.approx(swing)


def test_no_floor_and_ramps_without_limit_change_no_byte() -> None:
    for own in (wave(20), np.random.default_rng(1).uniform(0.1, 1, 5_000)):
        drawn = course(own)
        assert drawn[: own.size].tobytes() == own.tobytes()
        assert drawn.size <= own.size + 1, "nothing is left to ramp down"


@pytest.mark.parametrize(("hold_s", "more"), [(1.0, 0.0747), (2.0, 0.1494)])
def test_hysteresis_burns_the_time_that_it_holds(hold_s: float, more: float) -> None:
    drawn = course(wave(), hold_s=hold_s)[: wave().size]
    assert drawn.sum() / wave().sum() - 1 == pytest.approx(more, abs=1e-4)


def test_slow_fall_burns_and_leaves_a_tenth() -> None:
    drawn = course(wave(), down=0.05 * DT_S)[: wave().size]
    assert drawn.sum() / wave().sum() - 1 == pytest.approx(0.1374, abs=2e-4)
    assert np.ptp(drawn) == pytest.approx(0.1, abs=1e-9)


def test_work_that_waits_for_the_ramp_is_done_later() -> None:
    spec = PowerSmoothing(floor=0.0, up_per_s=0.1, down_per_s=1.0, hysteresis_s=0.0)
    own = np.full(6_000, 1.0)
    drawn, burnt = smoothed_course(own, DT_S, spec, idle=0.0)
    # It rises within 10 s, half of whose work waits: 5 s more, and 1 s to fall.
    assert drawn.size * DT_S == pytest.approx(600 + 5 + 1, abs=0.3)
    assert np.diff(drawn).max() <= 0.1 * DT_S + 1e-12
    # What is drawn beyond the work is burnt, all of it.
    assert drawn.sum() - own.sum() == pytest.approx(burnt, abs=1.5)


def test_profile_keeps_its_nodes_and_tells_its_cost() -> None:
    node = tiny_scenario().facility.node_types["node"]
    own_w = (np.where(np.arange(3_000) % 100 < 80, 0.9, 0.3) * 2_800 + 100) * 2
    made = smoothed(profile("a", own_w, n_nodes=2, dt_ms=100), PowerSmoothing(), node)
    assert made.profile_id == "a~smoothed"
    assert made.n_nodes == 2
    steps_w = np.diff(made.power_w.astype(np.float64))
    # A tenth of the TDP a second, of eight GPUs.
    assert np.abs(steps_w).max() <= 0.1 * DT_S * 8 * 700 * (1 + 1e-3)
    assert "of the GPUs' energy burnt" in made.provenance.notes


def test_run_with_smoothing_swings_less_and_takes_longer(tmp_path: Path) -> None:
    runs = {}
    for name, smoothing in (("plain", None), ("smooth", {"floor": 0.5})):
        changes = {"duration": "6 h", "resolution": "1 s"}
        if smoothing is not None:
            changes["streams.training.power_smoothing"] = smoothing  # type: ignore[assignment]
        runs[name] = diploee.simulate(
            tiny_scenario(changes), tmp_path / name, library=tiny_library(), engine="compiled"
        )
    plain, smooth = (run.facility()["facility_power_w"].to_numpy() for run in runs.values())
    assert np.abs(np.diff(smooth)).max() < np.abs(np.diff(plain)).max() / 2
    longest_s = {}
    for name, run in runs.items():
        jobs = run.jobs().dropna(subset=["end_time"])
        run_s = (jobs["end_time"] - jobs["start_time"]).dt.total_seconds()
        longest_s[name] = run_s.groupby(jobs["profile_id"].astype(str)).max()
    for profile_id, seconds in longest_s["plain"].items():
        assert longest_s["smooth"][f"{profile_id}~smoothed"] > seconds


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resolution": "60 s"}, "acts within seconds, which intervals of 60 s do not show"),
        ({"facility.node_types.node.n_gpus": 0}, "needs GPUs with a TDP, found 0"),
        ({"streams.training.power_smoothing": {"floor": 0.95}}, "at most 0.9, found 0.95"),
    ],
)
def test_smoothing_that_can_not_be_shown_is_refused(changes: dict[str, object], text: str) -> None:
    keys = {"resolution": "1 s", "streams.training.power_smoothing": {}}
    with pytest.raises(ScenarioError, match=text):
        tiny_scenario({**keys, **changes})
