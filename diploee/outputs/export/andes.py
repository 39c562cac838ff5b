"""ANDES: the data of a TimeSeries device, the row of a case that plays it, how to load both."""

from __future__ import annotations

import csv

import numpy as np

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.text import CsvFile

ROW = "TimeSeries.csv"
HEAD = ("idx", "u", "name", "mode", "path", "sheet", "fields", "tkey", "model", "dev", "dests")


def _write(request: ExportRequest) -> Written:
    options = request.options
    data = f"{options.name}.csv"
    fields, dests = ["p_pu"], ["Ppf"]
    if request.has_reactive:
        fields, dests = [*fields, "q_pu"], [*dests, "Qpf"]
    first: list[float] = []
    with CsvFile(request.path / data, ("t", *fields)) as file:
        for block in request.series.blocks():
            # The solver's times are floats of three decimals, as `time_s` gives them.
            per_unit = [np.round(c / options.mva, 9) for c in request.power_columns(block)]
            first = first or [float(values[0]) for values in per_unit]
            file.write(block.time_s, *per_unit)
    row = (
        f"{options.name}_ts", "1", options.name, "1", data, "0", ",".join(fields), "t", "PQ",
        options.name, ",".join(dests),
    )  # fmt: skip
    with (request.path / ROW).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows((HEAD, row))
    start = ", ".join(f"{name}0={value!r}" for name, value in zip("pq", first, strict=False))
    return Written(
        {
            data: f"t: s since the first step's start; {', '.join(fields)}: pu of "
            f"{options.mva:g} MVA",
            ROW: "the row of the sheet TimeSeries of a case; its dev is the idx of the PQ",
        },
        (
            f"ss.add('TimeSeries', ...) takes the row before ss.setup(); give the PQ "
            f"'{options.name}' {start}, or the run begins with a step",
            "before setup: PQ.config.update(p2p=1, p2z=0, q2q=1, q2z=0), else the load becomes an "
            "impedance",
            "mode 1 holds each value until the next t: it is a mean over the step",
        ),
    )


ANDES = Format(
    name="andes",
    summary="ANDES folder: data and row of a TimeSeries device, in pu of --mva",
    write=_write,
    suffixes=(),
    options=frozenset({"q_table", "name", "mva"}),
)
