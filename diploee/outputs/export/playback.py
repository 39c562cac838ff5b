"""Playback into dynamic models: ``t_s,p_mw`` and, where there is reactive power, ``q_mvar``."""

from __future__ import annotations

import numpy as np

from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.series import ExportBlock, Series
from diploee.outputs.export.text import CsvFile
from diploee.tables import Float64Array
from diploee.units import MS_PER_S


def seconds(series: Series, block: ExportBlock) -> Float64Array:
    """Return the start of each step since the start of the export [s]."""
    return np.round(block.positions * series.step_ms / MS_PER_S, 3)


def _write(request: ExportRequest) -> Written:
    header = ("t_s", "p_mw", "q_mvar") if request.has_reactive else ("t_s", "p_mw")
    with CsvFile(request.path, header) as file:
        for block in request.series.blocks():
            file.write(seconds(request.series, block), *request.power_columns(block))
    units = "t_s: s since the first step's start; p_mw: MW"
    return Written(
        {request.path.name: units + ("; q_mvar: Mvar" if request.has_reactive else "")},
        ("hold each value until the next t_s: it is a mean over the step, no sample at its start",),
    )


PLAYBACK = Format(
    name="playback",
    summary="playback CSV for dynamic models: t_s,p_mw[,q_mvar]",
    write=_write,
    options=frozenset({"q_table"}),
)
