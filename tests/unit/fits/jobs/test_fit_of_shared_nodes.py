"""Logs of shared nodes: a fit for a pool that allocates GPUs keeps the GPU time of the
log."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import tiny_library, write_library, write_scenario
from command_line import call
from fit_logs import job_log, submissions

from diploee import generate_jobs
from diploee.fits.jobs.goodness_of_fit import with_generated_years
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.loads.jobs.job_log import NO_GPU, JobLog
from diploee.scenario import ClassRule, load_scenario

PER_NODE, N_HOURS = 4, 6 * 168
SIZES = [0.25, 0.4, 0.73, 1, 2, 3, 4, 8]
SHARES = [0.2, 0.1, 0.1, 0.35, 0.1, 0.05, 0.06, 0.03, 0.01]


@cache
def shared_log() -> JobLog:
    """Jobs as openb has them: most on a part of a node, wide ones long, parts of GPUs
    short."""
    rng = np.random.default_rng(11)
    submit_ms = np.sort(submissions(rng.poisson(6, N_HOURS), rng))
    n_gpus = rng.choice([*SIZES, 0], submit_ms.size, p=SHARES)
    duration_s = np.rint(
        rng.lognormal(7, 0.7, submit_ms.size) * np.maximum(n_gpus, 0.1) ** 0.5
    )
    log = job_log(submit_ms, np.maximum(n_gpus // PER_NODE, 1), duration_s)
    return replace(log, jobs=replace(log.jobs, n_gpus=n_gpus))


@cache
def fitted(allocates_gpus: bool, max_classes: int = 24) -> JobLogFit:
    return fit_job_log(
        shared_log(),
        [ClassRule(workload="tune")],
        tiny_library(),
        gpus_per_node=PER_NODE,
        allocates_gpus=allocates_gpus,
        max_classes=max_classes,
    )


def gpu_h(log: JobLog) -> float:
    return float(log.jobs.n_gpus @ log.jobs.duration_ms) / 3.6e6


@pytest.mark.slow
@pytest.mark.parametrize("max_classes", [24, 3])
def test_classes_hold_the_gpu_time_of_the_log(max_classes: int) -> None:
    fit = fitted(allocates_gpus=True, max_classes=max_classes)
    if max_classes > len(SIZES):
        assert [c.n_gpus or PER_NODE * c.n_nodes for c in fit.classes] == SIZES
    asked = sum(
        c.probability * (c.n_gpus or PER_NODE * c.n_nodes) * (c.model_mean_s or 0)
        for c in fit.classes
    )
    assert asked * fit.n_jobs / 3_600 == pytest.approx(gpu_h(shared_log()), rel=0.01)
    assert fit.mean_busy_nodes == pytest.approx(
        gpu_h(shared_log()) / N_HOURS / PER_NODE, rel=1e-3
    )
    figures = with_generated_years(fit, tiny_library()).figures
    (busy,) = [f for f in figures if f.name == "busy nodes, mean"]
    assert busy.fragment == pytest.approx(busy.log, rel=0.01)
    assert busy.generated == pytest.approx(busy.log, rel=0.05)
    assert not any("allocate: gpus" in note for note in fit.notes)
    assert fit.n_jobs + fit.left_out[NO_GPU] == len(shared_log()) > fit.n_jobs


def test_a_fit_for_whole_nodes_tells_what_they_cost_and_the_remedy() -> None:
    fit = fitted(allocates_gpus=False)
    log = shared_log().jobs
    on_gpus = log.n_gpus > 0
    node_h = float(log.n_nodes[on_gpus] @ log.duration_ms[on_gpus]) / 3.6e6
    ratio = PER_NODE * node_h / gpu_h(shared_log())
    assert ratio > 1.5
    (note,) = [note for note in fit.notes if "allocate: gpus" in note]
    assert f"take {ratio:.3g} times the nodes of their GPU time" in note
    assert all(c.n_gpus is None for c in fit.classes)


def test_a_log_without_gpus_gives_whole_nodes_and_says_so() -> None:
    log = shared_log()
    untold = replace(log, jobs=replace(log.jobs, n_gpus=np.full(len(log), np.nan)))
    rules = [ClassRule(workload="tune")]
    fit = fit_job_log(
        untold, rules, tiny_library(), gpus_per_node=PER_NODE, allocates_gpus=True
    )
    assert [(c.n_nodes, c.n_gpus) for c in fit.classes] == [(1, None), (2, None)]
    assert (
        f"{len(log):,} jobs whose GPUs the log does not give: on whole nodes"
        in fit.notes
    )


@pytest.mark.slow
def test_a_scenario_written_for_a_pool_that_allocates_gpus_has_the_gpus_of_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is not looked at here
    monkeypatch.setattr("diploee.fits.jobs.goodness_of_fit.YEAR_D", 14)
    jobs = shared_log().jobs
    columns = jobs.submit_ms, jobs.n_nodes, jobs.n_gpus, jobs.duration_ms / 1000
    lines = [
        f"{np.datetime64(int(t), 'ms')}Z,{n},{g:g},{s:g}"
        for t, n, g, s in zip(*columns, strict=True)
    ]
    log, out = tmp_path / "log.csv", tmp_path / "site.yaml"
    log.write_text(
        "\n".join(["submit_time,nodes,gpus,duration", *lines]) + "\n", "utf-8"
    )
    pool = {"facility.pools.main.allocate": "gpus", "facility.pools.main.n_nodes": 40}
    base = write_scenario(tmp_path / "base.yaml", pool | {"duration": "26 weeks"})
    library = write_library(tmp_path / "profiles")
    given = ("--workload", "tune", "--profiles", library, "--scenario", base)
    ended = call("fit", log, *given, "--out", out)
    assert ended.code == 0, ended.err
    scenario = load_scenario(out)
    drawn = generate_jobs(scenario, tiny_library()).jobs
    generated_h = float((drawn.n_nodes / 100) @ drawn.duration_ms) / 3.6e6
    of_log_h = gpu_h(shared_log()) * 26 * 168 / N_HOURS
    assert generated_h == pytest.approx(of_log_h, rel=0.03)
