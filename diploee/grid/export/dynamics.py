"""Exports for dynamic studies: ANDES TimeSeries, PSCAD playback, COMTRADE."""

from __future__ import annotations

import csv
from datetime import UTC, datetime

import numpy as np

from diploee.base.clock import local_datetime
from diploee.base.errors import InputError, printable
from diploee.base.units import MS_PER_S, W_PER_MW
from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.grid.export.csv_writer import csv_file

ROW = "TimeSeries.csv"
HEAD = (
    "idx",
    "u",
    "name",
    "mode",
    "path",
    "sheet",
    "fields",
    "tkey",
    "model",
    "dev",
    "dests",
)


def write_andes(request: ExportRequest) -> WrittenFiles:
    """Write the data of an ANDES TimeSeries device, and its row for a case file."""
    options = request.options
    data = f"{options.name}.csv"
    fields, dests = ["p_pu"], ["Ppf"]
    if request.has_reactive:
        fields, dests = [*fields, "q_pu"], [*dests, "Qpf"]
    first: list[float] = []
    with csv_file(request.path / data, ("t", *fields)) as write:
        for block in request.blocks():
            # The solver's times are floats of three decimals, as `time_s` gives them.
            per_unit = [np.round(c / options.mva, 9) for c in block.columns]
            first = first or [float(values[0]) for values in per_unit]
            write(block.time_s, *per_unit)
    row = (
        f"{options.name}_ts",
        "1",
        options.name,
        "1",
        data,
        "0",
        ",".join(fields),
        "t",
        "PQ",
        options.name,
        ",".join(dests),
    )
    with (request.path / ROW).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows((HEAD, row))
    start = ", ".join(
        f"{name}0={value!r}" for name, value in zip("pq", first, strict=False)
    )
    return WrittenFiles(
        {
            data: f"t: s since the first step's start; {', '.join(fields)}: pu of "
            f"{options.mva:g} MVA",
            ROW: (
                "the row of the sheet TimeSeries of a case; its dev is the idx of the "
                "PQ"
            ),
        },
        (
            f"ss.add('TimeSeries', ...) takes the row before ss.setup(); give the PQ "
            f"'{options.name}' {start}, or the run begins with a step",
            (
                "before setup: PQ.config.update(p2p=1, p2z=0, q2q=1, q2z=0), else the "
                "load becomes an impedance"
            ),
            "mode 1 holds each value until the next t: it is a mean over the step",
        ),
    )


JUMP_S = 1e-6
"""Rise time [s] between two steps in a PSCAD file (ASSUMPTION)."""


def write_pscad(request: ExportRequest) -> WrittenFiles:
    """Write a playback file for PSCAD's File Read component.

    The file has a comment line, then rows of time [s] and values from 0 s on. PSCAD
    interpolates, so each step of the power is written as two rows 1 us apart.
    """
    options = request.options
    heads, mean_mw = ["P [MW, consumption > 0]", "Q [Mvar, drawn > 0]"], 0.0
    if options.signal == "dp_pu":
        heads = [f"dP [pu of {options.mva:g} MVA, added load > 0]"]
        for _ in request.blocks():
            pass
        mean_mw = request.energy_j / (request.n_steps * request.step_s) / W_PER_MW
    elif not request.has_reactive:
        heads.pop()
    previous: list[float] = []
    with request.path.open("w", encoding="ascii", newline="\n") as file:
        file.write(f"! diploee: t [s]  {'  '.join(heads)}\n")
        for block in request.blocks():
            columns = block.columns
            if options.signal == "dp_pu":
                columns = [(columns[0] - mean_mw) / options.mva]
            for t, *values in np.column_stack([block.time_s, *columns]).tolist():
                if previous and previous != values:
                    file.write(_pscad_row(t, previous) + _pscad_row(t + JUMP_S, values))
                elif not previous:
                    file.write(_pscad_row(t, values))
                previous = values
        file.write(_pscad_row(request.n_steps * request.step_s, previous))
    return WrittenFiles(
        {request.path.name: f"t in s; {'; '.join(heads)}"},
        (
            (
                "consumption is above 0: as a source, change its sign; not verified "
                "in PSCAD"
            ),
            (
                "the first line is a comment, as File Read skips it; a head of column "
                "names breaks it"
            ),
            (
                "each value holds over its step: pairs of rows 1 us apart, and a last "
                "row at the end"
            ),
        ),
    )


