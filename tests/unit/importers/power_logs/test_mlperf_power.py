"""MLPerf power logs: runs by folder, energy by an independent sum, sides, phases, bad
files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import call
from samples import MLPERF, PUBLISHED

from diploee.base.errors import LogFormatError
from diploee.importers.power_logs.mlperf_power import import_mlperf_power
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.profiles.profile import PowerBoundary

Sample = Callable[[str], Path]
MARK = ":::MLLOG"
BLOCK = re.compile(r'"time_ms": (\d+)[^\n]*"block_(?:start|stop)"')


def part(root: Path, n_nodes: int, side: str) -> Path:
    """Return the folder of the language model's runs on one node, or on several."""
    names = "1xSMC*" if n_nodes == 1 else "[48]xSMC*"
    return next((root / f"smc-{side}-power" / "results").glob(f"{names}/llama2*"))


def table(log: Path) -> pd.DataFrame:
    """Return a log's readings by pandas alone: ``time_ms`` and ``value``."""
    lines = (
        json.loads(line[line.index("{") :])
        for line in log.read_text("utf-8").splitlines()
    )
    rows = pd.DataFrame([row for row in lines if row["key"] == "power_reading"])
    return rows.astype({"value": float})[["time_ms", "value"]]


def energy_j(rows: pd.DataFrame, start_ms: float, end_ms: float) -> float:
    """Return the energy between two times, by readings each millisecond."""
    every = rows.drop_duplicates("time_ms")
    t_ms = np.arange(start_ms, end_ms + 1)
    return float(
        np.trapezoid(np.interp(t_ms, every["time_ms"], every["value"]), t_ms) / 1000
    )


def check_run(profile: PowerProfile, folder: Path, n_files: int) -> None:
    rows = [table(log) for log in sorted(folder.glob("node_*.txt"))]
    events = folder.parent.parent / f"{folder.name}.txt"
    of_run = BLOCK.findall(events.read_text("utf-8")) if events.exists() else []
    moments_ms = [
        *map(int, of_run),
        *(t for one in rows for t in one["time_ms"].iloc[[0, -1]]),
    ]
    start_ms = min(moments_ms)  # a log that lacks the ends of the run is held there
    expected_j = sum(
        energy_j(one, start_ms, start_ms + profile.duration_ms) for one in rows
    )
    assert len(rows) == n_files == profile.n_nodes
    assert profile.provenance.counts["readings"] == sum(map(len, rows))
    assert profile.energy_j == pytest.approx(expected_j, rel=1e-6)
    assert profile.mean_power_w == pytest.approx(
        1000 * expected_j / profile.duration_ms, rel=1e-6
    )
    whole_ms = max(moments_ms) - start_ms
    assert 0 <= whole_ms - profile.duration_ms < profile.dt_ms == 2_000


@pytest.mark.slow
@pytest.mark.parametrize("side", ["ac", "dc"])
@pytest.mark.parametrize("n_nodes", [1, 8])
def test_counts_energy_and_mean_are_those_of_a_plain_sum_over_the_files(
    sample: Sample, n_nodes: int, side: str
) -> None:
    folder = part(sample(MLPERF), n_nodes, side)
    profiles = import_mlperf_power(folder, side=side)
    runs = sorted((folder / "power").iterdir())
    assert len(profiles) == len(runs)
    for profile, run in list(zip(profiles, runs, strict=True))[:3]:
        check_run(profile, run, len(list(run.glob("node_*.txt"))))


def test_hardware_boundary_and_bandwidth_of_both_sides(sample: Sample) -> None:
    folder = sample(MLPERF)
    ac = import_mlperf_power(part(folder, 1, "ac"))[0]
    origin = ac.provenance
    assert (origin.gpus_per_node, origin.gpu_tdp_w) == (8, 700)
    assert origin.gpu_model == "NVIDIA H100-SXM5-80GB"
    assert origin.power_boundary == PowerBoundary.NODE_AC
    assert origin.sampling_interval_s == pytest.approx(2.006, abs=0.005)
    # Less than half the rate of readings that may hold aliases
    assert origin.bandwidth_hz < 0.25
    dc = import_mlperf_power(part(folder, 1, "dc"))[0]
    assert dc.provenance.power_boundary == PowerBoundary.NODE_DC
    assert dc.profile_id == ac.profile_id.replace("-ac-", "-dc-")


def test_the_supplies_give_out_what_the_data_say_at_idle_and_at_the_plateau(
    sample: Sample,
) -> None:
    """README of the data: 93.9 % at 2.9 kW, 97.3 % at 7.3 kW; here medians of steady
    steps."""
    folder = sample(MLPERF)
    sides = [import_mlperf_power(part(folder, 1, side)) for side in ("ac", "dc")]
    ac_w = np.concatenate([profile.power_w for profile in sides[0]]).astype(float)
    dc_w = np.concatenate([profile.power_w for profile in sides[1]]).astype(float)
    idle, plateau = (ac_w > 2_700) & (ac_w < 2_900), ac_w > 7_000
    assert np.median(dc_w[idle] / ac_w[idle]) == pytest.approx(0.937, abs=0.003)
    assert np.median(dc_w[plateau] / ac_w[plateau]) == pytest.approx(0.973, abs=0.002)


