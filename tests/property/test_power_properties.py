"""Random loads: energy is exact at every resolution, whatever the blocks, and equals
dense sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from builders import job_energy_j, job_table, mean_utilization, profile, tiny_scenario
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.tables import concat
from diploee.power import Segments, spectral
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario
from diploee.schedule import Schedule
from diploee.schedule.started import NEVER_MS
from diploee.simulation.steps import (
    job_segments,
    power_blocks,
    power_series,
    schedule_jobs,
)

IDLE_W = 400.0
RESOLUTIONS = ["0.1 s", "1 s", "60 s", "1 h"]
EXACT = 1e-9


@dataclass(frozen=True)
class Site:
    """A schedule of random jobs on random profiles."""

    schedule: Schedule
    library: ProfileLibrary
    n_nodes: int
    duration_s: int

    def scenario(self, resolution: str, duration_s: int | None = None) -> Scenario:
        stream = {"pool": "main", "jobs_per_day": 1}
        one_class = {"workload": "a", "n_nodes": 1, "probability": 1}
        return tiny_scenario(
            {
                "duration": f"{duration_s or self.duration_s} s",
                "resolution": resolution,
                "facility.pools.main.n_nodes": self.n_nodes,
                "streams": {"s": {**stream, "classes": [one_class]}},
            }
        )

    def energy_j(self) -> float:
        """Energy of all jobs up to the horizon, and of idle nodes [J], from the
        schedule alone."""
        started = self.schedule.started
        end_ms = np.minimum(self.schedule.end_ms, self.schedule.horizon_ms)
        busy_ms = ((end_ms - self.schedule.start_ms) * self.schedule.jobs.n_nodes)[
            started
        ].sum()
        idle_ms = self.n_nodes * self.schedule.horizon_ms - int(busy_ms)
        return (
            float(job_energy_j(self.schedule, self.library, self.scenario("1 s")).sum())
            + IDLE_W * idle_ms / 1_000
        )


def random_site(
    seed: int,
    duration_s: int,
    n_jobs: int,
    longest_s: int,
    steps_ms: tuple[int, ...] = (100, 100, 200, 250, 1_000, 1_300),
) -> Site:
    """A busy small pool; profiles of several steps, jobs scaled from narrower profiles."""  # noqa: E501
    rng = np.random.default_rng(seed)
    n_nodes = int(rng.integers(4, 20))
    profiles = []
    for k in range(4):
        dt_ms = int(rng.choice(steps_ms))
        n_samples = max(1, int(rng.integers(1, longest_s * 1_000) // dt_ms))
        power_w = rng.uniform(0, 3_000, n_samples)
        profiles.append(
            profile(f"p{k}", power_w, n_nodes=int(rng.integers(1, 4)), dt_ms=dt_ms)
        )
    library = ProfileLibrary(profiles)
    chosen = rng.integers(0, 4, n_jobs)
    own_nodes = np.array([p.n_nodes for p in profiles])[chosen]
    scaled = rng.random(n_jobs) < 0.3
    jobs = job_table(
        np.sort(rng.integers(0, duration_s * 1_000, n_jobs)),  # odd milliseconds
        np.where(scaled, rng.integers(1, n_nodes + 1, n_jobs), own_nodes),
        np.array([p.duration_ms for p in profiles])[chosen],
        chosen,
    )
    site = Site(
        Schedule(jobs, np.full(n_jobs, NEVER_MS), 0), library, n_nodes, duration_s
    )
    schedule = schedule_jobs(jobs, site.scenario("0.1 s"), "compiled")
    return Site(schedule, library, n_nodes, duration_s)


def it_power_w(
    site: Site, resolution: str, block_intervals: int = 1 << 18
) -> np.ndarray:
    segments = segments_of(site)
    how = {"block_intervals": block_intervals}
    return of_blocks(segments, site.scenario(resolution), site, **how)


def dense_power_w(
    segments: Segments, site: Site, dt_ms: int, n_steps: int
) -> np.ndarray:
    """Mean power from a value for every single millisecond."""
    horizon_ms = dt_ms * n_steps
    power_w = np.full(horizon_ms, site.n_nodes * IDLE_W)
    for row in range(len(segments)):
        start_ms, end_ms = int(segments.start_ms[row]), int(segments.end_ms[row])
        part = site.library[int(segments.profile_id[row])]
        at_ms = np.arange(end_ms - start_ms) + int(segments.offset_ms[row])
        values = np.append(part.power_w.astype(float), 0.0)
        sample = np.clip(at_ms // part.dt_ms, 0, part.power_w.size)
        power_w[start_ms:end_ms] += segments.weight[row] * values[sample]
        power_w[start_ms:end_ms] -= segments.n_nodes[row] * IDLE_W
    return power_w.reshape(n_steps, dt_ms).mean(axis=1)


def segments_of(site: Site) -> Segments:
    return job_segments(site.schedule, site.library, site.scenario("1 s"))


def of_blocks(segments: Segments, scenario: Scenario, site: Site, **how: Any) -> Any:
    """Return the IT power of all blocks."""
    blocks = power_blocks(segments, scenario, site.library, **how)
    return np.concatenate([block.it_power_w[0] for block in blocks])


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=15)
def test_facility_energy_equals_job_energies_plus_idle_at_every_resolution(
    seed: int,
) -> None:
    site = random_site(seed, duration_s=3 * 3_600, n_jobs=60, longest_s=2_400)
    expected_j = site.energy_j()
    for resolution in RESOLUTIONS:
        step_s = site.scenario(resolution).resolution_ms / 1_000
        found_j = float(it_power_w(site, resolution).sum()) * step_s
        assert found_j == pytest.approx(expected_j, rel=EXACT), resolution


@given(seeds, st.sampled_from(["0.1 s", "0.7 s", "1.5 s", "4.2 s", "21 s", "60 s"]))
@settings(max_examples=15)
def test_power_equals_a_dense_sum_over_milliseconds(seed: int, resolution: str) -> None:
    site = random_site(seed, duration_s=420, n_jobs=25, longest_s=120)
    scenario = site.scenario(resolution)
    segments = segments_of(site)
    expected_w = dense_power_w(
        segments, site, scenario.resolution_ms, scenario.n_intervals
    )
    assert it_power_w(site, resolution) == pytest.approx(
        expected_w, rel=EXACT, abs=1e-6
    )


@given(seeds, st.sampled_from(["0.1 s", "1.5 s", "21 s"]))
@settings(max_examples=12)
def test_segments_with_offsets_and_weights_equal_a_dense_sum(
    seed: int, resolution: str
) -> None:
    """Segments as services will use them: any part of a profile, any weight, past its
    end too."""
    rng = np.random.default_rng(seed)
    site = random_site(seed, duration_s=210, n_jobs=0, longest_s=60)
    n = 30
    start_ms = rng.integers(0, 210_000, n)
    end_ms = np.minimum(start_ms + rng.integers(1, 90_000, n), 210_000)
    segments = Segments(
        start_ms=start_ms,
        end_ms=end_ms,
        pool_id=np.zeros(n),
        n_nodes=rng.integers(0, 3, n),
        profile_id=rng.integers(0, 4, n),
        offset_ms=rng.integers(0, 100_000, n),
        weight=rng.choice([0.0, 0.25, 1.0, 3.7], n),
    )
    scenario = site.scenario(resolution)
    expected_w = dense_power_w(
        segments, site, scenario.resolution_ms, scenario.n_intervals
    )
    found_w = of_blocks(segments, scenario, site, block_intervals=7)
    assert found_w == pytest.approx(expected_w, rel=EXACT, abs=1e-6)


@given(seeds, st.sampled_from(["0.1 s", "1.5 s", "60 s"]), st.integers(1, 50))
@settings(max_examples=20)
def test_block_size_changes_no_power(
    seed: int, resolution: str, block_intervals: int
) -> None:
    site = random_site(seed, duration_s=60, n_jobs=30, longest_s=30)
    whole = it_power_w(site, resolution)
    in_blocks = it_power_w(site, resolution, block_intervals)
    assert in_blocks == pytest.approx(whole, rel=EXACT, abs=1e-6)


@given(seeds, st.sampled_from([10, 11, 14]))
@settings(max_examples=10)
def test_adding_in_the_frequency_domain_equals_a_dense_sum(
    seed: int, order: int
) -> None:
    """Short transforms make several blocks, which jobs span; the horizon cuts the last
    ones."""
    site = random_site(seed, duration_s=420, n_jobs=40, longest_s=120, steps_ms=(100,))
    segments = segments_of(site)
    scenario = site.scenario("0.1 s")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(spectral, "FFT_LENGTH", 1 << order)
        found_w = of_blocks(segments, scenario, site, method="spectral")
    assert found_w == pytest.approx(
        dense_power_w(segments, site, 100, 4_200), rel=EXACT, abs=1e-6
    )
    assert float(found_w.sum()) / 10 == pytest.approx(site.energy_j(), rel=EXACT)


def looping_site(seed: int) -> Site:
    """Jobs of any run time on profiles with a start, a steady part and an end."""
    rng = np.random.default_rng(seed)
    n_jobs, n_nodes = 30, 12
    profiles = []
    for k in range(3):
        start, steady, tail = rng.integers([300, 800, 0], [1_200, 4_000, 900])
        level_w = np.repeat([300.0, 2_000.0, 100.0], [start, steady, tail])
        power_w = level_w * rng.uniform(0.9, 1.1, level_w.size)
        profiles.append(
            profile(f"p{k}", power_w, n_nodes=int(rng.integers(1, 4)), dt_ms=100)
        )
    jobs = job_table(
        np.sort(rng.integers(0, 1_800_000, n_jobs)),
        rng.integers(1, n_nodes + 1, n_jobs),
        rng.integers(1_000, 3_000_000, n_jobs),
        rng.integers(0, 3, n_jobs),
    )
    waiting, library = (
        Schedule(jobs, np.full(n_jobs, NEVER_MS), 0),
        ProfileLibrary(profiles),
    )
    site = Site(waiting, library, n_nodes, duration_s=7_200)
    schedule = schedule_jobs(jobs, site.scenario("0.1 s"), "compiled")
    return Site(schedule, library, n_nodes, site.duration_s)


@given(seeds, st.sampled_from([13, 14, 16]))
@settings(max_examples=8)
def test_looped_jobs_in_the_frequency_domain_equal_their_direct_sum(
    seed: int, order: int
) -> None:
    site = looping_site(seed)
    scenario = site.scenario("0.1 s")
    segments = job_segments(site.schedule, site.library, scenario)
    assert (segments.offset_ms > 0).any()

    direct_w = of_blocks(segments, scenario, site, method="direct")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(spectral, "FFT_LENGTH", 1 << order)
        found_w = of_blocks(segments, scenario, site, method="spectral")
    assert found_w == pytest.approx(direct_w, rel=EXACT, abs=1e-6)
    assert float(found_w.sum()) / 10 == pytest.approx(site.energy_j(), rel=EXACT)


@given(seeds, st.sampled_from(["1 s", "60 s", "10 min"]))
@settings(max_examples=10)
def test_coarse_power_is_the_mean_of_fine_power(seed: int, resolution: str) -> None:
    site = random_site(seed, duration_s=3_600, n_jobs=30, longest_s=900)
    per_step = site.scenario(resolution).resolution_ms // 100
    fine = it_power_w(site, "0.1 s").reshape(-1, per_step).mean(axis=1)
    assert it_power_w(site, resolution) == pytest.approx(fine, rel=EXACT, abs=1e-6)


@given(seeds)
@settings(max_examples=15)
def test_two_half_spans_equal_the_whole(seed: int) -> None:
    """One schedule, its power computed in two runs of half the length, cut in the
    middle."""
    site = random_site(seed, duration_s=7_200, n_jobs=50, longest_s=2_400)
    whole = segments_of(site)
    middle_ms = 3_600_000
    first = whole.take(whole.start_ms < middle_ms)
    second = whole.take(whole.end_ms > middle_ms)
    cut_ms = np.maximum(middle_ms - second.start_ms, 0)
    halves = [
        replace(first, end_ms=np.minimum(first.end_ms, middle_ms)),
        replace(
            second,
            start_ms=second.start_ms + cut_ms - middle_ms,
            end_ms=second.end_ms - middle_ms,
            offset_ms=second.offset_ms + cut_ms,
        ),
    ]
    half_site = site.scenario("60 s", duration_s=3_600)
    columns = ["it_power_w", "busy_nodes", "utilization"]
    found = [
        power_series(half, half_site, site.library)[columns].to_numpy()
        for half in halves
    ]
    expected = power_series(whole, site.scenario("60 s"), site.library)[
        columns
    ].to_numpy()
    assert np.concatenate(found) == pytest.approx(expected, rel=EXACT, abs=1e-6)


@given(seeds)
@settings(max_examples=15)
def test_loads_side_by_side_are_a_concatenation_of_segments(seed: int) -> None:
    site = random_site(seed, duration_s=3_600, n_jobs=30, longest_s=900)
    segments = segments_of(site)
    shuffled = np.random.default_rng(seed).permutation(len(segments))
    apart = concat([segments.take(shuffled[::2]), segments.take(shuffled[1::2])])
    scenario = site.scenario("60 s")
    expected = power_series(segments, scenario, site.library)["it_power_w"].to_numpy()
    found = power_series(apart, scenario, site.library)["it_power_w"].to_numpy()
    assert found == pytest.approx(expected, rel=EXACT, abs=1e-6)


@given(seeds, st.sampled_from(["0.7 s", "21 s"]), st.integers(1, 40))
@settings(max_examples=25)
def test_busy_nodes_equal_a_dense_count(
    seed: int, resolution: str, block_intervals: int
) -> None:
    site = random_site(seed, duration_s=210, n_jobs=25, longest_s=60)
    scenario = site.scenario(resolution)
    busy = np.zeros(scenario.horizon_ms, dtype=np.int64)
    segments = segments_of(site)
    for row in range(len(segments)):
        busy[segments.start_ms[row] : segments.end_ms[row]] += segments.n_nodes[row]
    steps = busy.reshape(scenario.n_intervals, scenario.resolution_ms)
    blocks = list(power_blocks(segments, scenario, site.library, block_intervals))
    at_start = np.concatenate([block.busy_nodes[0] for block in blocks])
    mean = np.concatenate([block.mean_busy_nodes[0] for block in blocks])
    assert at_start.tolist() == steps[:, 0].tolist()
    assert mean == pytest.approx(steps.mean(axis=1), rel=1e-12, abs=1e-12)
    assert mean.max(initial=0) <= site.n_nodes
    assert float(mean.mean()) == pytest.approx(
        mean_utilization(site.schedule, site.n_nodes) * site.n_nodes, rel=1e-12
    )


@given(seeds)
@settings(max_examples=20)
def test_job_energy_equals_a_dense_sum_of_its_profile(seed: int) -> None:
    site = random_site(seed, duration_s=210, n_jobs=25, longest_s=120)
    found_j = job_energy_j(site.schedule, site.library, site.scenario("1 s"))
    for job in range(len(site.schedule.jobs)):
        part = site.library[int(site.schedule.jobs.profile_id[job])]
        run_ms = 0
        if site.schedule.started[job]:
            end_ms = min(site.schedule.end_ms[job], site.schedule.horizon_ms)
            run_ms = int(end_ms - site.schedule.start_ms[job])
        each_ms = np.repeat(part.power_w.astype(float), part.dt_ms)[:run_ms]
        weight = site.schedule.jobs.n_nodes[job] / part.n_nodes
        assert found_j[job] == pytest.approx(weight * each_ms.sum() / 1_000, rel=1e-9)
