"""A stream of synchronous training jobs in a facility: power, causes, metrics and bad
input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Planned, tiny_library
from scipy.signal import welch
from synchronous_builders import CPUS_W, IDLE_W, RATED_W, synchronous_scenario

from diploee import Run, generate_jobs
from diploee import run as simulate
from diploee.base.errors import InputError
from diploee.loads.jobs.lowering import lower_jobs
from diploee.metrics.attribution_text import cause_text, read_causes
from diploee.profiles.gpu_power_smoothing import smooth_loop, smooth_series
from diploee.profiles.iterations import loop_of_iterations
from diploee.scenario import Scenario
from diploee.scenario.job_streams import PowerSmoothing
from diploee.scenario.synchronous import SynchronousJob
from diploee.schedule import Preempt, Resume
from diploee.simulation.size import scale_scenario
from diploee.simulation.steps import job_segments, power_series, schedule_jobs

N_NODES = 64
JOB = {
    "name": "big",
    "n_nodes": N_NODES,
    "period_s": 6.0,
    "work_days": 0.15,
    "warm_up_s": 60,
    "failures_per_1000_node_days": 400,
    "planned_per_1000_node_days": 40,
    "detection_median_s": 60,
    "reschedule_s": 60,
    "load_s": 60,
}


def scenario_of(*jobs: dict[str, Any], **keys: Any) -> Scenario:
    options = {"n_nodes": 300, "duration": "6 h", "resolution": "60 s"} | keys
    return synchronous_scenario(*(jobs or (JOB,)), **options)


def run_of(folder: Path, *jobs: dict[str, Any], **keys: Any) -> Run:
    return simulate(scenario_of(*jobs, **keys), folder, profiles=tiny_library())


def metrics_of(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / "metrics.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def fine_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("fine") / "run", resolution="0.1 s")


def power_of(scenario: Scenario) -> np.ndarray:
    work = generate_jobs(scenario, tiny_library())
    schedule = schedule_jobs(work.jobs, scenario)
    load = lower_jobs(schedule, work.library, scenario.facility, work.pieces_of)
    return power_series(load.segments, scenario, work.library)["it_power_w"].to_numpy()


def test_levels_are_those_of_gpus_cpus_and_idle_spares(fine_run: Run) -> None:
    work = generate_jobs(scenario_of(), tiny_library())
    spares = int(work.jobs.n_nodes[0]) - N_NODES
    # The pool's other nodes idle as well
    others_w = N_NODES * CPUS_W + (300 - N_NODES) * IDLE_W
    power_w = fine_run.facility()["facility_power_w"].to_numpy()
    assert spares == 41  # 25.6 in repair on average, and three standard deviations
    assert power_w.max() == pytest.approx(N_NODES * RATED_W * 0.92 + others_w, rel=1e-6)
    assert power_w[10:590] == pytest.approx(
        N_NODES * RATED_W * 0.30 + others_w, rel=1e-6
    )
    hung_w = N_NODES * RATED_W * 0.143 + others_w
    assert np.isclose(power_w, hung_w, rtol=1e-6).sum() > 600
    assert power_w.min() == pytest.approx(300 * IDLE_W, rel=1e-6)


def test_the_largest_drop_is_a_failure_or_the_end_and_no_iteration(
    fine_run: Run,
) -> None:
    found = list(read_causes(metrics_of(fine_run)))
    drops = {
        key[1]: cause
        for key, _, cause in found
        if key[0] == "ramps" and key[2] == "down"
    }
    for cause in drops.values():
        (part,) = cause["parts"]
        assert part["what"].removesuffix(" and took up training") in {
            "jobs failed",
            "jobs ended",
            "jobs stopped as planned",
        }
    # from training to hanging, more than from the high level to the low one
    iteration_mw = N_NODES * RATED_W * (0.92 - 0.45) / 1e6
    assert min(drops) <= 2
    assert -drops[min(drops)]["change_mw"] > 1.3 * iteration_mw
    rises = [cause for key, _, cause in found if key[0] == "ramps" and key[2] == "up"]
    whats = {cause["parts"][0]["what"] for cause in rises}
    assert whats & {"jobs took up training", "jobs wrote checkpoints"}
    words = " ".join(map(cause_text, drops.values()))
    assert "stream pretraining -" in words
    assert "job 0 on 105 nodes" in words


def test_a_rise_behind_a_checkpoint_is_reported_as_such() -> None:
    part = {
        "what": "jobs wrote checkpoints",
        "of": "big",
        "pool": "main",
        "mw": 3.0,
        "count": 1,
    }
    rise = cause_text({"parts": [part]})
    assert rise == "stream big +3.00 MW (1 job trained on after writing checkpoints)"
    assert "-3.00 MW (1 job wrote checkpoints)" in cause_text(
        {"parts": [part | {"mw": -3.0}]}
    )


def test_metrics_tell_where_the_time_of_the_nodes_went(fine_run: Run) -> None:
    of = metrics_of(fine_run)["synchronous"]["pretraining"]
    work = generate_jobs(scenario_of(), tiny_library())
    job_h, n_nodes = int(work.jobs.duration_ms[0]) / 3.6e6, int(work.jobs.n_nodes[0])
    assert job_h < 6
    assert of["node_h"] == pytest.approx(job_h * n_nodes)
    assert of["ettr"] == pytest.approx(0.15 * 24 / job_h)
    lost_h = of["lost_node_h"]
    assert lost_h == pytest.approx((1 - of["ettr"]) * of["node_h"])
    parts_h = sum(
        of[f"{key}_node_h"] for key in ("redone", "checkpoint", "hung", "restart")
    )
    assert parts_h + of["waiting_node_h"] == pytest.approx(lost_h)
    assert of["failures"] > 0


def test_segments_without_what_synchronous_jobs_play_are_refused() -> None:
    scenario = scenario_of()
    work = generate_jobs(scenario, tiny_library())
    with pytest.raises(InputError, match="what synchronous jobs play"):
        job_segments(schedule_jobs(work.jobs, scenario), work.library, scenario)


def test_a_longer_run_changes_nothing_before_its_end() -> None:
    long = JOB | {"work_days": 1}
    day_w, days_w = (
        power_of(scenario_of(long, duration=length)) for length in ("1 d", "2 d")
    )
    assert day_w.tolist() == days_w[: day_w.size].tolist()


def test_failures_that_cost_no_time_are_counted(tmp_path: Path) -> None:
    job = JOB | {"detection_median_s": 0, "reschedule_s": 0, "load_s": 0}
    of = metrics_of(run_of(tmp_path / "run", job))["synchronous"]["pretraining"]
    assert of["failures"] > 0
    assert of["planned_interruptions"] > 0


def test_jobs_follow_one_another_and_differ() -> None:
    short = JOB | {"work_days": 0.02}
    scenario = scenario_of(short, synchronous={"repeat": True})
    jobs = generate_jobs(scenario, tiny_library()).jobs
    assert len(jobs) > 3
    assert (jobs.submit_ms[1:] == (jobs.submit_ms + jobs.duration_ms)[:-1]).all()
    assert np.unique(jobs.duration_ms).size > 1
    # a job is the same whatever else is drawn
    first = generate_jobs(scenario_of(short), tiny_library()).jobs
    assert first.duration_ms[0] == jobs.duration_ms[0]


def test_jobs_are_submitted_at_dates_and_after_times() -> None:
    dated = JOB | {"name": "b", "submit": "2026-01-01 02:30"}
    after = JOB | {"name": "c", "submit_after": "45 min"}
    jobs = generate_jobs(scenario_of(JOB, dated, after), tiny_library()).jobs
    assert jobs.submit_ms.tolist() == [0, 45 * 60_000, 150 * 60_000]


def rms_w(power_w: np.ndarray, period_s: float) -> float:
    """Return the amplitude of the fundamental of the iterations, rms."""
    frequency_hz, psd = welch(power_w, fs=10.0, nperseg=3_000, detrend="linear")
    inside = np.abs(frequency_hz - 1 / period_s) < 0.2 / period_s
    return float(np.sqrt(psd[inside].sum() * frequency_hz[1]))


CALM = JOB | {
    "failures_per_1000_node_days": 0,
    "planned_per_1000_node_days": 0,
    "checkpoint_interval": "none",
    "warm_up_s": 0,
    "jitter": 0.0,
    "work_days": 0.5,
}


def test_the_swing_of_one_job_grows_with_its_nodes() -> None:
    counts = [16, 64, 256]
    of = [
        rms_w(
            power_of(
                scenario_of(
                    CALM | {"n_nodes": n}, duration="30 min", resolution="0.1 s"
                )
            ),
            6.0,
        )
        for n in counts
    ]
    slope = np.polyfit(np.log(counts), np.log(of), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.01)
    # fundamental of a square wave of duty 0.8: sqrt(2) / pi sin(0.8 pi) (H - L)
    expected_w = (
        np.sqrt(2) / np.pi * np.sin(0.8 * np.pi) * 256 * RATED_W * (0.92 - 0.45)
    )
    assert of[-1] == pytest.approx(expected_w, rel=0.02)


@pytest.mark.slow
def test_the_swings_of_separate_jobs_grow_with_the_root_of_their_number() -> None:
    rng = np.random.default_rng(3)
    counts = (4, 64)
    mean_square = []
    for count in counts:
        squares = []
        for _ in range(12):
            starts_ms = rng.integers(0, 60_000, count)
            jobs = [
                CALM | {"name": f"j{k}", "n_nodes": 4, "submit_after": f"{start_ms} ms"}
                for k, start_ms in enumerate((starts_ms + 1).tolist())
            ]
            power_w = power_of(
                scenario_of(*jobs, duration="12 min", resolution="0.1 s")
            )
            squares.append(rms_w(power_w[700:7_000], 6.0) ** 2)
        mean_square.append(np.mean(squares))
    slope = np.log(mean_square[1] / mean_square[0]) / 2 / np.log(counts[1] / counts[0])
    assert slope == pytest.approx(0.5, abs=0.12)


def test_a_loop_holds_the_mean_of_its_levels() -> None:
    rng = np.random.default_rng(0)
    job = SynchronousJob(**JOB)
    shares = loop_of_iterations(job, 6.0, rng)
    assert shares.size == 6_000
    assert shares.mean() == pytest.approx(0.45 + 0.8 * 0.47, rel=1e-6)
    assert shares.min() == pytest.approx(0.45)
    assert shares.max() == pytest.approx(0.92)
    dipped = SynchronousJob(**JOB, second_dip={"at": 0.4, "length": 0.1, "level": 0.6})
    mean = loop_of_iterations(dipped, 6.0, rng).mean()
    assert mean == pytest.approx(0.45 + 0.8 * 0.47 - 0.1 * 0.32, rel=1e-6)


def test_fast_iterations_are_played_and_their_sharp_edges_warned_of(
    tmp_path: Path,
) -> None:
    run = run_of(
        tmp_path / "fast", JOB | {"period_s": 1.08}, resolution="0.1 s", duration="1 h"
    )
    manifest = json.loads((run.folder / "manifest.json").read_text("utf-8"))
    (sharp,) = manifest["warnings"]
    assert "sharper than a real site's" in sharp
    kinds = {of["provenance"]["kind"] for of in manifest["profiles"].values()}
    assert kinds == {"reference"}
    assert "streams.pretraining.synchronous.jobs.0.duty" in manifest["assumed"]
    lines = metrics_of(run)["grid"]["spectrum"]["lines"]
    assert lines[0]["period_s"] == pytest.approx(1.08, rel=0.01)


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"second_dip": {}, "micro_steps": {"count": 4, "low": 0.6}},
        "one of 'second_dip', 'micro_",
    ),
    (
        {"micro_steps": {"count": 60, "low": 0.6}},
        "0.1 s is longer than a level lasts (0.05 s",
    ),
    (
        {"failures_per_1000_node_days": 9_000, "checkpoint_write_s": 600},
        "young's interval of",
    ),
    ({"n_gpus": 512}, "give one of 'n_gpus', 'n_nodes'"),
    ({"low": 0.95}, "low 0.95 is above high 0.92"),
    ({"n_nodes": 290}, "takes 290 nodes and 149 spare ones, pool 'main' has 300"),
    (
        {"second_dip": {"at": 0.77}},
        "ends at 0.82 of the iteration, where the low level is from",
    ),
    ({"submit": "2026-01-02"}, "no job is submitted within the run"),
    ({"submit": "2025-12-31"}, "lies before the simulation begins"),
    ({"reschedule_s": 86_400}, "of its time on progress"),
    (
        {"checkpoint_interval": 0.001, "checkpoint_write_s": 0},
        "checkpoints, at most 5,000,000",
    ),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=[text for _, text in WRONG])
def test_bad_input_gives_one_clear_line(changes: dict[str, Any], text: str) -> None:
    job = {key: value for key, value in (JOB | changes).items() if value is not None}
    with pytest.raises(InputError) as caught:
        generate_jobs(scenario_of(job), tiny_library())
    (problem,) = caught.value.problems
    assert text in problem
    assert "synchronous" in problem


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        ({"jobs_per_day": 3}, "'synchronous' can't go with 'jobs_per_day'"),
        (
            {"power_smoothing": {}, "synchronous": {"jobs": [JOB | {"exit_s": 5}]}},
            "set them to 0",
        ),
        (
            {"flexibility": {"min_nodes": 8}},
            r"flexibility\.min_nodes can't go with synchronous",
        ),
    ],
)
def test_other_keys_of_a_stream_are_refused(stream: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        scenario_of(stream=stream)


def test_a_job_grows_with_its_site() -> None:
    site = scale_scenario(scenario_of({"preset": "dense_70b_1k", "n_gpus": 500}), 1.5)
    jobs = generate_jobs(site, tiny_library()).jobs
    assert jobs.n_nodes[0] == 94 + 3  # 750 GPUs on whole nodes of 8, and spare ones


def test_presets_give_way_to_what_is_given() -> None:
    job = SynchronousJob(
        preset="llama3_405b_16k", n_nodes=100, period_s=2.0, work_days=3
    )
    assert (job.n_gpus, job.parameters, job.tokens) == (None, None, None)
    assert job.tokens_per_step == 16e6
    assert SynchronousJob(**job.model_dump(mode="json")) == job


@pytest.mark.slow
def test_a_year_of_a_hundred_thousand_gpus_is_cheap(tmp_path: Path) -> None:
    job = {"preset": "dense_2t_100k", "work_days": 300}
    run = run_of(
        tmp_path / "run", job, n_nodes=12_600, duration="1 year", resolution="1 h"
    )
    of = metrics_of(run)["synchronous"]["pretraining"]
    # 12,500 nodes fail every half hour: Daly's law at u0 = 248 s, C = 270 s, w = 20 s
    rate, recovery_s, interval_s = (
        12_500 * 3.8e-3 / 86_400,
        60 * np.exp(0.125) + 180,
        269.7,
    )
    law = (
        rate
        * interval_s
        / np.expm1(rate * (interval_s + 20))
        * np.exp(-rate * recovery_s)
    )
    assert of["ettr"] == pytest.approx(law, rel=0.02)
    # nodes that fail while the job is down do not interrupt it once more
    assert 0.9 < of["failures"] / (365 * 12_500 * 3.8e-3) < 1.0


SUSPENDED = {7_200_000: [Preempt(0, "suspend")], 10_800_000: [Resume(0)]}


def test_a_policy_that_acts_plays_the_same_pieces_and_stops_it_where_it_says(
    tmp_path: Path,
) -> None:
    plain, acted, stopped = (
        simulate(
            scenario_of(), tmp_path / name, profiles=tiny_library(), policies=policies
        )
        for name, policies in (
            ("plain", None),
            ("acted", {"main": Planned({})}),
            ("stopped", {"main": Planned(SUSPENDED)}),
        )
    )
    power_w, same_w, held_w = (
        run.facility()["facility_power_w"].to_numpy() for run in (plain, acted, stopped)
    )
    assert (power_w == same_w).all()
    assert held_w[120:180] == pytest.approx(300 * IDLE_W, rel=1e-6)
    assert held_w[180:] == pytest.approx(power_w[120:300], rel=1e-6)
    of, of_held = (
        metrics_of(run)["synchronous"]["pretraining"] for run in (plain, stopped)
    )
    assert metrics_of(acted)["synchronous"]["pretraining"] == of
    assert of_held["stopped_node_h"] == pytest.approx(105)
    assert of_held["node_h"] == pytest.approx(of["node_h"] + 105)
    assert of_held["failures"] == of["failures"]


def test_a_flexible_job_is_capped_through_an_event_and_ends_later(
    tmp_path: Path,
) -> None:
    event = {"id": "e", "product": "emerald", "issued": "2026-01-01 02:00"}
    scenario = scenario_of(
        JOB | {"work_days": 0.3},
        duration="12 h",
        stream={"flexibility": {"tier": 3, "work": "pre_training"}},
        flexibility={"events": [event | {"start": "2026-01-01 02:30"}]},
    )
    run = simulate(scenario, tmp_path / "run", profiles=tiny_library())
    found = metrics_of(run)
    (of_event,) = found["flexibility"]["events"]
    assert of_event["mean_mw"] <= of_event["target_mw"]
    series = run.facility()
    power_w, twin_w = (
        series[k].to_numpy() for k in ("facility_power_w", "baseline_power_w")
    )
    assert power_w[170:320].mean() < 0.75 * twin_w[170:320].mean()
    idle_w = 300 * IDLE_W * 1.01
    assert (
        np.flatnonzero(power_w > idle_w)[-1] > np.flatnonzero(twin_w > idle_w)[-1] + 30
    )
    # the same work is done, in more time
    of = found["synchronous"]["pretraining"]
    assert of["node_h"] - of["lost_node_h"] > 0.3 * 24 * 105


def smoothed_scenario(
    spec: dict[str, Any], *jobs: dict[str, Any], **keys: Any
) -> Scenario:
    return scenario_of(*jobs, stream={"power_smoothing": spec}, **keys)


SLOW = {"floor": 0.6, "up_per_s": 0.05, "down_per_s": 0.3, "hysteresis_s": 0.5}


@pytest.mark.parametrize("floor", [0.5, 0.65, 0.9])
def test_a_loop_burns_the_law_of_its_floor(floor: float) -> None:
    job = SynchronousJob(
        n_nodes=1, period_s=10.0, work_days=1, high=1.0, low=0.35, edge_s=0, jitter=0
    )
    own = loop_of_iterations(job, 10.0, np.random.default_rng(0))
    at_once = PowerSmoothing.model_construct(
        floor=floor, up_per_s=1e9, down_per_s=1e9, hysteresis_s=0.0
    )
    drawn, burnt = smooth_loop(own, 0.1, at_once)
    law = 0.2 * (floor - 0.35) / (0.8 + 0.2 * 0.35)
    assert drawn.sum() / own.sum() - 1 == pytest.approx(law, rel=1e-3)
    assert burnt / own.sum() == pytest.approx(law, rel=1e-3)
    none, _ = smooth_loop(own, 0.1, at_once.model_copy(update={"floor": 0.0}))
    assert none.tobytes() == own.tobytes()


def test_a_loop_ends_where_it_begins_and_takes_longer_with_slow_rises() -> None:
    spec = PowerSmoothing(floor=0.6, up_per_s=0.05, down_per_s=0.3, hysteresis_s=0)
    own = loop_of_iterations(SynchronousJob(**JOB), 10.0, np.random.default_rng(0))
    drawn, burnt = smooth_loop(own, 0.1, spec)
    twice = np.tile(drawn, 2)
    assert np.diff(twice).max() <= 0.05 * 0.1 + 1e-12
    assert np.diff(twice).min() >= -0.3 * 0.1 - 1e-12
    # Each rise from the floor to p waits by (p - F)^2 / (2 r p) s.
    wait_s = (0.92 - 0.6) ** 2 / (2 * 0.05 * 0.92)
    assert drawn.size / own.size - 1 == pytest.approx(wait_s / 10, rel=0.04)
    # Work that is done at q of p takes q: what is drawn beyond the work is burnt, all
    # of it.
    assert drawn.sum() - own.sum() == pytest.approx(burnt, rel=0.01)


@pytest.mark.parametrize("spec", [{}, SLOW, {"floor": 0.3, "hysteresis_s": 0}])
def test_pieces_are_those_of_gpus_that_go_through_all_phases(
    spec: dict[str, Any],
) -> None:
    job = CALM | {
        "work_days": 0.02,
        "checkpoint_interval": 700,
        "warm_up_s": 60,
        "spare_nodes": 0,
    }
    scenario = smoothed_scenario(
        spec, job, n_nodes=N_NODES, duration="1 h", resolution="0.1 s"
    )
    found = (power_of(scenario) / N_NODES - CPUS_W) / RATED_W
    own = loop_of_iterations(SynchronousJob(**job), 6.0, np.random.default_rng(0))
    # What it does without smoothing, through the law of all steps at once.
    parts = [np.full(600, 0.3)]
    for work_s in (700, 700, 328):
        parts += [np.tile(own, 2)[: work_s * 10], np.full(200, 0.25)]
    idle = (IDLE_W - CPUS_W) / RATED_W
    power = PowerSmoothing(**spec)
    drawn, _ = smooth_series(np.concatenate(parts[:-1]), 0.1, power, idle)
    ends = [np.flatnonzero(course > idle + 1e-3)[-1] for course in (drawn, found)]
    # Iterations begin anew behind each rise, whose work is that of a high level.
    assert ends[1] == pytest.approx(ends[0], rel=2e-3)
    assert found.sum() == pytest.approx(
        drawn.sum() + idle * (found.size - drawn.size), rel=2e-3
    )
    # No ramp is steeper than asked for, over whole seconds; to half a step where steps
    # do not meet.
    for rate, sign in ((power.up_per_s, 1), (power.down_per_s, -1)):
        assert (sign * (found[10:] - found[:-10])).max() <= 1.06 * rate


def test_smoothing_takes_the_line_and_the_drops_and_keeps_the_energy_at_any_resolution(
    fine_run: Run, tmp_path: Path
) -> None:
    plain_w = fine_run.facility()["facility_power_w"].to_numpy()
    run = simulate(
        smoothed_scenario({}, resolution="0.1 s"),
        tmp_path / "fine",
        profiles=tiny_library(),
    )
    power_w = run.facility()["facility_power_w"].to_numpy().astype(float)
    assert rms_w(power_w[2_000:20_000], 6.0) < 0.1 * rms_w(plain_w[2_000:20_000], 6.0)
    assert np.abs(np.diff(power_w)).max() < 0.03 * np.abs(np.diff(plain_w)).max()
    coarse = simulate(
        smoothed_scenario({}, resolution="10 s"),
        tmp_path / "coarse",
        profiles=tiny_library(),
    )
    coarse_w = coarse.facility()["facility_power_w"].to_numpy()
    assert power_w.reshape(-1, 100).mean(axis=1) == pytest.approx(coarse_w, rel=1e-6)
    energies_mwh = [metrics_of(each)["power"]["energy_mwh"] for each in (run, coarse)]
    assert energies_mwh[0] == pytest.approx(energies_mwh[1], rel=1e-9)
    # A job that hangs holds the floor; one that is scheduled again does not.
    others_w = N_NODES * CPUS_W + (300 - N_NODES) * IDLE_W
    floor_w = N_NODES * RATED_W * 0.65 + others_w
    assert np.isclose(power_w, floor_w, rtol=1e-6).sum() > 3_000
    assert power_w.min() == pytest.approx(300 * IDLE_W, rel=1e-6)
    of, of_plain = (
        metrics_of(each)["synchronous"]["pretraining"] for each in (run, fine_run)
    )
    assert of["ettr"] < of_plain["ettr"]
    assert of["restart_node_h"] > 0
    hours = sum(
        of[f"{k}_node_h"]
        for k in ("redone", "checkpoint", "hung", "restart", "waiting")
    )
    assert hours == pytest.approx(of["lost_node_h"])
    assert run.manifest["warnings"] == []
    assert "sharper than a real site's" in fine_run.manifest["warnings"][0]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"up_per_s": 1e-5}, "raise them"),
        ({"floor": 0.0, "down_per_s": 1e-4}, "expected 0.001 at least"),
    ],
)
def test_smoothing_that_jobs_can_not_show_is_refused(
    spec: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        generate_jobs(smoothed_scenario(spec, resolution="1 s"), tiny_library())