def test_nodes_that_share_a_meter_and_stalls_of_the_logger_are_counted(
    sample: Sample,
) -> None:
    several = import_mlperf_power(part(sample(MLPERF), 8, "ac"))[0]
    assert several.provenance.counts["nodes_that_share_a_meter"] == several.n_nodes
    one = import_mlperf_power(part(sample(MLPERF), 1, "ac"))[0].provenance
    assert one.counts["nodes_that_share_a_meter"] == 0
    assert (
        one.counts.get("rows_out_of_order", 0) + one.counts["rows_at_a_repeated_time"]
        == 1
    )
    assert one.counts["gaps_bridged"] > 0


def test_phases_are_those_of_the_events(sample: Sample) -> None:
    folder = part(sample(MLPERF), 1, "ac")
    profile = import_mlperf_power(folder)[0]
    run = min((folder / "power").iterdir())
    events = (folder / f"{run.name}.txt").read_text("utf-8")
    first_ms = table(next(run.glob("node_*.txt")))["time_ms"][0]
    begins, ends = (
        [
            (int(stamp) - first_ms) / 1000
            for stamp in re.findall(rf'"time_ms": (\d+)[^\n]*"eval_{mark}"', events)
        ]
        for mark in ("start", "stop")
    )
    phases = profile.provenance.phases
    assert list(phases) == ["init", "training", "evaluation"]
    assert phases["init"][0][0] == 0  # the events begin before the readings
    assert phases["evaluation"] == [
        [pytest.approx(s), pytest.approx(e)] for s, e in zip(begins, ends, strict=True)
    ]


def node_logs(root: Path, run: str, starts_s: list[int], end_s: int = 117) -> Path:
    """Write a log of each node, with a reading of 100 + t W each second from its start
    on."""
    folder = root / "s-ac" / "results" / "box" / "bert" / "power" / run
    folder.mkdir(parents=True)
    for node, start_s in enumerate(starts_s):
        readings = [
            (
                f'{MARK} {{"time_ms": {1000 * t}, "key": "power_reading", "value": '
                f"{100 + t}}}"
            )
            for t in range(start_s, end_s + 1)
        ]
        (folder / f"node_{node}.txt").write_text("\n".join(readings) + "\n", "utf-8")
    return folder


def test_a_log_that_starts_late_is_held_and_one_that_lacks_more_is_refused(
    tmp_path: Path,
) -> None:
    node_logs(tmp_path, "run", [0, 5])
    (held,) = import_mlperf_power(tmp_path)
    assert held.duration_ms == 117_000
    lacks_j = 5**2 / 2  # what the late node drew less than its first reading
    assert held.energy_j == pytest.approx(2 * (100 + 58.5) * 117 + lacks_j, rel=1e-6)
    assert held.provenance.counts["seconds_that_not_all_nodes_cover"] == 5
    node_logs(tmp_path / "late", "run", [0, 39])
    problem = (
        r"node_1.txt: readings of 78.0 s of a run of 117.0 s: .*33.3% of its time lost"
    )
    with pytest.raises(LogFormatError, match=problem):
        import_mlperf_power(tmp_path / "late")


def test_a_run_lasts_as_long_as_its_training(tmp_path: Path) -> None:
    folder = node_logs(tmp_path, "run", [0])
    events = folder.parent.parent / "run.txt"
    blocks = "".join(
        f'{MARK} {{"time_ms": {1000 * t}, "key": "block_{mark}"}}\n'
        for mark, t in (("start", 10), ("stop", 120))
    )
    events.write_text(blocks, "utf-8")
    (profile,) = import_mlperf_power(tmp_path)
    assert profile.provenance.phases == {"training": [[10.0, 120.0]]}
    assert profile.provenance.counts["seconds_of_the_run_without_readings"] == 3
    events.write_text(blocks.replace("120", "150"), "utf-8")
    with pytest.raises(
        LogFormatError, match=r"readings of 117\.0 s of a run of 150\.0"
    ):
        import_mlperf_power(tmp_path)


