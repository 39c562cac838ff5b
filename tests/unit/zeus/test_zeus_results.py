"""Recurrences as Parquet: everything comes back, names instead of ids, nothing half-written."""

import errno
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damages import parquet_damages

from diploee.errors import LogFormatError, OutputError
from diploee.neighbours.zeus import (
    Recurrences,
    ZeusSpec,
    chosen_workloads,
    read_recurrences,
    read_traces,
    simulate_sequence,
    write_recurrences,
)


@pytest.fixture(scope="module")
def recurrences() -> Recurrences:
    return simulate_sequence(chosen_workloads(read_traces()), ZeusSpec(), 12, range(2))


def test_file_gives_back_what_was_written(tmp_path: Path, recurrences: Recurrences) -> None:
    place = tmp_path / "deep" / "r.parquet"
    write_recurrences(place, recurrences)
    back = read_recurrences(place)
    assert back.table.to_arrow().equals(recurrences.table.to_arrow())
    assert (back.workloads, back.groups) == (recurrences.workloads, recurrences.groups)
    assert back.settings == recurrences.settings
    assert back.settings["power_limit_optimizer"] == "jit"


def test_file_names_workloads_and_units(tmp_path: Path, recurrences: Recurrences) -> None:
    write_recurrences(tmp_path / "r.parquet", recurrences)
    table = pq.read_table(tmp_path / "r.parquet")
    assert set(table["workload"].to_pylist()) == set(recurrences.workloads)
    assert {"time_s", "energy_j", "cost_j", "regret_j", "average_power_w"} < set(table.column_names)


def test_same_recurrences_give_the_same_bytes(tmp_path: Path, recurrences: Recurrences) -> None:
    for name in "ab":
        write_recurrences(tmp_path / name, recurrences)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_full_disk_leaves_nothing(tmp_path: Path, recurrences: Recurrences) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        mock.patch("diploee.neighbours.zeus.results.pq.write_table", side_effect=full),
        pytest.raises(OutputError, match="the disk is full"),
    ):
        write_recurrences(tmp_path / "r.parquet", recurrences)
    assert not list(tmp_path.iterdir())


def test_other_file_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "o.parquet"
    pq.write_table(pa.table({"a": [1]}), other)
    with pytest.raises(LogFormatError, match="column 'workload' is missing"):
        read_recurrences(other)
    other.write_text("no Parquet")
    with pytest.raises(LogFormatError, match=r"can't be read .*; write it with 'diploee z"):
        read_recurrences(other)
    with pytest.raises(LogFormatError, match="nowhere: no such file"):
        read_recurrences(tmp_path / "nowhere")


def test_damaged_file_is_read_or_refused_in_one_line(
    tmp_path: Path, recurrences: Recurrences
) -> None:
    path = tmp_path / "r.parquet"
    write_recurrences(path, recurrences)
    content = path.read_bytes()
    for _, damage in list(parquet_damages(content, b"diploee.neighbours.zeus"))[::3]:
        path.write_bytes(damage(content))
        try:
            read_recurrences(path)
        except LogFormatError as error:
            assert str(error).startswith(str(path))
            assert str(error).isprintable()


def test_file_of_a_newer_version_is_refused(tmp_path: Path, recurrences: Recurrences) -> None:
    with mock.patch("diploee.neighbours.zeus.results.SCHEMA_VERSION", 3):
        write_recurrences(tmp_path / "r.parquet", recurrences)
    with pytest.raises(
        LogFormatError, match=r"written by a newer version \(schema 3, expected 2\)"
    ):
        read_recurrences(tmp_path / "r.parquet")
