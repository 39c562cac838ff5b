"""Options of drawn streams: start-up, copies, drawn run times, arrays, days that
differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_scenario, wavy_profile
from scipy import stats

from diploee import generate_jobs
from diploee.base.errors import InputError
from diploee.profiles.derived import stretch_profile
from diploee.profiles.flat import FLAT_ID
from diploee.scenario import JobArrays
from diploee.schedule.job_table import JobTable

STARTUP = {"lognormal": [{"weight": 1.0, "median_s": 120, "sigma": 0.5}]}


def test_startups_lengthen_jobs_and_leave_every_other_draw_alone() -> None:
    count = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 200,
    }
    plain = generate_jobs(tiny_scenario(count), tiny_library())
    late = generate_jobs(
        tiny_scenario({**count, "streams.training.startup": STARTUP}), tiny_library()
    )
    assert FLAT_ID in late.library.ids
    assert FLAT_ID not in plain.library.ids
    for name in ("submit_ms", "n_nodes", "profile_id", "class_id"):
        assert getattr(plain.jobs, name).tolist() == getattr(late.jobs, name).tolist()
    startup_ms = late.jobs.startup_ms
    assert (
        late.jobs.duration_ms - startup_ms
    ).tolist() == plain.jobs.duration_ms.tolist()
    log_s = np.log(startup_ms / 1_000)
    # mean of n normal logarithms, five standard errors
    assert log_s.mean() == pytest.approx(np.log(120), abs=5 * 0.5 / np.sqrt(log_s.size))


def test_copies_of_profiles_are_drawn_evenly_and_keep_the_mean_power() -> None:
    scenario = tiny_scenario(
        {
            "streams.training.profile_variants": {"n_variants": 3, "spread": 0.1},
            "duration": "28 d",
        }
    )
    workload = generate_jobs(scenario, tiny_library())
    library = workload.library
    copies = [i for i, name in enumerate(library.ids) if name.startswith("tune-4n-1")]
    assert [library.ids[i] for i in copies] == [
        "tune-4n-1",
        "tune-4n-1~0.9",
        "tune-4n-1~1.1",
    ]
    jobs = np.isin(workload.jobs.profile_id, copies)
    counts = np.array([(workload.jobs.profile_id == i).sum() for i in copies])
    expected = jobs.sum() / 3
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    for i in copies:
        assert library[i].mean_power_w == pytest.approx(
            library[copies[0]].mean_power_w, rel=1e-6
        )
    assert (
        workload.jobs.duration_ms.tolist()
        == np.array([e.duration_ms for e in library.entries])[
            workload.jobs.profile_id
        ].tolist()
    )


@pytest.mark.parametrize("factor", [0.93, 1.02, 1.5])
def test_a_stretched_profile_has_its_cycles_at_the_stretched_period(
    factor: float,
) -> None:
    time_s = np.arange(4_000)
    base = wavy_profile("tune", 1, 4_000, seed=0)
    swinging = type(base)(
        "p",
        "p",
        1,
        1_000,
        (2_000 + 500 * np.sin(2 * np.pi * time_s / 40)),
        base.provenance,
    )
    spectrum = np.abs(np.fft.rfft(stretch_profile(swinging, factor).power_w - 2_000))
    n_samples = round(4_000 * factor)
    period_s = n_samples / np.argmax(spectrum)
    assert period_s == pytest.approx(40 * factor, rel=1.5 / 100)


def test_classes_may_draw_their_run_times() -> None:
    scenario = tiny_scenario(
        {
            "streams.training.classes.0.duration": {"quantiles_s": {0: 600, 1: 1_200}},
            "duration": "28 d",
        }
    )
    workload = generate_jobs(scenario, tiny_library())
    drawn = workload.jobs.class_id == 0
    own_s = workload.jobs.duration_ms[drawn] / 1_000
    assert own_s.min() >= 600
    assert own_s.max() <= 1_200
    assert np.unique(own_s).size > 100
    assert workload.matches[0].matched_utilization == pytest.approx(0.6, abs=0.005)
    others = workload.library.entries[
        int(workload.jobs.profile_id[~drawn][0])
    ].duration_ms
    assert workload.jobs.duration_ms[~drawn][0] == others


def test_copies_of_one_stream_are_drawn_by_no_other() -> None:
    own = {"pool": "main", "jobs_per_day": 20}
    tune = {"workload": "tune", "n_nodes": 2, "probability": 1.0}
    wide = {
        "workload": "tune",
        "n_nodes": 8,
        "scale_from_n_nodes": 2,
        "probability": 0.5,
    }
    streams = {
        "a": {
            **own,
            "classes": [{**tune, "probability": 0.5}, wide],
            "profile_variants": {},
        },
        "b": {**own, "classes": [tune]},
        "c": {
            **own,
            "classes": [tune],
            "profile_variants": {"n_variants": 2, "spread": 0.0001},
        },
    }
    workload = generate_jobs(tiny_scenario({"streams": streams}), tiny_library())
    names = [[workload.library.ids[i] for i in c.profile_ids] for c in workload.classes]
    assert names[0] == names[1]
    assert len(names[0]) == 10
    assert names[2] == ["tune-2n-1", "tune-2n-2"]
    assert names[3][:2] == ["tune-2n-1~0.9999", "tune-2n-1~1.0001"]


def test_more_jobs_than_can_be_simulated_are_refused() -> None:
    lasting = {
        "streams.training.classes.0.duration": {"quantiles_s": {0: 1e-6, 1: 1e-6}}
    }
    short = {
        "streams.training.classes": [
            {"workload": "tune", "n_nodes": 2, "probability": 1.0}
        ]
    }
    with pytest.raises(
        InputError, match="more than 2,000,000,000; ask for fewer or longer jobs"
    ):
        generate_jobs(tiny_scenario({**short, **lasting}), tiny_library())


SHORT = {"lognormal": [{"weight": 1.0, "median_s": 60, "sigma": 1.0}]}
LONG = {"lognormal": [{"weight": 1.0, "median_s": 6_000, "sigma": 0.5}]}
SIZES = {2: 0.5, 20: 0.4, 100: 0.1}


def drawn(
    arrays: dict[str, Any] | None, changes: dict[str, Any] | None = None
) -> JobTable:
    one = {"workload": "draw", "n_nodes": 1, "probability": 0.8, "duration": LONG}
    if arrays is not None:
        one["arrays"] = {"job_share": 0.5, "sizes": SIZES} | arrays
    other = {"workload": "tune", "n_nodes": 2, "probability": 0.2, "duration": SHORT}
    given = {
        "duration": "100 d",
        "streams.training.classes": [one, other],
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 500,
    }
    return generate_jobs(tiny_scenario(given | (changes or {})), tiny_library()).jobs


def sizes_of(jobs: JobTable) -> np.ndarray:
    """Number of jobs of the class with arrays that are submitted with each of them."""
    one = jobs.submit_ms[jobs.n_nodes == 1]
    _, inverse, counts = np.unique(one, return_inverse=True, return_counts=True)
    return counts[inverse]


@pytest.mark.slow
def test_jobs_of_arrays_have_their_share_and_sizes_and_the_count_of_jobs_stays() -> (
    None
):
    jobs = drawn({})
    assert len(jobs) == pytest.approx(50_000, rel=0.1)
    assert (jobs.n_nodes == 1).mean() == pytest.approx(0.8, abs=0.04)
    sizes = sizes_of(jobs)
    assert (sizes > 1).mean() == pytest.approx(0.5, abs=0.06)
    n_arrays = np.array([(sizes == size).sum() / size for size in SIZES])
    assert np.abs(n_arrays / n_arrays.sum() - list(SIZES.values())).max() < 0.06
    assert JobArrays(job_share=0.5, sizes=SIZES).mean_size == pytest.approx(19)


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_run_times_are_alike_within_an_array_as_far_as_asked(
    correlation: float,
) -> None:
    jobs = drawn({"run_time_correlation": correlation, "duration": SHORT})
    one = jobs.take(jobs.n_nodes == 1)
    pairs = np.flatnonzero(
        (np.diff(one.submit_ms) == 0) & (np.diff(sizes_of(jobs)) == 0)
    )
    score = np.log(one.duration_ms / 60_000)  # normal, standard deviation 1
    found = np.mean(score[pairs] * score[pairs + 1])
    assert found == pytest.approx(correlation, abs=0.15)
    alone = one.duration_ms[sizes_of(jobs) == 1] / 1000
    assert np.median(alone) == pytest.approx(6_000, rel=0.05)


@pytest.mark.slow
def test_days_that_differ_have_the_variance_asked_for_and_hours_none_of_their_own() -> (
    None
):
    jobs = drawn(None, {"streams.training.day_dispersion": 0.25, "duration": "2 years"})
    per_day = np.bincount(jobs.submit_ms // 86_400_000, minlength=730)
    assert (per_day.var() - per_day.mean()) / 500**2 == pytest.approx(0.25, rel=0.25)
    per_hour = np.bincount(jobs.submit_ms // 3_600_000, minlength=730 * 24).reshape(
        730, 24
    )
    within = ((per_hour - per_day[:, None] / 24) ** 2).sum() / per_hour.sum() * 24 / 23
    assert stats.chi2.cdf(within * 23 * 730, 23 * 730) == pytest.approx(0.5, abs=0.499)
