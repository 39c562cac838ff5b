"""Odd values anywhere in benchmark files: a fit of finite numbers, or one line with the
file."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
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
)

from diploee.base.errors import InputError
from diploee.integrations.openg2g import (
    InferenceData,
    InferenceModelSpec,
    LogisticModelStore,
    specs_of,
)
from diploee.integrations.openg2g.sources import (
    LeaderboardSource,
    ResultsSource,
)

SIZES = (8, 64)
HUGE = {
    "400 digits": "9" * 400,
    "5,000 digits": "9" * 5_000,
    "deep": "[" * 999 + "]" * 999,
}
ODD = {
    **{
        text: text
        for text in ("null", "true", '"x"', '""', "[]", "[[1]]", "{}", '{"a": 1}')
    },
    **{
        text: text
        for text in ("NaN", "Infinity", "-1", "0", "1.5", "1e308", "1e999", "1e-320")
    },
    "surrogate": '"\\ud800"',
    "control": '"\\u001b]0;x\\u0007"',
    **HUGE,
}


def places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value, of a list those of its first item alone."""
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data))[:1]
    for key, value in items:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


def changed(data: Any, place: tuple[Any, ...], text: str) -> str:
    """Return data as JSON with a text in place of one value."""
    data = deepcopy(data)
    here = data
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = "@@"
    return json.dumps(data).replace('"@@"', text)


def leaderboard(folder: Path) -> tuple[Any, dict[Path, Any]]:
    path = folder / "board.json"
    data = leaderboard_data()
    data["configurations"] = [
        c for c in data["configurations"] if c["max_num_seqs"] in SIZES
    ]
    return partial(LogisticModelStore.generate, source=LeaderboardSource(path)), {
        path: data
    }


def results(folder: Path) -> tuple[Any, dict[Path, Any]]:
    files = {}
    for size in SIZES:
        data = results_data(size, duration_s=3.0)
        data["results"] = data["results"][:1]
        files[results_path(folder, size)] = data
    source = ResultsSource(folder)
    return partial(LogisticModelStore.generate, source=source), files


def openg2g(folder: Path) -> tuple[Any, dict[Path, Any]]:
    from benchmark_builders import write_openg2g

    place = write_openg2g(folder / "abc", tiny_spec(batch_sizes=SIZES))

    def load(specs: Sequence[InferenceModelSpec]) -> LogisticModelStore:
        assert specs_of(folder)
        InferenceData.load(place, specs)
        return LogisticModelStore.load(place, specs)

    return load, {p: json.loads(p.read_text()) for p in place.glob("*.json")}


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "build", [leaderboard, results, openg2g], ids=lambda b: b.__name__
)
@pytest.mark.parametrize("odd", ODD)
def test_odd_value_gives_finite_fits_or_one_line_with_the_file(
    tmp_path, build, odd, every
):
    """Each odd value in every n-th place, the next one in the places beside those."""
    first = list(ODD).index(odd) % every
    fitted, files = build(tmp_path)
    for path, data in files.items():
        write_json(path, data)
    n_refused = 0
    for path, data in files.items():
        for place in list(places(data))[first::every]:
            path.write_text(changed(data, place, ODD[odd]), "utf-8")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    store = fitted([tiny_spec(batch_sizes=SIZES)])
            except InputError as error:
                (problem,) = error.problems
                assert len(problem) < 500, place
                assert problem.isprintable(), place
                n_refused += 1
            else:
                numbers = [
                    value
                    for model in store.models.values()
                    for curve in (
                        model.fits.power,
                        model.fits.itl,
                        model.fits.throughput,
                    )
                    for value in vars(curve).values()
                    if value is not None
                ]
                assert all(math.isfinite(number) for number in numbers), (
                    place,
                    numbers,
                )
        write_json(path, data)
    assert n_refused
