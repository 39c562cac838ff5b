"""Nodes of jobs: placement by first fit and by rack, beside plain sets of nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.errors import WorkloadError
from diploee.base.tables import concat
from diploee.base.units import SLOTS_PER_GPU
from diploee.scenario.pools import InstalledNodes
from diploee.schedule.placement import ABSENT, HeldNodes, PlacedPool, SlotIntervals

N_NODES = 10


def stretches(*rows: tuple[int, int, int, int]) -> SlotIntervals:
    """Return stretches of start, end, slots and owner."""
    return SlotIntervals(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def pool(**more: int) -> PlacedPool:
    return PlacedPool(InstalledNodes(N_NODES), N_NODES, **more)


def placed_nodes(of: PlacedPool, new: SlotIntervals) -> HeldNodes:
    """Place stretches; return what is given back by their end, and what is held then."""  # noqa: E501
    return concat([of.place(new, True), of.held])


def nodes_of(held: HeldNodes, owner: int, at_ms: int = 0) -> list[int]:
    """Return the nodes that an owner holds at a time, in the order in which it took
    them."""
    rows = held.take(
        (held.owner == owner) & (held.start_ms <= at_ms) & (at_ms < held.end_ms)
    )
    rows = rows.take(np.argsort(rows.into))
    return [
        int(n)
        for f, c in zip(rows.first, rows.n_nodes, strict=True)
        for n in range(f, f + c)
    ]


def test_a_job_gets_the_first_free_nodes_though_they_are_apart() -> None:
    placed = pool()
    held = placed_nodes(
        placed, stretches((0, 9, 3, 0), (0, 2, 2, 1), (0, 9, 1, 2), (3, 9, 4, 3))
    )
    assert nodes_of(held, 0) == [0, 1, 2]
    assert nodes_of(held, 2) == [5]
    assert nodes_of(held, 3, 3) == [3, 4, 6, 7]


def test_by_rack_a_job_gets_the_first_rack_with_room_and_else_the_fewest_racks() -> (
    None
):
    placed = pool(group=4, by_rack=True)  # racks of 4, 4 and 2
    held = placed_nodes(
        placed, stretches((0, 9, 3, 0), (0, 9, 2, 1), (0, 9, 2, 2), (1, 9, 3, 3))
    )
    assert nodes_of(held, 1) == [4, 5]
    assert nodes_of(held, 2) == [6, 7]
    assert nodes_of(held, 3, 1) == [8, 9, 3]


def test_a_job_that_is_resized_keeps_its_first_nodes_and_a_preempted_one_may_move() -> (
    None
):
    placed = pool()
    rows = placed_nodes(
        placed,
        stretches((0, 2, 4, 7), (2, 4, 2, 7), (3, 9, 1, 8), (4, 6, 5, 7), (8, 9, 1, 7)),
    )
    assert nodes_of(rows, 7, 1) == [0, 1, 2, 3]
    assert nodes_of(rows, 7, 2) == [0, 1]
    assert nodes_of(rows, 7, 5) == [0, 1, 3, 4, 5]
    assert nodes_of(rows, 7, 8) == [0]
    assert (
        len(rows.take((rows.owner == 7) & (rows.first == 0) & (rows.start_ms == 0)))
        == 1
    )


def test_nodes_that_do_not_stand_yet_are_held_until_they_do() -> None:
    placed = PlacedPool(InstalledNodes(2, ((5, 4),)), N_NODES, group=4, by_rack=True)
    held = placed_nodes(placed, stretches((0, 9, 2, 1), (5, 9, 4, 2)))
    assert nodes_of(held, 2, 5) == [2, 3, 4, 5]
    assert nodes_of(held, ABSENT, 4) == [2, 3, 4, 5]
    assert (
        nodes_of(held, ABSENT + 1, 4) == nodes_of(held, ABSENT + 1, 5) == [6, 7, 8, 9]
    )


def test_jobs_on_gpus_share_nodes_and_keep_their_slots() -> None:
    placed = PlacedPool(InstalledNodes(3), 3, n_gpus=4)
    half = SLOTS_PER_GPU // 2
    held = placed_nodes(
        placed,
        stretches(
            (0, 9, half, 0), (0, 9, 5 * SLOTS_PER_GPU, 1), (0, 9, 2 * SLOTS_PER_GPU, 2)
        ),
    )
    assert nodes_of(held, 0) == nodes_of(held, 2) == [0]
    of_wide = held.take(held.owner == 1)
    assert sorted(
        zip(of_wide.first.tolist(), of_wide.n_slots.tolist(), strict=True)
    ) == [
        (1, 4 * SLOTS_PER_GPU),
        (2, SLOTS_PER_GPU),
    ]


def test_more_nodes_than_a_pool_has_are_refused() -> None:
    with pytest.raises(WorkloadError, match="hold 1 more than their pool has"):
        pool().place(stretches((0, 9, 8, 0), (1, 9, 3, 1)))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_node_is_held_twice_and_windows_change_nothing(data: st.DataObject) -> None:
    """Random jobs that fit, resized at times, in one call and in two."""
    draw, rows, busy = (
        data.draw,
        list[tuple[int, int, int, int]](),
        np.zeros(60, dtype=np.int64),
    )
    for owner in range(draw(st.integers(1, 25))):
        start = draw(st.integers(0, 20))
        for _ in range(draw(st.integers(1, 3))):
            end, n = start + draw(st.integers(1, 10)), draw(st.integers(1, 5))
            if (busy[start:end] + n > N_NODES).any():
                break
            busy[start:end] += n
            rows.append((start, end, n, owner))
            start = end
    table = stretches(*sorted(rows, key=lambda row: (row[0], row[3])))
    kinds = {"by_rack": draw(st.booleans()), "group": draw(st.integers(1, 5))}
    whole = placed_nodes(pool(**kinds), table)
    cut = draw(st.integers(0, 25))
    parted = pool(**kinds)
    first = parted.place(table.take(table.start_ms < cut), True)
    again = concat([first, placed_nodes(parted, table.take(table.start_ms >= cut))])

    def listed(held: HeldNodes) -> list[tuple[int, ...]]:
        return sorted(
            zip(
                *(c.tolist() for c in held.columns(*HeldNodes.__match_args__)),
                strict=True,
            )
        )

    assert listed(whole) == listed(again)
    for at in range(50):
        now = whole.take((whole.start_ms <= at) & (at < whole.end_ms))
        taken = [
            n
            for f, c in zip(now.first, now.n_nodes, strict=True)
            for n in range(f, f + c)
        ]
        assert len(set(taken)) == len(taken) == busy[at]
