"""Whatever became of a file of our own, a command reads it or says in one line what is wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark_builders import (
    leaderboard_data,
    tiny_spec,
    write_json,
    write_openg2g,
    write_results,
)
from builders import write_library, write_scenario
from command_line import call
from damages import (
    Damage,
    answer,
    csv_damages,
    json_damages,
    parquet_damages,
    put_pipe,
    random_damage,
)

from diploee.errors import InputError
from diploee.outputs import open_run
from diploee.outputs.parquet_files import METADATA_KEY as FACILITY_KEY
from diploee.profiles.store import METADATA_KEY as PROFILE_KEY
from diploee.profiles.store import StoredProfile

SAMPLE = 3
"""Listed damages of a file that are always tried, evenly spread; the others in the slow test."""

LIMITS = {
    "name": "of a contract",
    "ramps": [{"interval": "10 s", "up_mw_per_s": 1, "down_mw_per_min": 1}],
    "swings": [{"window": "1 min", "max_mw": 1}],
    "band_rms": [{"low_hz": 0.01, "high_hz": 0.1, "max_rms_mw": 1}],
    "peaks": [{"max_mw": 10, "interval": "15 min"}],
    "daily_energy_mwh": 100,
}
N_FUZZED = 2_000


@dataclass(frozen=True)
class Reader:
    """A file that commands read: where it stands, what it is, and the commands."""

    file: str
    metadata_key: bytes
    commands: Callable[[Path], list[tuple[object, ...]]]

    def path(self, place: Path) -> Path:
        return min(place.glob(self.file))

    def damages(self, place: Path) -> list[Damage]:
        content = self.path(place).read_bytes()
        if self.file.endswith(".parquet"):
            return list(parquet_damages(content, self.metadata_key))
        if self.file.endswith(".csv"):
            return list(csv_damages(content))
        return list(json_damages(content))


def profile_commands(place: Path) -> list[tuple[object, ...]]:
    library = place / "library"
    run = ("run", place / "tiny.yaml", "--profiles", library, "--out", place / "new", "-q")
    return [("profiles", "list", "--profiles", library), run]


def run_commands(place: Path) -> list[tuple[object, ...]]:
    run, new = place / "run", place / "new"
    return [
        ("report", run, "--out", new / "page.html", "-q"),
        ("export", "csv", run, "--out", new / "power.csv", "-q"),
        ("limits", place / "limits.yaml", run),
    ]


def event_window_commands(place: Path) -> list[tuple[object, ...]]:
    out = ("--out", place / "new" / "power.csv", "-q")
    return [run_commands(place)[0], ("export", "csv", place / "run", "--zoom", "peak", *out)]


def report_command(place: Path) -> list[tuple[object, ...]]:
    return run_commands(place)[:1]


def sweep_command(place: Path) -> list[tuple[object, ...]]:
    options = ("--profiles", place / "library", "--out", place / "sweep", "--workers", 0, "-q")
    return [("ensemble", place / "seeds.yaml", *options)]


def sweep_report(place: Path) -> list[tuple[object, ...]]:
    page = ("--out", place / "new" / "page.html", "-q")
    return [("report", place / "sweep", *page), *sweep_command(place)]


def limits_command(place: Path) -> list[tuple[object, ...]]:
    return [("limits", place / "limits.yaml", place / "run")]


def fit_models(
    place: Path, source: str = "leaderboard", cache: str = "new/cache"
) -> list[tuple[object, ...]]:
    options = ("--source", source, "--from", place / source, "--data-dir", place / cache)
    return [("benchmark", "fit", place / "specs.yaml", *options)]


def sidecar_command(place: Path) -> list[tuple[object, ...]]:
    return [("export", "pypsa", place / "run", "--out", place / "network", "--force", "-q")]


def plain_command(place: Path) -> list[tuple[object, ...]]:
    told = ("--workload", "x", "--nodes", 1, "--out", place / "new")
    return [("profiles", "import", "plain", place / "power.parquet", *told)]


def observed_command(place: Path) -> list[tuple[object, ...]]:
    options = ("--scenario", place / "tiny.yaml", "--profiles", place / "library")
    return [("deconvolve", place / "load.parquet", *options, "--observed", "power", "--json")]


def published_command(place: Path) -> list[tuple[object, ...]]:
    options = ("--against", place / "library", "--out", place / "new", "-q")
    return [("profiles", "import", "nlr-genai", place / "published", *options)]


READERS = {
    "limits": Reader("limits.yaml", b"", limits_command),
    "profile": Reader("library/tune-2n-1.parquet", PROFILE_KEY, profile_commands),
    "manifest": Reader("run/manifest.json", b"", run_commands),
    "metrics": Reader("run/metrics.json", b"", event_window_commands),
    "facility": Reader("run/facility.parquet", FACILITY_KEY, run_commands),
    "jobs": Reader("run/jobs.parquet", b"", report_command),
    "zoom": Reader("run/zooms/peak.parquet", FACILITY_KEY, event_window_commands),
    "sweep": Reader("sweep/sweep.json", b"", sweep_report),
    "summary": Reader("sweep/summary.parquet", b"", sweep_report),
    "record": Reader("sweep/runs/*/record.json", b"", sweep_command),
    "shape": Reader("sweep/runs/*/load_shape.parquet", b"", sweep_command),
    "run_metrics": Reader("sweep/runs/*/metrics.json", b"", sweep_command),
    "sidecar": Reader("network/diploee_export.json", b"", sidecar_command),
    "cached": Reader("cache/*/*/logistic_fit.json", b"", partial(fit_models, cache="cache")),
    "stamp": Reader("cache/*/*/_manifest.json", b"", partial(fit_models, cache="cache")),
    "leaderboard": Reader("leaderboard", b"", fit_models),
    "results": Reader("results/**/results.json", b"", partial(fit_models, source="results")),
    **{
        f"openg2g {file}": Reader(f"openg2g/{file}", b"", partial(fit_models, source="openg2g"))
        for file in ("_manifest.json", "itl_fit.json", "logistic_fit.json", "trace.csv")
    },
    "plain": Reader("power.parquet", b"", plain_command),
    "observed": Reader("load.parquet", b"", observed_command),
    "published": Reader("published/**/*.parquet", b"", published_command),
    "metadata": Reader("published/**/metadata.csv", b"", published_command),
}


@pytest.fixture(scope="session")
def good_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library, its scenario, a run and a sweep of it; do not change it."""
    place = tmp_path_factory.mktemp("good")
    write_library(place / "library")
    write_scenario(place / "tiny.yaml", {"duration": "20 min", "resolution": "1 s"})
    (place / "limits.yaml").write_text(json.dumps(LIMITS), "utf-8")
    (place / "seeds.yaml").write_text("base: tiny.yaml\nseeds: 2\nkeep: series\n", "utf-8")
    profiles = ("--profiles", place / "library")
    made = call("run", place / "tiny.yaml", *profiles, "--out", place / "run", "--zooms", "-q")
    assert made.code == 0, made.err
    write_json(place / "leaderboard", leaderboard_data())
    write_json(place / "specs.yaml", {"models": [tiny_spec().model_dump(mode="json")]})
    write_results(place / "results")
    write_openg2g(place / "openg2g")
    write_tables(place)
    for command in (
        *sweep_command(place),
        *sidecar_command(place),
        *fit_models(place, cache="cache"),
    ):
        ended = call(*command)
        assert ended.code == 0, ended.err
    return place


