"""Recurrences as Parquet: everything comes back, names instead of ids."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from diploee.neighbours.zeus import (
    Recurrences,
    ZeusSpec,
    chosen_workloads,
    read_traces,
    simulate_sequence,
    write_recurrences,
)


@pytest.fixture(scope="module")
def recurrences() -> Recurrences:
    return simulate_sequence(chosen_workloads(read_traces()), ZeusSpec(), 12, range(2))


def test_file_holds_what_was_written(tmp_path: Path, recurrences: Recurrences) -> None:
    place = tmp_path / "deep" / "r.parquet"
    write_recurrences(place, recurrences)
    table = pq.read_table(place)
    written = recurrences.table.to_arrow()
    assert table.drop_columns(["workload", "group"]).equals(
        written.drop_columns(["workload_id", "group_id"])
    )
    for name in ("workload", "group"):
        names = np.array(getattr(recurrences, f"{name}s"))[written[f"{name}_id"].to_numpy()]
        assert table[name].to_pylist() == names.tolist()
    head = json.loads(table.schema.metadata[b"diploee.neighbours.zeus"])
    assert head["settings"] == dict(recurrences.settings)
    assert head["settings"]["power_limit_optimizer"] == "jit"


def test_same_recurrences_give_the_same_bytes(tmp_path: Path, recurrences: Recurrences) -> None:
    for name in "ab":
        write_recurrences(tmp_path / name, recurrences)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
