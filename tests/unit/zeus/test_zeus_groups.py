"""The Alibaba group trace: reading it, and simulating its overlapping recurrences."""

from pathlib import Path

import pytest
from zeus_builders import GROUP_HEADER, hand_workload, write

from diploee.errors import LogFormatError, WorkloadError
from diploee.files.places import shipped_folder
from diploee.neighbours.zeus import (
    ZeusSpec,
    chosen_workloads,
    read_groups,
    read_traces,
    simulate_groups,
)

SHIPPED = shipped_folder("profiles") / "zeus" / "groups.csv"
ROWS = (
    "g2,100.0,150.0,toy,2.0",
    "g1,1427642.0,1446915.0,TOY,1.5",
    "g2,0,120,toy,1",
    "g3,5,9,other,1",
)


def test_groups_are_read_with_their_starts_ends_and_ratios(tmp_path: Path) -> None:
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *ROWS))
    assert trace.groups == ("g1", "g2", "g3")
    assert trace.datasets == ("toy", "toy", "other")
    assert trace.group_id.tolist() == [1, 0, 1, 2]
    assert trace.start_s.tolist() == [100.0, 1427642.0, 0.0, 5.0]
    assert trace.end_s.tolist() == [150.0, 1446915.0, 120.0, 9.0]
    assert trace.runtime_ratio.tolist() == [2.0, 1.5, 1.0, 1.0]


GOOD = "g,0,1,toy,1"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), ": no rows, expected one or more"),
        ((GOOD, "g,5,4,toy,1"), ":3: 'end_time' is 4, expected 'start_time' or later, 5 s"),
        (
            (GOOD, "g,0,1,toy,0"),
            ":3: column 'runtime_ratio' is '0', expected a number above",
        ),
        ((GOOD, "g,x,1,toy,1"), ":3: column 'start_time' is 'x'"),
        ((GOOD, "g,0,1,tyo,1"), ":3: unknown dataset 'tyo', expected one of 'other', 'toy'; did y"),
        ((GOOD, "h,0,1,toy,1", "g,0,1,other,1"), ":4: group 'g' trains 'other', but 'toy' in line"),
        ((GOOD, ",0,1,toy,1"), ":3: column 'group' is ''"),
    ],
)
def test_bad_group_row_is_named_with_its_line(
    tmp_path: Path, rows: tuple[str, ...], words: str
) -> None:
    file = write(tmp_path / "groups.csv", GROUP_HEADER, *rows)
    with pytest.raises(LogFormatError) as error:
        read_groups(file, ["toy", "other"])
    assert f"{file}{words}" in str(error.value)


def test_groups_of_other_datasets_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *ROWS))
    result = simulate_groups([hand_workload()], trace, ZeusSpec("default"))
    assert len(result.table) == 3
    assert result.settings["recurrences_of_other_datasets"] == 1
    with pytest.raises(WorkloadError, match="no group trains 'synthetic-vision', expected one of "):
        simulate_groups(chosen_workloads(read_traces(), ["synthetic-vision"]), trace, ZeusSpec())


def test_rows_stand_by_group_and_recur_in_the_order_of_starts(tmp_path: Path) -> None:
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *ROWS[:3]))
    table = simulate_groups([hand_workload()], trace, ZeusSpec("default")).table
    assert table.recurrence.tolist() == [0, 0, 1]
    assert table.start_s.tolist() == [1427642.0, 0.0, 100.0]
    assert table.overlapping.tolist() == [False, False, True]  # the first of g2 ends at 120
    assert set((table.time_s / table.runtime_ratio).tolist()) <= {90.0, 110.0}


def test_each_group_has_a_history_of_its_own(tmp_path: Path) -> None:
    rows = [f"{g},{1000 * i},{1000 * i + 1},toy,1" for g in "ab" for i in range(3)]
    trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *rows))
    table = simulate_groups([hand_workload()], trace, ZeusSpec("zeus")).table
    assert table.batch_size.tolist() == [16, 8, 32] * 2
    assert table.profiled.all()


def test_group_draws_the_same_whatever_other_groups_there_are(tmp_path: Path) -> None:
    def costs(*names: str) -> list[float]:
        rows = [f"{g},{1000 * i},{1000 * i + 1},toy,1" for g in names for i in range(30)]
        trace = read_groups(write(tmp_path / "g.csv", GROUP_HEADER, *rows))
        result = simulate_groups([hand_workload()], trace, ZeusSpec("zeus"))
        at = result.groups.index("m")
        return result.table.cost_j[result.table.group_id == at].tolist()

    assert costs("m") == costs("a", "m", "z")


@pytest.mark.slow
def test_zeus_converges_with_overlapping_recurrences_too() -> None:
    several = chosen_workloads(read_traces())
    trace = read_groups(SHIPPED, read_traces().datasets)
    zeus = simulate_groups(several, trace, ZeusSpec("zeus"), range(10))
    default = simulate_groups(several, trace, ZeusSpec("default"), range(10))
    assert 0.2 < zeus.table.overlapping.mean() < 0.6
    late = zeus.table.take(zeus.table.recurrence >= 30)
    oracle_j = late.cost_j - late.regret_j
    assert late.cost_j.sum() < 1.05 * oracle_j.sum()
    for name in zeus.workloads:
        assert zeus.of_workload(name).energy_j.sum() < default.of_workload(name).energy_j.sum()
