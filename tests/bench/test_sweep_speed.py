"""Two workers against one over the paper's colocation year: four levels, eight seeds."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from diploee.sweep import Sweep, SweepResult, load_sweep, run_locally, run_sweep, usable_cores

pytestmark = pytest.mark.bench

LEAST_SPEED_UP = 1.1
"""Of two workers over one: 2, less the start of the processes and the shared memory bandwidth.

The aim is 1.7; on two quiet cores that share their memory 1.45-1.8 was measured, beside others on
the same machine 1.16-1.21. In time of cores, which others disturb less, beside a load of 6: a
worker starts in 1.8 s (imports, compiled code); four years take 12.8 s with one and 16.3 s with
two, whose runs cost 15 % more each than alone. By that two would be 1.6 times one for four years
and 1.7 for 32. The floor tells runs that wait for each other, which take as long as one after the
other, from runs at once.
"""

N_RUNS = 4 * 8
ATTEMPTS = 3
"""Other processes of the machine may disturb one; the best counts."""


def paper_sweep() -> Sweep:
    sweep = load_sweep("colocation_utilization")
    spec = sweep.spec.model_copy(update={"seeds": 8, "keep": "metrics"})
    return Sweep(sweep.name, spec, sweep.base, sweep.source)


def timed(sweep: Sweep, out: Path, n_workers: int) -> tuple[SweepResult, float]:
    started = time.perf_counter()
    result = run_sweep(sweep, out, executor=partial(run_locally, n_workers=n_workers))
    return result, time.perf_counter() - started


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
def test_two_workers_do_the_paper_sweep_in_little_more_than_half_the_time(tmp_path: Path) -> None:
    sweep = paper_sweep()
    speed_ups = []
    for attempt in range(ATTEMPTS):
        two, of_two = timed(sweep, tmp_path / f"two-{attempt}", 2)
        one, of_one = timed(sweep, tmp_path / f"one-{attempt}", 1)
        assert one.n_computed == two.n_computed == N_RUNS
        assert one.summary.equals(two.summary)
        speed_ups.append(of_one / of_two)
        if speed_ups[-1] >= LEAST_SPEED_UP:
            return
    assert max(speed_ups) >= LEAST_SPEED_UP, speed_ups
