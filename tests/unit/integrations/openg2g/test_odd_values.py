"""Damages anywhere in benchmark files: a fit of finite numbers, or one line with the
file."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmark_builders import (
    leaderboard_data,
    results_data,
    results_path,
    tiny_spec,
    write_json,
    write_openg2g,
)
from damages import json_damages

from diploee.base.errors import InputError
from diploee.integrations.openg2g import (
    InferenceData,
    LogisticModelStore,
    specs_of,
)
from diploee.integrations.openg2g.sources import LeaderboardSource, ResultsSource

SPECS = [tiny_spec(batch_sizes=(8, 64))]


def leaderboard(folder: Path) -> Callable[[], LogisticModelStore]:
    data = leaderboard_data()
    sizes = SPECS[0].batch_sizes
    data["configurations"] = [
        c for c in data["configurations"] if c["max_num_seqs"] in sizes
    ]
    source = LeaderboardSource(write_json(folder / "board.json", data))
    return partial(LogisticModelStore.generate, SPECS, source)


def results(folder: Path) -> Callable[[], LogisticModelStore]:
    for size in SPECS[0].batch_sizes:
        data = results_data(size, duration_s=3.0)
        data["results"] = data["results"][:1]
        write_json(results_path(folder, size), data)
    return partial(LogisticModelStore.generate, SPECS, ResultsSource(folder))


def openg2g(folder: Path) -> Callable[[], LogisticModelStore]:
    place = write_openg2g(folder / "abc", *SPECS)

    def load() -> LogisticModelStore:
        assert specs_of(folder)
        InferenceData.load(place, SPECS)
        return LogisticModelStore.load(place, SPECS)

    return load


def numbers_of(store: LogisticModelStore) -> list[Any]:
    fits = [model.fits for model in store.models.values()]
    curves = [c for fit in fits for c in (fit.power, fit.itl, fit.throughput)]
    return [v for curve in curves for v in vars(curve).values() if v is not None]


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("build", [leaderboard, results, openg2g])
def test_damaged_file_gives_finite_fits_or_one_line_with_the_file(
    tmp_path, build, every
):
    fitted, n_refused = build(tmp_path), 0
    for path in sorted(tmp_path.rglob("*.json")):
        content = path.read_bytes()
        for name, damage in list(json_damages(content))[::every]:
            path.write_bytes(damage(content))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    numbers = numbers_of(fitted())
            except InputError as error:
                (problem,) = error.problems
                assert len(problem) < 500, name
                assert problem.isprintable(), name
                n_refused += 1
            else:
                assert all(map(math.isfinite, numbers)), (name, numbers)
        path.write_bytes(content)
    assert n_refused