def write_tables(place: Path) -> None:
    """Write tables of power as columns of Parquet: a job's, a facility's, a published run's."""
    power_w = np.random.default_rng(5).uniform(900, 4_000, 24 * 28)
    hours = np.arange(power_w.size)
    folder = place / "published" / "01_aggregated_datasets" / "training_tune"
    (folder / "results").mkdir(parents=True)
    run = folder / "results" / "000000.parquet"
    (folder / "metadata.csv").write_text(
        f"model,nodes,repeat,path_save,slurmid\ntune,2,1,/x/{run.name},111\n", "utf-8"
    )
    stamps = np.datetime64("2024-01-01T00", "ms") + hours * np.timedelta64(1, "h")
    tables = {
        place / "power.parquet": {"t_s": hours, "power_w": power_w},
        place / "load.parquet": {"timestamp": stamps, "power_kw": power_w / 300},
        run: {"timestep[s]": hours * 0.2, "power[W]": power_w},
    }
    for path, columns in tables.items():
        pq.write_table(pa.table(columns), path)


@pytest.fixture
def place(good_place: Path, tmp_path: Path) -> Path:
    """A copy of all of it."""
    return Path(shutil.copytree(good_place, tmp_path / "copy"))


def try_all(reader: Reader, place: Path, damages: Iterable[Damage]) -> None:
    """Put each damage in the file's place, run the commands in turn, and tell all that fell short.

    Commands that read the file take turns, so that each sees a part of the damages.
    """
    path, wrong = reader.path(place), []
    content, commands = path.read_bytes(), reader.commands(place)
    for k, damage in enumerate(damages):
        path.write_bytes(damage[1](content))
        try:
            answer(*commands[k % len(commands)], names=path.relative_to(place).parts[0])
        except AssertionError as error:
            wrong.append(f"{damage[0]}: {error}")
        shutil.rmtree(place / "new", ignore_errors=True)
    assert not wrong, "\n".join([f"{len(wrong)} fell short", *wrong[:20]])


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_sample_of_damages_gives_one_line_each(name: str, place: Path) -> None:
    damages = READERS[name].damages(place)
    chosen = np.linspace(0, len(damages) - 1, SAMPLE).astype(int)
    try_all(READERS[name], place, [damages[k] for k in chosen])


