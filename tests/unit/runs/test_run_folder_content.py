"""Contents of a run folder, and reading it back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import TINY, change_metrics, job_table, tiny_library, tiny_scenario

import diploee
from diploee import Run, generate_jobs
from diploee.base.errors import InputError
from diploee.profiles import ProfileLibrary
from diploee.runs.parquet_files import JobsFile
from diploee.schedule import Schedule
from diploee.schedule.schedule import Engine

FILES = {"facility.parquet", "jobs.parquet", "metrics.json", "manifest.json"}
SHORT = {"streams.training.target_utilization": 0.95, "duration": "1 d"}


def run_tiny(
    folder: Path,
    library: ProfileLibrary,
    changes: Mapping[str, Any] | None = None,
    engine: Engine = "compiled",
) -> Run:
    return diploee.run(tiny_scenario(changes), folder, profiles=library, engine=engine)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, library: ProfileLibrary) -> Run:
    return run_tiny(tmp_path_factory.mktemp("runs") / "tiny", library)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, library: ProfileLibrary) -> Run:
    """A run at whose end jobs still wait."""
    return run_tiny(tmp_path_factory.mktemp("runs") / "crowded", library, SHORT)


def test_the_same_seed_gives_the_same_bytes_whatever_the_engine_but_timing_and_its_name(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    engines: tuple[Engine, ...] = ("compiled", "compiled", "simpy", "simpy")
    runs = [
        run_tiny(tmp_path / str(k), library, SHORT, engine)
        for k, engine in enumerate(engines)
    ]
    assert {path.name for path in runs[0].folder.iterdir()} == FILES
    for name in FILES - {"manifest.json"}:
        assert len({(run.folder / name).read_bytes() for run in runs}) == 1, name
    manifests = [dict(run.manifest) for run in runs]
    timings = [manifest.pop("timing") for manifest in manifests]
    assert timings[0].keys() == timings[1].keys()
    assert [manifest["engine"] for manifest in manifests] == list(engines)
    texts = [json.dumps(manifest) for manifest in manifests]
    assert texts[0] == texts[1] and texts[2] == texts[3], "the order of keys too"


def test_another_seed_gives_another_run(
    tmp_path: Path, library: ProfileLibrary, run: Run
) -> None:
    other = run_tiny(tmp_path / "other", library, {"seed": 1})
    jobs = {(of.folder / "jobs.parquet").read_bytes() for of in (run, other)}
    assert len(jobs) == 2


def test_facility_file_has_its_columns_and_says_its_convention(run: Run) -> None:
    schema = pq.read_schema(run.folder / "facility.parquet")
    names = "timestamp it_power_w facility_power_w busy_nodes utilization queued_jobs"
    assert schema.names == names.split()
    head = json.loads(schema.metadata[b"diploee.facility"])
    assert head["convention"] == "timestamp is the start of the interval"
    assert head["resolution_s"] == 60
    assert set(head["units"]) == set(schema.names) - {"timestamp"}
    assert "device power" in head["units"]["it_power_w"]
    assert head["scenario_sha256"] == tiny_scenario().sha256()


def test_open_run_gives_the_power_series_as_a_frame(run: Run) -> None:
    facility = diploee.open_run(run.folder).facility()
    assert len(facility) == 2 * 24 * 60
    assert facility.index[0] == pd.Timestamp("2018-01-01T00:00:00Z")
    assert facility.index[-1] == pd.Timestamp("2018-01-02T23:59:00Z")
    assert (facility["it_power_w"] == facility["facility_power_w"]).all()
    assert facility["utilization"].between(0, 1).all()
    assert facility["busy_nodes"].iloc[0] == 0
    assert list(run.facility(["it_power_w"]).columns) == ["it_power_w"]


def test_metrics_are_those_of_the_stored_series(run: Run) -> None:
    facility, metrics = run.facility(), diploee.open_run(run.folder).metrics
    power_mw = facility["it_power_w"].to_numpy(dtype=float) / 1e6
    found = [metrics["power"][f"{name}_mw"] for name in ("mean", "std", "p90", "max")]
    p90_mw = np.percentile(power_mw, 90)
    expected = [power_mw.mean(), power_mw.std(), p90_mw, power_mw.max()]
    assert found == pytest.approx(expected, rel=1e-6)
    utilization = facility["utilization"].mean()
    assert metrics["utilization"]["mean"] == pytest.approx(utilization, rel=1e-6)
    assert "requests" not in metrics
    assert "pools" not in metrics


def test_results_that_the_run_did_not_write_are_refused_in_one_line(
    run: Run, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(run.folder, tmp_path / "copied"))
    place = folder / "metrics.json"
    text = place.read_text("utf-8").replace('"mean_mw": 0', '"mean_mw": 1', 1)
    place.write_text(text, "utf-8")
    problem = r"metrics\.json: is not what the run wrote; .* again$"
    with pytest.raises(InputError, match=problem):
        _ = diploee.open_run(folder).metrics


def test_a_missing_key_is_named_in_one_line_where_it_is_read(
    run: Run, tmp_path: Path
) -> None:
    for name in ("manifest.json", "metrics.json"):
        (tmp_path / name).write_bytes((run.folder / name).read_bytes())

    def of_an_older_run(metrics: dict[str, Any]) -> None:
        del metrics["grid"]["ramps"]["intervals"][1]["up"]["max_mw"]
        del metrics["power"]["std_mw"]

    change_metrics(tmp_path, of_an_older_run)
    found = diploee.open_run(tmp_path).metrics
    assert "std_mw" not in found["power"], "what nobody reads may be missing"
    up = found["grid"]["ramps"]["intervals"][1]["up"]
    assert up.get("max_mw") is None
    problem = r"intervals\.1\.up\.max_mw: this key is missing"
    for entry in (up, up | {"way": "up"}, {"way": "up"} | up):
        with pytest.raises(InputError, match=problem):
            entry["max_mw"]


def test_jobs_come_back_as_a_frame_in_the_order_of_submission(run: Run) -> None:
    jobs = diploee.open_run(run.folder).jobs()
    names = "job_id class n_nodes submit_time start_time end_time"
    names += " queue_time_s profile_id energy_j"
    assert list(jobs.columns) == names.split()
    assert len(jobs) == run.metrics["jobs"]["submitted"]
    assert jobs["submit_time"].is_monotonic_increasing
    waited_s = (jobs["start_time"] - jobs["submit_time"]).dt.total_seconds()
    assert np.allclose(waited_s, jobs["queue_time_s"], equal_nan=True)
    assert set(jobs["class"]) == {"tune/2", "tune/4", "draw/1"}
    assert set(jobs["profile_id"]) == set(tiny_library().ids)


TWO_POOLS = {
    "facility.pools.side": {"node_type": "node", "n_nodes": 6},
    "streams.tests": {**TINY["streams"]["training"], "pool": "side"},
}


def test_pools_and_streams_have_columns_and_metrics_of_their_own(
    tmp_path: Path, library: ProfileLibrary, run: Run
) -> None:
    of_two = run_tiny(tmp_path / "both", library, TWO_POOLS)
    both, facility, pools = of_two.jobs(), of_two.facility(), of_two.metrics["pools"]
    assert list(both.columns) == [*run.jobs().columns, "pool", "stream"]
    found = both.groupby(["pool", "stream"], observed=True).size()
    assert set(found.index) == {("main", "training"), ("side", "tests")}
    # A stream draws by its own name, whatever others there are: its jobs are those of
    # its own run.
    alone, main = run.jobs(), both[both["pool"] == "main"]
    for column in ("submit_time", "start_time", "class", "profile_id", "energy_j"):
        assert main[column].tolist() == alone[column].tolist(), column
    for column in ("it_power_w", "busy_nodes"):
        parts = facility[f"{column}.main"].astype(float) + facility[f"{column}.side"]
        assert np.allclose(parts, facility[column], rtol=1e-6)
    assert set(pools) == {"main", "side"}
    assert pools["side"]["utilization"]["mean"] == pytest.approx(0.6, abs=0.05)
    submitted = [pools[name]["jobs"]["submitted"] for name in ("main", "side")]
    assert submitted == found.tolist()


def test_pool_without_jobs_is_a_column_of_jobs_and_a_lone_stream_is_none(
    tmp_path: Path, library: ProfileLibrary, run: Run
) -> None:
    changes = {"facility.pools.side": {"node_type": "node", "n_nodes": 6}}
    jobs = run_tiny(tmp_path / "several", library, changes).jobs()
    assert list(jobs.columns) == [*run.jobs().columns, "pool"]
    assert set(jobs["pool"]) == {"main"}


def test_profiles_beyond_the_range_of_int16_keep_their_names(tmp_path: Path) -> None:
    ids = [f"p-{k}" for k in range(40_000)]
    jobs = job_table([0, 1], [1, 1], [5, 5], profile_id=[39_999, 3])
    schedule = Schedule(jobs, np.array([0, 1]), horizon_ms=10)
    classes = generate_jobs(tiny_scenario(), tiny_library()).classes
    file = JobsFile(tmp_path / "jobs.parquet", tiny_scenario(), classes, ids)
    file.add(jobs, schedule, np.zeros(2))
    file.close()
    stored = pq.read_table(tmp_path / "jobs.parquet")
    assert stored["profile_id"].to_pylist() == ["p-39999", "p-3"]
    kind = stored.schema.field("profile_id").type
    assert kind == pa.dictionary(pa.int32(), pa.string())


def test_a_job_that_never_started_has_nulls_and_no_energy(crowded: Run) -> None:
    jobs = crowded.jobs()
    unstarted = jobs["start_time"].isna()
    assert 0 < unstarted.sum() == crowded.metrics["jobs"]["unstarted"]
    assert jobs.loc[unstarted, ["end_time", "queue_time_s"]].isna().all(axis=None)
    assert (jobs.loc[unstarted, "energy_j"] == 0).all()
    assert jobs.loc[~unstarted, ["end_time", "queue_time_s"]].notna().all(axis=None)
    assert (jobs.loc[~unstarted, "energy_j"] > 0).all()


def test_a_pool_that_misses_its_target_is_a_warning_with_the_shortfall(
    crowded: Run,
) -> None:
    (warning,) = crowded.manifest["warnings"]
    unstarted = crowded.metrics["jobs"]["unstarted"]
    assert warning.startswith("pool 'main': simulated utilization 0.")
    assert f"{unstarted} jobs never started" in warning


def test_a_job_that_the_horizon_cuts_keeps_its_planned_end(crowded: Run) -> None:
    jobs = crowded.jobs()
    horizon = pd.Timestamp("2018-01-02T00:00:00Z")
    assert (jobs["end_time"] > horizon).any()
    assert (jobs["start_time"].dropna() < horizon).all()


def test_a_linearly_scaled_class_is_flagged_with_its_ratio(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    scaled_class = {"workload": "tune", "n_nodes": 10, "probability": 0.25}
    scaled_class["scale_from_n_nodes"] = 4
    changes = {"streams.training.classes.1": scaled_class}
    run = run_tiny(tmp_path / "scaled", library, changes)
    (told,) = (c for c in run.manifest["classes"] if "extrapolation_ratio" in c)
    assert (told["class"], told["extrapolation_ratio"]) == ("tune/10", 2.5)
    assert "upper bound" in told["extrapolation"]
    (warning,) = (text for text in run.manifest["warnings"] if "tune/10" in text)
    assert "scaled linearly by 2.5 from profiles of 4 nodes" in warning
    # The job's energy is that of its profile times the ratio.
    jobs = run.jobs()
    is_whole = jobs["end_time"] < "2018-01-03T00:00:00Z"
    of_class = jobs[(jobs["class"] == "tune/10") & is_whole]
    energy_j = library.get("tune-4n-1").energy_j
    assert len(of_class) > 0
    assert of_class["energy_j"].to_numpy() == pytest.approx(2.5 * energy_j)


def test_the_manifest_says_where_every_number_comes_from(
    run: Run, library: ProfileLibrary
) -> None:
    manifest = run.manifest
    assert manifest["seed"] == 0
    assert manifest["scenario_sha256"] == tiny_scenario().sha256()
    assert set(manifest["profiles"]) == set(library.ids)
    for profile_id, entry in manifest["profiles"].items():
        assert entry["sha256"] == library.get(profile_id).sha256
        assert entry["provenance"]["source"] == "made up for tests"
    assert set(manifest["versions"]) >= {"python", "numpy", "simpy", "pyarrow"}
    (match,) = manifest["workload"]
    assert match["residual"] == pytest.approx(match["matched_utilization"] - 0.6)
    assert manifest["warnings"] == []
    for stage in manifest["timing"].values():
        assert stage["wall_s"] >= 0
        assert stage["peak_memory_mb"] >= 0
    assert run.scenario.sha256() == tiny_scenario().sha256()


def test_time_stamps_carry_the_facilitys_utc_offset(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    run = run_tiny(tmp_path / "offset", library, {"facility.utc_offset": "+05:30"})
    assert run.facility().index[0].isoformat() == "2018-01-01T00:00:00+05:30"
    assert run.jobs()["submit_time"].iloc[0].isoformat().endswith("+05:30")


def test_time_stamps_are_exact_to_the_millisecond(
    tmp_path: Path, library: ProfileLibrary
) -> None:
    start = "2038-03-01T00:00:00.999"
    run = run_tiny(tmp_path / "ms", library, {"start": start, "duration": "1 h"})
    assert run.facility().index[0] == pd.Timestamp(f"{start}Z")