def _pscad_row(t: float, values: list[float]) -> str:
    """Return a line of the playback file: time [s] and values."""
    return "  ".join([f"{t:.6f}", *(f"{value:.6E}" for value in values)]) + "\n"


MAX_SAMPLES = 999_999
"""Maximum number of samples of a COMTRADE record."""
FULL_SCALE = 32_767
US_PER_S = 1_000_000
TIME_FACTOR = 100
"""Smallest unit of sample times [us]; multiplied by ten until an int32 can hold the
last time."""
INT32_MAX = 2**31 - 1


def write_comtrade(request: ExportRequest, revision: int) -> WrittenFiles:
    """Write a COMTRADE record (revision 1999 or 2013) for relay, PMU and EMT tools."""
    if request.n_steps > MAX_SAMPLES:
        raise InputError(
            f"{request.run.folder}: {request.n_steps:,} samples, a COMTRADE record "
            f"takes up to {MAX_SAMPLES:,}; give --event-window, or --from and --to"
        )
    blocks = list(request.blocks())
    block_columns = [(block.time_s, *block.columns) for block in blocks]
    time_s, *values = (
        np.concatenate(column) for column in zip(*block_columns, strict=True)
    )
    factor = TIME_FACTOR
    while time_s[-1] * US_PER_S / factor > INT32_MAX:
        factor *= 10
    ticks = np.rint(time_s * US_PER_S / factor)
    channels: list[str] = []
    kinds, columns = ["i4", "i4"], [np.arange(1, time_s.size + 1), ticks]
    for (name, unit), channel_values in zip(
        (("P", "MW"), ("Q", "Mvar")), values, strict=False
    ):
        scale, offset, stored = 1.0, 0.0, channel_values
        if revision == 1999:  # whole numbers: P = scale * stored + offset
            low, high = float(channel_values.min()), float(channel_values.max())
            offset, scale = (high + low) / 2, max((high - low) / 2, 1e-6) / FULL_SCALE
            stored = np.rint((channel_values - offset) / scale)
        kinds.append("i4" if revision == 1999 else "f4")
        channels.append(
            f"{len(channels) + 1},{name},,{request.options.name},{unit},{scale!r},"
            f"{offset!r},0,{-FULL_SCALE},{FULL_SCALE},1,1,P"
        )
        columns.append(stored)
    record = np.rec.fromarrays(
        columns, dtype=[(f"c{k}", f"<{kind}") for k, kind in enumerate(kinds)]
    )
    stem, data = request.options.name, record.tobytes()
    if revision == 1999:
        data = "".join(
            ",".join(map(str, row)) + "\r\n" for row in record.tolist()
        ).encode("ascii")
    (request.path / f"{stem}.dat").write_bytes(data)
    begin = local_datetime(int(blocks[0].starts_ms[0]), UTC)
    clock = "the stamps are UTC, and the record says so"
    # Revision 1999 has no field for a zone: readers assume local time
    if revision == 1999:
        begin = begin.astimezone(request.run.scenario.facility.zone)
        clock = (
            f"the stamps are the site's local time, UTC{begin.isoformat()[-6:]} as at "
            "the record's start, as this revision has no field for a zone"
        )
    config = _config_lines(request, channels, revision, begin, factor)
    (request.path / f"{stem}.cfg").write_bytes(
        "\r\n".join([*config, ""]).encode("ascii", "replace")
    )
    units = "P in MW" + ("; Q in Mvar, above 0 drawn" if len(values) > 1 else "")
    return WrittenFiles(
        {f"{stem}.cfg": f"COMTRADE {revision} configuration", f"{stem}.dat": units},
        (
            clock,
            (
                "a sample is the mean over the step that begins at its time; no "
                "instantaneous value"
            ),
        ),
    )


def _config_lines(
    request: ExportRequest,
    channels: list[str],
    revision: int,
    begin: datetime,
    factor: int,
) -> list[str]:
    """Return the lines of the COMTRADE configuration file."""
    stamp = f"{begin:%d/%m/%Y,%H:%M:%S.%f}"
    return [
        f"{printable(request.run.scenario.name).replace(',', ' ')},diploee,{revision}",
        f"{len(channels)},{len(channels)}A,0D",
        *channels,
        "60",
        "1",
        f"{MS_PER_S / request.step_ms:g},{request.n_steps}",
        stamp,
        stamp,
        "ASCII" if revision == 1999 else "FLOAT32",
        f"{factor}",
        *(["0,x", "B,3"] if revision == 2013 else []),
    ]
