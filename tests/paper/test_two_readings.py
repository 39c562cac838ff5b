"""The serving page's table of the two readings of capacity, against the years that it
describes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import diploee

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text("utf-8")
READINGS = ("inference_1mw", "inference_1mw_sustained")
ROWS = (
    "nodes reserved for coding / conversation",
    "mean node occupancy [%]",
    "mean power [MW]",
    "unserved requests [1/s]",
    "unserved requests [%]",
)


def published() -> dict[str, tuple[str, ...]]:
    """Return the cells of the table by the name of their row."""
    head = re.search(
        r"^\| \| offered \(`(\w+)`\) \| sustained \(`(\w+)`\) \|$", PAGE, re.M
    )
    assert head is not None
    assert head.groups() == READINGS
    lines = PAGE[head.end() :].lstrip("\n").split("\n\n")[0].splitlines()[1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: tuple(cells) for name, *cells in rows}


def found(metrics: dict[str, Any]) -> dict[str, str]:
    """Return what a run gives, written as the page writes it."""
    requests, services = metrics["requests"], metrics["requests"]["services"]
    share = requests["incomplete_rps"] / requests["incoming_rps"]
    nodes = (services[name]["reserved_nodes"] for name in ("coding", "conversation"))
    cells = (
        " / ".join(str(n) for n in nodes),
        f"{100 * metrics['utilization']['mean']:.1f}",
        f"{metrics['power']['mean_mw']:.3f}",
        f"{requests['incomplete_rps']:,.0f}",
        f"{100 * share:.1f}",
    )
    return dict(zip(ROWS, cells, strict=True))


@pytest.mark.parametrize("name", READINGS)
def test_table_of_the_two_readings_is_what_the_years_give(
    name: str, tmp_path: Path
) -> None:
    run = diploee.run(diploee.load_scenario(name), tmp_path / "year")
    column = READINGS.index(name)
    assert found(run.metrics) == {
        row: cells[column] for row, cells in published().items()
    }