def test_a_failed_reading_is_bridged_and_a_broken_run_is_skipped_and_named(
    tmp_path: Path,
) -> None:
    for run in ("a", "b", "c"):
        folder = node_logs(tmp_path, run, [0])
        log = folder / "node_0.txt"
        if run == "a":
            log.write_text(log.read_text().replace('"value": 150', '"value": -9'))
        if run == "b":
            log.write_text(log.read_text() + "a warning of the driver\n")
    found = import_mlperf_power(tmp_path)
    assert [profile.profile_id for profile in found] == ["bert-1n-ac-1", "bert-1n-ac-3"]
    assert found[0].provenance.counts["failed_reads"] == 1
    # A straight line
    np.testing.assert_allclose(found[0].power_w, found[1].power_w, rtol=1e-6)
    assert [Path(run.place).name for run in found.skipped] == ["b"]
    ended = call(
        "profiles", "import", "mlperf-power", tmp_path, "--out", tmp_path / "library"
    )
    assert ended.code == 0
    assert "1 failed reads" in ended.out
    assert re.search(r"1 run skipped:\n.*b: .*node_0.txt:119: 'a warning", ended.out)


def test_ac_is_taken_where_a_run_has_both_sides(sample: Sample, tmp_path: Path) -> None:
    root = sample(MLPERF)
    if root.is_relative_to(PUBLISHED):
        pytest.skip("all of the published files, which a slow test takes")
    ids = [profile.profile_id for profile in import_mlperf_power(root)]
    assert ids == ["llama2-1n-ac-1", "llama2-1n-ac-2", "llama2-4n-ac-1"]
    assert len(import_mlperf_power(root, side="all")) == 6
    out = ("--side", "dc", "--out", tmp_path / "library")
    assert call("profiles", "import", "mlperf-power", root, *out).code == 0
    entries = ProfileLibrary.open(tmp_path / "library").entries
    assert [entry.profile_id[-4:] for entry in entries] == ["dc-1", "dc-2", "dc-1"]
    # The hardware of the other side's description holds for both.
    assert {entry.provenance.gpus_per_node for entry in entries} == {8}


@pytest.mark.slow
def test_every_published_file_has_the_energy_of_a_plain_sum() -> None:
    root = PUBLISHED / MLPERF
    if not root.exists():
        pytest.skip("the published sample is not at hand")
    profiles = import_mlperf_power(root, side="all")
    runs = sorted(
        path for path in root.glob("smc-*/results/*/*/power/*") if path.is_dir()
    )
    assert len(profiles) == len(runs)
    for profile, run in zip(profiles, runs, strict=True):
        check_run(profile, run, len(list(run.glob("node_*.txt"))))


GOOD = f'{MARK} {{"time_ms": 1000, "key": "power_reading", "value": 5}}\n'
LATER = GOOD.replace("1000", "3000")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD, r": the log has 1 good reading in 1 row, expected two rows or more"),
        (GOOD + GOOD, r":2: 1 row at a time that is there already"),
        (GOOD + "watts 5\n", r":2: .*expected ':::MLLOG \{\.\.\.\}'"),
        (GOOD + ":::MLLOG {nothing\n", r":2:1: not valid JSON"),
        (GOOD + LATER.replace("3000", "1e99"), r":2: .*time_ms"),
    ],
)
def test_bad_node_logs_are_refused_by_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    log = tmp_path / "s-ac/results/1xBox/bert/power/run/node_0.txt"
    log.parent.mkdir(parents=True)
    log.write_text(text, "utf-8")
    with pytest.raises(LogFormatError, match=re.escape(log.name) + problem):
        import_mlperf_power(tmp_path)


def test_a_run_without_all_of_its_nodes_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "s-ac" / "results" / "4xBox" / "bert" / "power" / "run"
    folder.mkdir(parents=True)
    (folder / "node_0.txt").write_text(GOOD + LATER, "utf-8")
    described = tmp_path / "s-ac" / "systems" / "4xBox.json"
    described.parent.mkdir()
    described.write_text('{"number_of_nodes": "4"}', "utf-8")
    with pytest.raises(
        LogFormatError, match=r"run: 1 node log of 4 nodes, expected one of each"
    ):
        import_mlperf_power(tmp_path)
    described.write_text('{"number_of_nodes": "many"}', "utf-8")
    with pytest.raises(
        LogFormatError, match=r"4xBox.json: 'many' nodes .*expected a whole number"
    ):
        import_mlperf_power(tmp_path)
    assert import_mlperf_power(tmp_path, n_nodes=1)[0].n_nodes == 1


def test_a_folder_without_logs_and_a_side_that_is_not_there_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(LogFormatError, match=r"expected a folder of MLPerf results"):
        import_mlperf_power(tmp_path)
    with pytest.raises(LogFormatError, match=r"nowhere: no .power"):
        import_mlperf_power(tmp_path / "nowhere")
    log = tmp_path / "s-dc/results/1xBox/bert/power/run/node_0.txt"
    log.parent.mkdir(parents=True)
    log.write_text(GOOD + LATER, "utf-8")
    with pytest.raises(LogFormatError, match=r"no run of side 'ac' \(found: dc\)"):
        import_mlperf_power(tmp_path, side="ac")
