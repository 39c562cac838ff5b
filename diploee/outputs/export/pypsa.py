"""PyPSA: a CSV folder for ``Network.import_from_csv_folder``."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.stamps import naive_stamps
from diploee.outputs.export.text import CsvFile, in_mw
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
        p_set = stack.enter_context(CsvFile(request.path / "loads-p_set.csv", ("snapshot", name)))
        q_set = None
        if request.reactive is not None:
            q_set = stack.enter_context(
                CsvFile(request.path / "loads-q_set.csv", ("snapshot", name))
            )
        for block in request.series.blocks():
            stamps = naive_stamps(block.starts_ms, request.series.in_milliseconds)
            weights = np.full(block.power_w.size, hours)
            snapshots.write(block.positions, stamps, weights, weights, weights)
            p_set.write(stamps, in_mw(block.power_w))
            if q_set is not None and request.reactive is not None:
                q_set.write(stamps, np.round(request.reactive.at(block.power_w), 9))
    files = {
        "snapshots.csv": "start of each step, naive UTC; weightings: its length in hours",
        "buses.csv": f"the bus '{bus}', which PyPSA needs to import the folder",
        "loads.csv": f"the load '{name}'",
        "loads-p_set.csv": "MW",
    }
    if request.reactive is not None:
        files["loads-q_set.csv"] = "Mvar"
    return Written(files, ("stamps are naive UTC, as PyPSA's are; no local time",))


PYPSA = Format(
    name="pypsa",
    summary="PyPSA CSV folder: snapshots, loads, loads-p_set in MW, naive UTC",
    write=_write,
    suffixes=(),
    options=frozenset({"q_table", "name", "bus"}),
)
