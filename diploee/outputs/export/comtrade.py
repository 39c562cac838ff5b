"""COMTRADE: a record of an event window that relay, PMU and EMT tools read."""

from __future__ import annotations

from functools import partial

import numpy as np

from diploee.errors import InputError, printable
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.units import MS_PER_S

MOST_SAMPLES = 999_999
"""Samples of a record; what is longer is no record of an event."""
FULL_SCALE = 32_767
US_PER_S = 1_000_000
TIME_FACTOR = 100
"""Microseconds of a unit of the sample times; ten times as many until an int32 holds the last."""
INT32_MAX = 2**31 - 1


def _write(request: ExportRequest, revision: int) -> Written:
    series = request.series
    if series.n_steps > MOST_SAMPLES:
        raise InputError(
            f"{request.run.folder}: {series.n_steps:,} samples, a COMTRADE record takes up to "
            f"{MOST_SAMPLES:,}; give --event-window, or --from and --to"
        )
    blocks = list(series.blocks())
    parts = [(block.time_s, *request.power_columns(block)) for block in blocks]
    time_s, *values = (np.concatenate(column) for column in zip(*parts, strict=True))
    factor = TIME_FACTOR
    while time_s[-1] * US_PER_S / factor > INT32_MAX:
        factor *= 10
    ticks = np.rint(time_s * US_PER_S / factor)
    channels: list[str] = []
    kinds, columns = ["i4", "i4"], [np.arange(1, time_s.size + 1), ticks]
    for (name, unit), of_channel in zip((("P", "MW"), ("Q", "Mvar")), values, strict=False):
        scale, offset, stored = 1.0, 0.0, of_channel
        if revision == 1999:  # whole numbers: P = scale * stored + offset
            low, high = float(of_channel.min()), float(of_channel.max())
            offset, scale = (high + low) / 2, max((high - low) / 2, 1e-6) / FULL_SCALE
            stored = np.rint((of_channel - offset) / scale)
        kinds.append("i4" if revision == 1999 else "f4")
        channels.append(
            f"{len(channels) + 1},{name},,{request.options.name},{unit},{scale!r},{offset!r},0,"
            f"{-FULL_SCALE},{FULL_SCALE},1,1,P"
        )
        columns.append(stored)
    record = np.rec.fromarrays(
        columns, dtype=[(f"c{k}", f"<{kind}") for k, kind in enumerate(kinds)]
    )
    stem, data = request.options.name, record.tobytes()
    if revision == 1999:
        data = "".join(",".join(map(str, row)) + "\r\n" for row in record.tolist()).encode("ascii")
    (request.path / f"{stem}.dat").write_bytes(data)
    config = _config(request, channels, revision, int(blocks[0].starts_ms[0]), factor)
    (request.path / f"{stem}.cfg").write_bytes(
        "\r\n".join([*config, ""]).encode("ascii", "replace")
    )
    units = "P in MW" + ("; Q in Mvar, above 0 drawn" if len(values) > 1 else "")
    return Written(
        {f"{stem}.cfg": f"COMTRADE {revision} configuration", f"{stem}.dat": units},
        (
            "the stamps are UTC",
            "a sample is the mean over the step that begins at its time; no instantaneous value",
        ),
    )


def _config(
    request: ExportRequest, channels: list[str], revision: int, start_ms: int, factor: int
) -> list[str]:
    day, clock = str(np.datetime64(start_ms, "ms").astype("datetime64[us]")).split("T")
    begin = f"{'/'.join(reversed(day.split('-')))},{clock}"
    return [
        f"{printable(request.run.scenario.name).replace(',', ' ')},diploee,{revision}",
        f"{len(channels)},{len(channels)}A,0D",
        *channels,
        "60",
        "1",
        f"{MS_PER_S / request.series.step_ms:g},{request.series.n_steps}",
        begin,
        begin,
        "ASCII" if revision == 1999 else "FLOAT32",
        f"{factor}",
        *(["0,x", "B,3"] if revision == 2013 else []),
    ]


COMTRADE, COMTRADE_1999 = (
    Format(
        name=name,
        summary=summary,
        write=partial(_write, revision=revision),
        suffixes=(),
        options=frozenset({"q_table", "name"}),
    )
    for name, revision, summary in (
        (
            "comtrade",
            2013,
            "COMTRADE 2013 record (FLOAT32) of an event window or a span: P, and Q where known",
        ),
        ("comtrade-1999", 1999, "COMTRADE 1999 record (ASCII), which older tools read"),
    )
)
