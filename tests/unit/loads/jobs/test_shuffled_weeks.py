"""A log's weeks in random order: each as often, at its weekdays, the same in any part
of a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_data, tiny_library
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from diploee import generate_jobs
from diploee.base.errors import InputError
from diploee.base.rng import named_rng
from diploee.loads.jobs.shuffled_weeks import ShuffledWeeks
from diploee.scenario import scenario_from_dict

DAY_MS = 86_400_000


def shuffled(
    n_days: int, first_day: int = 0, first_week: int | None = None
) -> ShuffledWeeks:
    """Weeks of a log with one job each noon; the job's row is its day."""
    into_ms = (first_day + np.arange(n_days)) * DAY_MS + DAY_MS // 2
    return ShuffledWeeks(
        into_ms, np.ones(n_days), first_week, partial(named_rng, 0, "test")
    )


def test_a_deck_plays_every_week_of_the_log_once() -> None:
    weeks = shuffled(8 * 7)
    played = sorted(weeks.week(n)[0].tolist() for n in range(16, 16 + len(weeks)))
    inner = [[7 * week + day for day in range(7)] for week in range(1, 7)]
    assert [week for week in played if week in inner] == inner


def test_days_that_cut_weeks_lack_are_any_of_their_weekday() -> None:
    weeks = shuffled(8 * 7)  # whose first day and last one the log cuts
    n_decks = 500
    played = np.concatenate([weeks.week(n)[0] for n in range(n_decks * len(weeks))])
    times = np.bincount(played, minlength=8 * 7).reshape(8, 7)
    assert (times[:, 1:6] == n_decks).all() and times[0, 0] == times[-1, 6] == 0
    # Four standard deviations of a share of one in seven
    most = 4 * np.sqrt(n_decks * 6) / 7
    assert times[1:, 0] == pytest.approx(n_decks * 8 / 7, abs=most)
    assert times[:-1, 6] == pytest.approx(n_decks * 8 / 7, abs=most)


def test_an_end_within_an_hour_of_midnight_cuts_no_day() -> None:
    into_ms = np.sort(
        np.append(np.arange(21) * DAY_MS, (np.arange(21) + 1) * DAY_MS - 1)
    )
    weeks = ShuffledWeeks(
        into_ms, np.ones(into_ms.size), None, partial(named_rng, 0, "test")
    )
    played = np.concatenate([weeks.week(n)[0] for n in range(len(weeks))])
    assert sorted(played) == list(range(2 * 21))


@settings(max_examples=30, deadline=None)
@given(
    n_days=st.integers(7, 900),
    first_day=st.integers(0, 6),
    week=st.integers(-60, 3_000),
)
def test_a_week_plays_seven_days_at_their_weekdays_and_times(
    n_days: int, first_day: int, week: int
) -> None:
    rows, times_ms = shuffled(n_days, first_day, 100).week(week)
    assert ((rows + first_day) % 7 == np.arange(7)).all()
    assert (times_ms == np.arange(7) * DAY_MS + DAY_MS // 2).all()


def test_weeks_of_a_log_of_two_years_stay_near_their_season() -> None:
    weeks = shuffled(730, first_week=0)
    for number in range(2_900, 2_900 + 104):
        day = weeks.week(number)[0]
        off_days = (day - number * 7 + 182) % 365.25 - 182
        assert (abs(off_days) <= 8 * 7).all()


@pytest.mark.parametrize(("n_weeks", "seed"), [(60, 0), (104, 1), (181, 2)])
def test_any_three_years_of_a_log_of_years_have_its_node_time(
    n_weeks: int, seed: int
) -> None:
    """Weeks whose level drifts over months, by half of its mean and more."""
    rng = np.random.default_rng(seed)
    level = np.exp(signal.lfilter([1], [1, -0.85], rng.normal(0, 0.28, n_weeks)))
    node_time = np.repeat(level, 7)
    into_ms = np.arange(n_weeks * 7) * DAY_MS + DAY_MS // 2
    weeks = ShuffledWeeks(into_ms, node_time, 100, partial(named_rng, seed, "test"))
    played = [node_time[weeks.week(2_500 + k)[0]].mean() for k in range(6 * 52)]
    years = np.reshape(played, (6, 52)).mean(axis=1) / node_time[1:-1].mean()
    for first in range(4):
        assert years[first : first + 3].mean() == pytest.approx(1, abs=0.03)


def test_an_empty_run_names_the_spans_and_the_keys(tmp_path: Path) -> None:
    log, run = (
        "2024-01-01 00:30 to 2024-02-04 23:30",
        "2030-06-03 00:00 to 2030-07-15 00:00",
    )
    with pytest.raises(
        InputError, match=f"{log}, the run is of {run}.*; change start or duration"
    ):
        replayed(tmp_path, repeat=False, align="date", begin="2030-06-03")
    with pytest.raises(
        InputError, match=rf"from 2030-01-01 .* of {log}\); change replay\.start and"
    ):
        replayed(tmp_path, start="2030-01-01")
    with pytest.raises(
        InputError, match=r"is left \(840 wider than the pool\); change .*too_wide"
    ):
        replayed(tmp_path, node_factor=100, too_wide="drop")


def replayed(tmp_path: Path, **changes: object) -> list[tuple[int, int]]:
    """Submission [h] and nodes of the jobs of a run that plays a log of five weeks."""
    rows = [
        f"2024-01-{1 + k // 24:02d}T{k % 24:02d}:30:00,600,{1 + k % 4}"
        for k in range(31 * 24)
    ]
    rows += [
        f"2024-02-0{1 + k // 24}T{k % 24:02d}:30:00,600,{1 + k % 4}"
        for k in range(4 * 24)
    ]
    (tmp_path / "log.csv").write_text(
        "\n".join(["submit,run_s,nodes", *rows]), encoding="utf-8"
    )
    replay = {
        "log": str(tmp_path / "log.csv"),
        "columns": {"submit": "submit", "duration": "run_s", "nodes": "nodes"},
        "rules": [{"workload": "tune"}],
        "repeat": "shuffled",
    }
    replay |= {
        key: value for key, value in changes.items() if key not in ("begin", "duration")
    }
    given_site = {
        "start": changes.get("begin", "2025-06-02"),
        "duration": changes.get("duration", "6 weeks"),
        "facility.pools.main.n_nodes": 8,
    }
    data = tiny_data(given_site) | {
        "streams": {"jobs": {"pool": "main", "replay": replay}}
    }
    jobs = generate_jobs(scenario_from_dict(data), tiny_library()).jobs
    return list(
        zip((jobs.submit_ms // 3_600_000).tolist(), jobs.n_nodes.tolist(), strict=True)
    )


def test_a_part_of_a_run_is_that_part_of_a_longer_one(tmp_path: Path) -> None:
    whole = replayed(tmp_path)
    part = replayed(tmp_path, begin="2025-06-18", duration="1 week")
    shift_h = 16 * 24
    assert part == [(h - shift_h, n) for h, n in whole if shift_h <= h < shift_h + 168]
    assert len(whole) == 6 * 168


def test_a_trimmed_replay_plays_the_days_from_start_to_end(tmp_path: Path) -> None:
    trim = {"start": "2024-01-08", "end": "2024-01-15"}
    jobs = replayed(tmp_path, repeat=False, align="date", begin="2024-01-01", **trim)
    assert [jobs[0][0], jobs[-1][0]] == [7 * 24, 14 * 24 - 1]


def test_shuffled_weeks_need_weekdays(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="repeat: shuffled needs align: weekday, found start"
    ):
        replayed(tmp_path, align="start")
