"""A load of the user's own is opened beside the shipped ones, or refused in one line."""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library, tiny_run, tiny_scenario

from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.base.errors import InputError
from diploee.loads.services.instance_groups import InstanceGroup, InstanceGroupLoad
from diploee.profiles.flat import flat_profile
from diploee.schedule import StrictFifo

RACKS = Column("racks", "1", "facility", "mean", None, "racks that take a backup")
N_RACKS, RACK_W = 3, 700.0


class Racks(InstanceGroupLoad):
    """Racks in the pool's nodes that draw the same all the time."""

    stream, pool = "racks", "main"
    columns = (RACKS,)

    def __init__(self, scenario: Any, inputs: Any, library: Any) -> None:
        edges_ms = np.arange(0, scenario.horizon_ms + 1, 3_600_000)
        none = np.zeros(edges_ms.size - 1, dtype=np.int64)
        profile_id = (none + len(library)).astype(np.int32)
        weight = none + N_RACKS * RACK_W / 1000
        bank = InstanceGroup(
            0, edges_ms, none + N_RACKS, weight, profile_id, none, self
        )
        super().__init__([bank], library.extended([flat_profile("rack-1kw")]))
        self.change()

    def change(self) -> None:
        """Make a mistake, in a subclass."""

    def with_bank(self, **values: Any) -> None:
        self.groups = [replace(self.groups[0], **values)]

    def mean_replicas(self, begin_ms: int, end_ms: int) -> float:
        return float(N_RACKS)

    def values(self, block: Any) -> Any:
        return {"racks": np.full(len(block), N_RACKS)}


def run(tmp_path: Path, *loads: Any) -> Any:
    few_jobs = {"duration": "6 h", "streams.training.target_utilization": 0.02}
    return tiny_run(tmp_path / f"run-{len(loads)}", few_jobs, loads=list(loads))


def test_own_load_adds_its_power_less_that_of_idle_nodes(tmp_path: Path) -> None:
    with_it, without = run(tmp_path, Racks).facility(), run(tmp_path).facility()
    added_w = with_it["it_power_w"] - without["it_power_w"]
    idle_w = tiny_scenario().facility.node_type_of("main").idle_power_w
    np.testing.assert_allclose(added_w, N_RACKS * (RACK_W - idle_w), atol=0.01)
    assert (with_it["racks"] == N_RACKS).all()


def later(load: Racks, ms: int) -> Callable[..., Any]:
    def between(begin_ms: int, end_ms: int) -> Any:
        rows = InstanceGroupLoad.between(load, begin_ms, end_ms)
        return replace(rows, start_ms=rows.start_ms + ms, end_ms=rows.end_ms + ms)

    return between


def sets(name: str, value: Any) -> Callable[[Any], object]:
    return lambda load: setattr(load, name, value)


def banked(name: str, change: Callable[[Any], Any]) -> Callable[[Any], object]:
    """Change a part of the bank."""
    return lambda load: load.with_bank(**{name: change(getattr(load.groups[0], name))})


EXTENDED = "library must be library.extended([...]) of the one that it is opened"
MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (banked("pool_id", lambda _: 7), "segments from 0 ms with pool_id 7, expected a"),
    (
        banked("profile_id", lambda profile_id: profile_id + 9),
        "segments from 0 ms with profile_id 13, expected one of the loads' profile_ids",
    ),
    (sets("profile_ids", {99}), EXTENDED),
    (sets("library", tiny_library()), EXTENDED),
    (sets("library", None), "library must be a ProfileLibrary, found null"),
    (
        banked("n_nodes", lambda n: n + 10),
        "with it 15 nodes of pool 'main' are busy at 2018-01-01 05:16, of 12",
    ),
    (
        banked("weight", lambda _: 2.0),
        "weight has shape () of float64, expected (6,) of numbers",
    ),
    (
        banked("weight", lambda w: w * np.nan),
        "segments from 0 ms with weight nan, expected finite numbers",
    ),
    (
        lambda load: setattr(load, "between", later(load, -1)),
        "segments from 0 ms with start_ms -1, expected none before its window",
    ),
    (
        lambda load: delattr(load, "profile_ids"),
        "opening it raised AttributeError: 'Racks' object has no attribute 'profile_id",
    ),
    (sets("columns", RACKS), "columns must be a tuple of Column"),
    (
        sets("columns", (replace(RACKS, name="it_power_w"),)),
        "column 'it_power_w' is declared twice",
    ),
    (sets("values", lambda _: {}), "lacks column 'racks', which it declares"),
    (sets("values", lambda b: b.hours), "values raised AttributeError: 'Block' object"),
    (sets("metrics", lambda _: 3), "metrics raised TypeError"),
    (
        sets("metrics", lambda _: {"power": 3}),
        "metrics gives 'power', a block of the run",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "words"), MISTAKES, ids=[words for _, words in MISTAKES]
)
def test_mistake_in_own_load_gives_one_line_that_names_it(
    tmp_path: Path, mistake: Callable[[Any], object], words: str
) -> None:
    wrong = type("Racks", (Racks,), {"change": mistake})
    with pytest.raises(
        InputError, match=rf"^(load Racks|InstanceGroup):? {re.escape(words)}"
    ):
        run(tmp_path, wrong)


