"""Nodes of loads in a run, and the power of chassis, racks, rows and halls: sums and
places."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from builders import Keeps, tiny_library, tiny_scenario, write_library
from command_line import call
from serving_builders import CONVERSATION, serving_scenario

import diploee
from diploee import Run
from diploee.api.sites import site_of_run
from diploee.base.errors import InputError, ScenarioError
from diploee.scenario import Scenario
from diploee.schedule import Action, Preempt, Resize, Start, StrictFifo
from diploee.simulation.layout_power import LayoutSpan, part_tables

MAIN, TRAINING = "facility.pools.main", "streams.training"
LAYOUT = {
    "facility.layout": {
        "nodes_per_chassis": 2,
        "chassis_per_rack": 2,
        "racks_per_row": 2,
        "rows_per_hall": 1,
    }
}
DAY = LAYOUT | {"duration": "1 d"}
HOUR = (datetime(2018, 1, 1, 9), datetime(2018, 1, 1, 10))
TWO_POOLS = {
    "facility.node_types.node.ac_power": "air_hgx",
    "facility.node_types.other": {
        "n_gpus": 8,
        "gpu_tdp_w": 700,
        "n_cpus": 2,
        "cpu_tdp_w": 360,
        "idle_power_w": 900,
        "ac_power": "air_hgx",
    },
    "facility.pools.second": {"node_type": "other", "n_nodes": 5},
    f"{TRAINING}2": {
        "pool": "second",
        "target_utilization": 0.5,
        "classes": [{"workload": "tune", "n_nodes": 2, "probability": 1}],
    },
}
WARM = {"facility.node_types.node.warm_power_w": 700, f"{CONVERSATION}.standby": "warm"}
PHASES = [
    {"since": "2018-01-01", "n_nodes": 6},
    {"since": "2018-01-01T09:00", "n_nodes": 11},
]
ON_GPUS = [
    {"workload": "draw", "n_nodes": 1, "n_gpus": 0.35, "probability": 0.5},
    {"workload": "draw", "n_nodes": 1, "n_gpus": 3, "probability": 0.3},
    {"workload": "tune", "n_nodes": 2, "probability": 0.2},
]
LONG = {"lognormal": [{"weight": 1, "median_s": 20_000, "sigma": 0.8}]}


class Restless:
    """Strict FIFO that now and then puts a job back or gives it other nodes."""

    wants_idle = True

    def __init__(self) -> None:
        self.rng, self.woken_ms = np.random.default_rng(3), -(10**12)

    def decide(self, view: Any) -> list[Action]:
        found: list[Action] = []
        if view.now_ms >= self.woken_ms:
            self.woken_ms = view.now_ms + 20 * 60_000
            view.wake_at(self.woken_ms)
            for job in filter(view.works, list(view.running)):
                x = self.rng.random()
                if x < 0.1:
                    found.append(Preempt(job, "checkpoint"))
                elif x < 0.3:
                    n_nodes = self.rng.integers(1, view.job_n_nodes[job] + 1)
                    found.append(Resize(job, int(n_nodes)))
        return [*found, *(Start(job) for job in StrictFifo().select(view))]


def run_of(folder: Path, scenario: Scenario, **how: Any) -> tuple[Run, Keeps]:
    kept = Keeps()
    how = {"profiles": tiny_library(), "engine": "compiled", "nodes_file": True} | how
    return diploee.run(scenario, folder, sinks=[kept], **how), kept


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_of(tmp_path_factory.mktemp("plain") / "run", tiny_scenario(DAY))[0]


SITES: dict[str, Scenario] = {
    "warm-up": tiny_scenario(DAY | {"warm_up": "1 d"}),
    "rack": tiny_scenario(DAY | {"facility.layout.placement": "rack"}),
    "two pools": tiny_scenario(DAY | TWO_POOLS),
    "phases": tiny_scenario(DAY | {f"{MAIN}.phases": PHASES}),
    "gpus": tiny_scenario(
        DAY | {f"{MAIN}.allocate": "gpus", f"{TRAINING}.classes": ON_GPUS}
    ),
    "acted": tiny_scenario(DAY | {f"{TRAINING}.classes.0.duration": LONG}),
    "services": serving_scenario(DAY | WARM),
    "grown services": serving_scenario(DAY | {f"{MAIN}.phases": PHASES}),
}


@pytest.mark.parametrize("name", SITES)
def test_sums_over_all_parts_are_the_power_of_the_pools(
    tmp_path: Path, name: str
) -> None:
    def options() -> dict[str, Any]:
        return {"policies": {"main": Restless()}} if name == "acted" else {}

    engine: Any = "simpy" if name == "acted" else "compiled"
    run, kept = run_of(tmp_path / "run", SITES[name], engine=engine, **options())
    for level in ("node", "rack", "hall"):
        site = site_of_run(run, tiny_library(), **options())
        tables = part_tables(run, site, LayoutSpan(of=level))
        frame = pa.concat_tables(tables).to_pandas()
        for column in ("it_power_w", "busy_nodes"):
            total = frame.filter(like=f"{column}.").sum(axis=1)
            np.testing.assert_allclose(total, kept[column], rtol=1e-9, atol=1e-9)


def test_the_power_of_halls_rows_and_racks_is_that_of_what_they_hold(
    plain: Run,
) -> None:
    of_nodes, of_rows = (
        plain.power(of, profiles=tiny_library()) for of in ("node", "row")
    )
    parts = {"chassis:1": (2, 3), "rack:2": range(8, 12), "row:0": range(8)}
    for part, nodes in parts.items():
        found = plain.power(part, profiles=tiny_library())
        expected = sum(of_nodes[f"it_power_w.node:{n}"] for n in nodes)
        assert np.allclose(found["it_power_w"], expected, rtol=1e-9)
    hall = plain.power("hall:1", profiles=tiny_library())
    assert np.allclose(hall["it_power_w"], of_rows["it_power_w.row:1"], rtol=1e-12)


def test_a_job_is_found_on_its_nodes(plain: Run) -> None:
    nodes = pd.read_parquet(plain.folder / "nodes.parquet")
    jobs = plain.jobs().dropna(subset=["start_time"]).set_index("job_id")
    of_job = nodes.groupby("job_id")
    assert (of_job["n_nodes"].sum() == jobs["n_nodes"].reindex(of_job.groups)).all()
    assert set(of_job.groups) == set(jobs.index)
    for name in ("start_time", "end_time"):
        assert (of_job[name].first() == jobs[name].reindex(of_job.groups)).all()
    at = pd.Timestamp("2018-01-01 12:00", tz="UTC")
    now = nodes[(nodes["start_time"] <= at) & (at < nodes["end_time"])]
    firsts = zip(now.first_node, now.n_nodes, strict=True)
    held = [node for first, n in firsts for node in range(first, first + n)]
    assert len(set(held)) == len(held) == plain.facility()["busy_nodes"][at]
    of_node = plain.power("node", profiles=tiny_library())
    idle = [n for n in range(12) if n not in held]
    assert (of_node.loc[at, [f"busy_nodes.node:{n}" for n in held]] == 1).all()
    assert (of_node.loc[at, [f"busy_nodes.node:{n}" for n in idle]] == 0).all()


def test_nodes_are_the_same_whatever_the_engine_and_the_windows(
    tmp_path: Path, plain: Run
) -> None:
    def rows(run: Run) -> pd.DataFrame:
        found = pd.read_parquet(run.folder / "nodes.parquet")
        return found.sort_values(["job_id", "first_node"]).reset_index(drop=True)

    by_simpy, _ = run_of(
        tmp_path / "simpy", tiny_scenario(DAY), engine="simpy", window_days=0.25
    )
    assert (by_simpy.folder / "nodes.parquet").is_file()
    assert rows(by_simpy).equals(rows(plain))


def test_instances_of_a_service_are_on_its_reserved_nodes_and_standby_draws_there(
    tmp_path: Path,
) -> None:
    scenario = serving_scenario(DAY | WARM)
    run, kept = run_of(tmp_path / "run", scenario)
    nodes = pd.read_parquet(run.folder / "nodes.parquet")
    assert nodes["job_id"].isna().all()
    assert set(nodes["load"]) == {"coding", "conversation"}
    services = run.manifest["services"]
    n_coding = services["chat.coding"]["reserved_nodes"]
    last = nodes["first_node"] + nodes["n_nodes"]
    is_coding = nodes["load"] == "coding"
    assert last[is_coding].max() <= n_coding <= nodes["first_node"][~is_coding].min()
    lasts_d = (nodes["end_time"] - nodes["start_time"]) / pd.Timedelta("1 D")
    busy = (nodes["n_nodes"] * lasts_d).sum() / 12
    assert busy == pytest.approx(kept["utilization"].mean(), rel=1e-6)
    of_node = run.power("node", profiles=tiny_library())
    spare = of_node[of_node["busy_nodes.node:11"] == 0]["it_power_w.node:11"]
    assert spare.size and spare.to_numpy() == pytest.approx(700, rel=0.6)
    assert spare.min() == pytest.approx(700)


def test_part_of_a_run_at_a_tenth_of_a_second_has_the_means_of_the_run(
    plain: Run,
) -> None:
    fine = plain.power("rack:1", "0.1 s", HOUR, profiles=tiny_library())
    coarse = plain.power("rack:1", span=HOUR, profiles=tiny_library())
    assert len(fine) == 36_000 and len(coarse) == 60
    means = fine["it_power_w"].to_numpy().reshape(60, -1).mean(axis=1)
    assert np.allclose(means, coarse["it_power_w"], rtol=1e-9)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_series_writes_what_power_returns(
    tmp_path: Path, plain: Run, suffix: str
) -> None:
    place, library = tmp_path / f"racks.{suffix}", tmp_path / "library"
    write_library(library)
    span = {"from": "2018-01-01T09:00", "to": "2018-01-01T10:00", "step": "5 min"}
    given = {"of": "rack", **span, "profiles": library, "out": place}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    result = call("series", plain.folder, *options)
    assert result.code == 0, result.err
    table = pq.read_table(place) if suffix == "parquet" else pyarrow.csv.read_csv(place)
    found = plain.power("rack", "5 min", HOUR, profiles=tiny_library())
    assert table.column_names == ["timestamp", *found.columns]
    assert np.allclose(
        table["it_power_w.rack:2"], found["it_power_w.rack:2"], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("span", "text"),
    [
        ({"of": f"rack:{'9' * 5000}"}, "^--of: found 'rack:9999.*, expected"),
        ({"of": "rak:1"}, "^--of: found 'rak:1', expected .*did you mean 'rack'"),
        ({"of": "rack:3"}, "no rack:3; the site has rack:0 to rack:2"),
        ({"of": "rack", "step": "0.25 s"}, "--step: must be a multiple of 0.1 s"),
        (
            {"of": "rack", "first": datetime(2018, 1, 2)},
            "--from and --to must lie within",
        ),
    ],
)
def test_what_can_not_be_asked_for_is_refused_in_one_line(
    plain: Run, span: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        list(part_tables(plain, site_of_run(plain, tiny_library()), LayoutSpan(**span)))


def test_without_a_layout_nodes_are_known_and_racks_are_not(tmp_path: Path) -> None:
    run, _ = run_of(tmp_path / "run", tiny_scenario({"duration": "1 d"}))
    assert len(run.power("node:0", profiles=tiny_library())) == 1440
    with pytest.raises(InputError, match=r"the scenario has no facility\.layout"):
        run.power("rack:0", profiles=tiny_library())


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"rows_per_hall": 2}, "rows need racks_per_row"),
        (
            {"chassis_per_rack": 61, "placement": "rack"},
            "racks of up to 60 nodes, found 61",
        ),
    ],
)
def test_a_layout_that_does_not_go_together_is_refused(
    keys: dict[str, Any], text: str
) -> None:
    with pytest.raises(ScenarioError, match=text):
        tiny_scenario({"facility.layout": {"chassis_per_rack": 2} | keys})


RATED = DAY | {
    "facility.layout.rack_rating_kw": 4.0,
    "facility.layout.row_rating_kw": 11.0,
}


@pytest.mark.parametrize(
    "how", [{}, {"window_days": 0.25}], ids=["at once", "in windows"]
)
def test_statistics_of_parts_are_those_of_their_series(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    run, _ = run_of(tmp_path / "run", tiny_scenario(RATED), **how)
    table = pd.read_parquet(run.folder / "parts.parquet").set_index(["level", "part"])
    steady = round(run.metrics["grid"]["transient_h"] * 60)
    assert steady > 0
    for level, rating_w in (("rack", 4_000), ("row", 11_000), ("hall", None)):
        whole = run.power(level, profiles=tiny_library())
        mean_w, frame = whole.filter(like="it_power_w.").mean(), whole[steady:]
        series = frame.filter(like="it_power_w.")
        of_level = table.loc[level]
        assert len(of_level) == series.shape[1] == run.metrics["layout"][level]["count"]
        expected = {"mean_w": mean_w, "min_w": series.min(), "max_w": series.max()}
        for name, values in expected.items():
            assert np.allclose(of_level[name], values, rtol=1e-9)
        p99 = series.quantile(0.99, interpolation="lower")
        assert np.allclose(of_level["p99_w"], p99, atol=series.max().max() / 1000)
        found = run.metrics["layout"][level]
        # Means are of the whole run, as those of the site are; extremes are not.
        total_mw = found["mean_mw"] * found["count"]
        assert total_mw == pytest.approx(mean_w.sum() / 1e6, rel=1e-9)
        together = frame["it_power_w"].max() / series.max().sum()
        assert found["coincidence_factor"] == pytest.approx(together)
        over_mean = series.max().sum() / mean_w.sum()
        assert found["peak_to_average"] == pytest.approx(over_mean)
        if rating_w is None:
            assert found["above_rating_h"] is None
            assert of_level["above_rating_h"].isna().all()
        else:
            hours = (series > rating_w).sum() / 60
            assert hours.sum() > 0
            np.testing.assert_allclose(of_level["above_rating_h"], hours)
            assert found["above_rating"] == (hours > 0).sum()


def test_coincidence_falls_from_the_hall_to_the_rack_and_the_report_folds_it(
    tmp_path: Path,
) -> None:
    run, _ = run_of(tmp_path / "run", tiny_scenario(LAYOUT))
    found = run.metrics["layout"]
    factors = [found[level]["coincidence_factor"] for level in ("rack", "row", "hall")]
    assert factors == sorted(factors) and factors[0] < 1 and factors[-1] <= 1
    section = next(s for s in run.sections() if s.id == "layout")
    items = {figure.item for figure in section.tables[0].figures}
    assert section.folded and items == {"rack", "row", "hall"}


def test_a_run_with_a_layout_differs_in_nothing_else(
    tmp_path: Path, plain: Run
) -> None:
    other, _ = run_of(tmp_path / "run", tiny_scenario({"duration": "1 d"}))
    for name in ("facility.parquet", "jobs.parquet"):
        one, two = (pq.read_table(run.folder / name) for run in (plain, other))
        assert one.equals(two)
    assert {k: v for k, v in plain.metrics.items() if k != "layout"} == other.metrics
