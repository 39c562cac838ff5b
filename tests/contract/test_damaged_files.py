"""Whatever became of a file of our own, a command reads it or says in one line what is
wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
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

from diploee.profiles.store import METADATA_KEY as PROFILE_KEY
from diploee.runs.parquet_files import METADATA_KEY as FACILITY_KEY

SAMPLE = 6
"""Listed damages of a file that are tried, evenly spread; the others by hand."""

LIMITS = {
    "name": "of a contract",
    "ramps": [{"interval": "10 s", "up_mw_per_s": 1, "down_mw_per_min": 1}],
    "swings": [{"window": "1 min", "max_mw": 1}],
    "band_rms": [{"low_hz": 0.01, "high_hz": 0.1, "max_rms_mw": 1}],
    "peaks": [{"max_mw": 10, "interval": "15 min"}],
    "daily_energy_mwh": 100,
}
N_FUZZED = 2_000


LEADERBOARD, RESULTS, OPENG2G = (
    f"fit-models {{place}}/specs.yaml --source {source} --from {{place}}/{source}"
    for source in ("leaderboard", "results", "openg2g")
)
REPORT = "report {place}/run --out {place}/new/page.html -q"
EXPORT = "export csv {place}/run --out {place}/new/power.csv -q"
LIST = "profiles list --profiles {place}/library"
RUN = "run {place}/tiny.yaml --profiles {place}/library --out {place}/new -q"
SIDECAR = "export pypsa {place}/run --out {place}/network --force -q"
CHECK = "limits {place}/limits.yaml {place}/run"
SWEEP = (
    "ensemble {place}/seeds.yaml --profiles {place}/library --out {place}/sweep "
    "--workers 0 -q"
)
SWEEP_REPORT = "report {place}/sweep --out {place}/new/page.html -q"
PLAIN = (
    "profiles import plain {place}/power.parquet --workload x --nodes 1 --out "
    "{place}/new"
)


class Reader:
    """A file that commands read: where it is, what it is, and the commands."""

    def __init__(self, file: str, *lines: str, metadata_key: bytes = b"") -> None:
        self.file, self.lines, self.metadata_key = file, lines, metadata_key

    def path(self, place: Path) -> Path:
        return min(place.glob(self.file))

    def commands(self, place: Path) -> list[tuple[str, ...]]:
        return [command(line, place) for line in self.lines]

    def damages(self, place: Path) -> list[Damage]:
        content = self.path(place).read_bytes()
        if self.file.endswith(".parquet"):
            return list(parquet_damages(content, self.metadata_key))
        if self.file.endswith(".csv"):
            return list(csv_damages(content))
        return list(json_damages(content))


def command(line: str, place: Path) -> tuple[str, ...]:
    return tuple(word.format(place=place) for word in line.split())


READERS = {
    "limits": Reader("limits.yaml", CHECK),
    "profile": Reader("library/tune-2n-1.parquet", LIST, RUN, metadata_key=PROFILE_KEY),
    "manifest": Reader("run/manifest.json", REPORT, EXPORT, CHECK),
    "metrics": Reader("run/metrics.json", REPORT, f"{EXPORT} --zoom peak"),
    "facility": Reader(
        "run/facility.parquet", REPORT, EXPORT, CHECK, metadata_key=FACILITY_KEY
    ),
    "jobs": Reader("run/jobs.parquet", REPORT),
    "zoom": Reader(
        "run/zooms/peak.parquet",
        REPORT,
        f"{EXPORT} --zoom peak",
        metadata_key=FACILITY_KEY,
    ),
    "sweep": Reader("sweep/sweep.json", SWEEP_REPORT, SWEEP),
    "summary": Reader("sweep/summary.parquet", SWEEP_REPORT, SWEEP),
    "record": Reader("sweep/runs/*/record.json", SWEEP),
    "shape": Reader("sweep/runs/*/load_shape.parquet", SWEEP),
    "run_metrics": Reader("sweep/runs/*/metrics.json", SWEEP),
    "sidecar": Reader("network/diploee_export.json", SIDECAR),
    "leaderboard": Reader("leaderboard", LEADERBOARD),
    "results": Reader("results/**/results.json", RESULTS),
    "openg2g": Reader("openg2g/logistic_fit.json", OPENG2G),
    "plain": Reader("power.parquet", PLAIN),
}


@pytest.fixture(scope="session")
def good_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library, its scenario, a run and a sweep of it; do not change it."""
    place = tmp_path_factory.mktemp("good")
    write_library(place / "library")
    write_scenario(place / "tiny.yaml", {"duration": "20 min", "resolution": "1 s"})
    (place / "limits.yaml").write_text(json.dumps(LIMITS), "utf-8")
    (place / "seeds.yaml").write_text(
        "base: tiny.yaml\nseeds: 2\nkeep: series\n", "utf-8"
    )
    profiles = ("--profiles", place / "library")
    out = ("--out", place / "run", "--event-windows", "-q")
    made = call("run", place / "tiny.yaml", *profiles, *out)
    assert made.code == 0, made.err
    write_json(place / "leaderboard", leaderboard_data())
    write_json(place / "specs.yaml", {"models": [tiny_spec().model_dump(mode="json")]})
    write_results(place / "results")
    write_openg2g(place / "openg2g")
    write_tables(place)
    for line in (SWEEP, SIDECAR):
        ended = call(*command(line, place))
        assert ended.code == 0, ended.err
    return place


def write_tables(place: Path) -> None:
    """Write a table of power as columns of Parquet."""
    power_w = np.random.default_rng(5).uniform(900, 4_000, 24 * 28)
    hours = np.arange(power_w.size)
    table = pa.table({"t_s": hours, "power_w": power_w})
    pq.write_table(table, place / "power.parquet")


@pytest.fixture
def place(good_place: Path, tmp_path: Path) -> Path:
    """A copy of all of it."""
    return Path(shutil.copytree(good_place, tmp_path / "copy"))


def try_all(reader: Reader, place: Path, damages: Iterable[Damage]) -> None:
    """Put each damage in the file's place, run the commands in turn, and tell all that
    fell short.

    Commands that read the file take turns, so that each sees a part of the damages.
    """
    path, wrong = reader.path(place), []
    content, commands = path.read_bytes(), reader.commands(place)
    for k, damage in enumerate(damages):
        path.write_bytes(damage[1](content))
        try:
            answer(
                *commands[k % len(commands)],
                names=(path.relative_to(place).parts[0], path.stem),
            )
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
    content, listed = (
        READERS[name].path(place).read_bytes(),
        READERS[name].damages(place),
    )
    rng = np.random.default_rng(11)
    order = rng.permutation(len(listed))[: N_FUZZED // 2]
    chosen = [listed[k] for k in order]
    chosen += [random_damage(content, rng) for _ in range(N_FUZZED - len(chosen))]
    try_all(READERS[name], place, chosen)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("name", READERS)
def test_a_pipe_in_the_place_of_a_file_is_named_and_not_waited_for(
    name: str, place: Path
) -> None:
    path = READERS[name].path(place)
    put_pipe(path)
    for words in READERS[name].commands(place):
        answer(*words, names=(path.relative_to(place).parts[0], path.stem))


@pytest.mark.slow
def test_undamaged_files_are_read(place: Path) -> None:
    for line in dict.fromkeys(
        line for reader in READERS.values() for line in reader.lines
    ):
        assert call(*command(line, place)).code == 0, line
        shutil.rmtree(place / "new", ignore_errors=True)