@pytest.mark.parametrize(
    ("loads", "words"),
    [
        ((Racks, Racks), "load Racks is given twice; take one out"),
        ((3,), "loads: found an object of int, expected the class of a load"),
        ((lambda scenario: None,), "load <lambda>: opening it raised TypeError"),
    ],
)
def test_loads_that_can_not_be_opened_are_refused(
    tmp_path: Path, loads: tuple[Any, ...], words: str
) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        run(tmp_path, *loads)


FULL = {"duration": "6 h", "streams.training.target_utilization": 0.98}


def test_own_load_that_takes_nodes_of_jobs_is_refused_with_when_and_how_many(
    tmp_path: Path,
) -> None:
    alone = tiny_run(tmp_path / "alone", FULL)
    busy = alone.facility()["utilization"] * 12
    assert busy.max() > 12 - N_RACKS
    n_nodes = f"with it {busy.max() + N_RACKS:,.6g} nodes of pool 'main'"
    words = f"load Racks: {n_nodes} are busy at {busy.idxmax():%Y-%m-%d %H:%M}, of 12;"
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        tiny_run(tmp_path / "run", FULL, loads=[Racks])
    assert not (tmp_path / "run").exists()


def test_own_load_in_a_pool_of_its_own_leaves_jobs_as_they_are(tmp_path: Path) -> None:
    main = tiny_scenario().model_dump(mode="json")["facility"]["pools"]["main"]
    changes = FULL | {"facility.pools.racks": main | {"n_nodes": N_RACKS}}
    in_second = type("Racks", (Racks,), {"change": banked("pool_id", lambda _: 1)})
    own = tiny_run(tmp_path / "own", changes, loads=[in_second])
    alone = tiny_run(tmp_path / "alone", changes)
    assert own.facility()["utilization"].max() <= 1
    added_w = own.facility()["it_power_w"] - alone.facility()["it_power_w"]
    idle_w = own.scenario.facility.node_type_of("main").idle_power_w
    np.testing.assert_allclose(added_w, N_RACKS * (RACK_W - idle_w), atol=0.01)
    assert own.jobs()["start_time"].equals(alone.jobs()["start_time"])


def test_bank_takes_lists_as_it_takes_arrays(tmp_path: Path) -> None:
    as_list = banked("weight", lambda weight: weight.tolist())
    of_lists = type("Racks", (Racks,), {"change": as_list})
    found, expected = (
        run(tmp_path / str(k), load) for k, load in enumerate((of_lists, Racks))
    )
    assert found.facility().equals(expected.facility())


class Adds:
    def add(self, block: Any) -> None:
        raise ValueError("no room")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loads": Racks}, "loads: expected a list, found"),
        (
            {"policies": [StrictFifo()]},
            "policies: expected a policy by name of its pool, found a",
        ),
        (
            {"sinks": [object()]},
            r"sinks: expected objects with a method add\(block\), found",
        ),
        ({"sinks": [Adds()]}, "sinks: a sink: add raised ValueError: no room"),
        (
            {"limits": [3]},
            "limits: must be limits, their file or the name of a preset, their content",
        ),
        (
            {"window_days": float("nan")},
            "window_days: expected a number from 0 on, or None",
        ),
        ({"engine": "fast"}, "engine: must be 'simpy' or 'compiled', found 'fast'"),
    ],
)
def test_object_that_a_run_can_not_use_is_refused_in_one_line(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=f"^{words}"):
        simulate(tiny_scenario(), tmp_path / "r", profiles=tiny_library(), **given)
    assert not (tmp_path / "r").exists()
