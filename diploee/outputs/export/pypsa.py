"""PyPSA: a CSV folder for ``Network.import_from_csv_folder``."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.text import CsvFile, naive_stamps
from diploee.units import MS_PER_H


def _write(request: ExportRequest) -> Written:
    name, bus = request.options.name, request.options.bus
    hours = request.series.step_ms / MS_PER_H
    with CsvFile(request.path / "buses.csv", ("name",)) as file:
        file.write([bus])
    with CsvFile(request.path / "loads.csv", ("name", "bus")) as file:
        file.write([name], [bus])
    with ExitStack() as stack:
        # The columns of PyPSA's own export; it reads the stamps from the second.
        header = ("", "snapshot", "objective", "stores", "generators")
        snapshots = stack.enter_context(CsvFile(request.path / "snapshots.csv", header))
        names = ("p_set", "q_set") if request.has_reactive else ("p_set",)
        sets = [
            stack.enter_context(CsvFile(request.path / f"loads-{of}.csv", ("snapshot", name)))
            for of in names
        ]
        for block in request.series.blocks():
            stamps = naive_stamps(block.starts_ms, request.series.in_milliseconds)
            weights = np.full(block.power_w.size, hours)
            snapshots.write(block.positions, stamps, weights, weights, weights)
            for file, values in zip(sets, request.power_columns(block), strict=True):
                file.write(stamps, values)
    files = {
        "snapshots.csv": "start of each step, naive UTC; weightings: its length in hours",
        "buses.csv": f"the bus '{bus}', which PyPSA needs to import the folder",
        "loads.csv": f"the load '{name}'",
        "loads-p_set.csv": "MW",
    }
    if request.has_reactive:
        files["loads-q_set.csv"] = "Mvar"
    return Written(files, ("stamps are naive UTC, as PyPSA's are; no local time",))


PYPSA = Format(
    name="pypsa",
    summary="PyPSA CSV folder: snapshots, loads, loads-p_set in MW, naive UTC",
    write=_write,
    suffixes=(),
    options=frozenset({"q_table", "name", "bus"}),
)
