"""COMTRADE: a record of an event window that relay, PMU and EMT tools read."""

from __future__ import annotations

from functools import partial

import numpy as np

from diploee.errors import InputError, printable
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.playback import seconds
from diploee.units import MS_PER_S

MOST_SAMPLES = 999_999
"""Samples of a record; what is longer is no record of an event."""
FULL_SCALE = 32_767
US_PER_S = 1_000_000
TIME_FACTOR = 100
"""Microseconds of a unit of the sample times, so that an int32 holds more than two days."""


def _write(request: ExportRequest, revision: int) -> Written:
    series = request.series
    if series.n_steps > MOST_SAMPLES:
        raise InputError(
            f"{request.run.folder}: {series.n_steps:,} samples, a COMTRADE record takes up to "
            f"{MOST_SAMPLES:,}; give --event-window, or --from and --to"
        )
    blocks = list(series.blocks())
    time_s = np.concatenate([seconds(series, block) for block in blocks])
    parts = [request.power_columns(block) for block in blocks]
    values = [np.concatenate(column) for column in zip(*parts, strict=True)]
    number = np.arange(1, time_s.size + 1)
    ticks = np.rint(time_s * US_PER_S / TIME_FACTOR).astype(np.int64)
    channels, columns = [], []
    for index, (name, unit, of_channel) in enumerate(
        zip(("P", "Q"), ("MW", "Mvar"), values, strict=False), start=1
    ):
        scale, offset, stored = 1.0, 0.0, of_channel
        if revision == 1999:  # whole numbers: P = scale * stored + offset
            low, high = float(of_channel.min()), float(of_channel.max())
            offset, scale = (high + low) / 2, max((high - low) / 2, 1e-6) / FULL_SCALE
            stored = np.rint((of_channel - offset) / scale)
        channels.append(
            f"{index},{name},,{request.options.name},{unit},{scale!r},{offset!r},0,"
            f"{-FULL_SCALE},{FULL_SCALE},1,1,P"
        )
        columns.append(stored)
    stem = request.options.name
    if revision == 1999:
        rows = zip(number.tolist(), ticks.tolist(), *(c.astype(int).tolist() for c in columns),
                   strict=True)  # fmt: skip
        text = "".join(",".join(map(str, row)) + "\r\n" for row in rows)
        (request.path / f"{stem}.dat").write_bytes(text.encode("ascii"))
    else:
        kinds = [("n", "<i4"), ("t", "<i4"), *((f"c{k}", "<f4") for k in range(len(columns)))]
        record = np.empty(time_s.size, dtype=np.dtype(kinds))
        for name, column in zip(
            (name for name, _ in kinds), (number, ticks, *columns), strict=True
        ):
            record[name] = column
        (request.path / f"{stem}.dat").write_bytes(record.tobytes())
    config = _config(request, channels, revision, int(blocks[0].starts_ms[0]), time_s.size)
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
    request: ExportRequest, channels: list[str], revision: int, start_ms: int, n_samples: int
) -> list[str]:
    stamp = str(np.datetime64(start_ms, "ms").astype("datetime64[us]"))
    day, clock = stamp.split("T")
    year, month, date = day.split("-")
    begin = f"{date}/{month}/{year},{clock}"
    station = printable(request.run.scenario.name).replace(",", " ")
    further = ["0,x", "B,3"] if revision == 2013 else []
    return [
        f"{station},diploee,{revision}",
        f"{len(channels)},{len(channels)}A,0D",
        *channels,
        "60",
        "1",
        f"{MS_PER_S / request.series.step_ms:g},{n_samples}",
        begin,
        begin,
        "ASCII" if revision == 1999 else "FLOAT32",
        f"{TIME_FACTOR}",
        *further,
    ]


COMTRADE = Format(
    name="comtrade",
    summary="COMTRADE 2013 record (FLOAT32) of an event window or a span: P, and Q where known",
    write=partial(_write, revision=2013),
    suffixes=(),
    options=frozenset({"q_table", "name"}),
)
COMTRADE_1999 = Format(
    name="comtrade-1999",
    summary="COMTRADE 1999 record (ASCII), which older tools read",
    write=partial(_write, revision=1999),
    suffixes=(),
    options=frozenset({"q_table", "name"}),
)