@pytest.mark.fuzz
@pytest.mark.parametrize("name", READERS)
def test_two_thousand_fuzzed_files_give_one_line_each(name: str, place: Path) -> None:
    content, listed = READERS[name].path(place).read_bytes(), READERS[name].damages(place)
    rng = np.random.default_rng(11)
    order = rng.permutation(len(listed))[: N_FUZZED // 2]
    chosen = [listed[k] for k in order]
    chosen += [random_damage(content, rng) for _ in range(N_FUZZED - len(chosen))]
    try_all(READERS[name], place, chosen)


def read_profile_head(place: Path) -> None:
    StoredProfile(READERS["profile"].path(place))


def read_run_folder(place: Path) -> None:
    run = open_run(place / "run")
    _ = run.metrics, run.columns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("profile", read_profile_head),
        ("manifest", read_run_folder),
        ("metrics", read_run_folder),
    ],
)
def test_many_damages_are_read_or_named(
    name: str, read: Callable[[Path], None], place: Path
) -> None:
    path = READERS[name].path(place)
    content, damages = path.read_bytes(), READERS[name].damages(place)
    for k in np.linspace(0, len(damages) - 1, 80).astype(int):
        path.write_bytes(damages[k][1](content))
        try:
            read(place)
        except InputError as error:
            assert str(path.relative_to(place)) in str(error), damages[k][0]
            assert len(str(error)) < 500


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for(name: str, place: Path) -> None:
    path = READERS[name].path(place)
    put_pipe(path)
    for command in READERS[name].commands(place):
        answer(*command, names=path.relative_to(place).parts[0])


@pytest.mark.slow
def test_undamaged_files_are_read(place: Path) -> None:
    commands = [c for reader in READERS.values() for c in reader.commands(place)]
    for command in dict.fromkeys(commands):
        assert call(*command).code == 0, command
        shutil.rmtree(place / "new", ignore_errors=True)
