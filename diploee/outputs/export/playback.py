"""Playback into dynamic models: ``t_s,p_mw`` and, from a user's table, ``q_mvar``."""

from __future__ import annotations

import numpy as np

from diploee.outputs.export.base import Format, Job, Written
from diploee.outputs.export.series import Block, Series
from diploee.outputs.export.text import CsvFile, in_mw
from diploee.tables import Float64Array
from diploee.units import MS_PER_S


def seconds(series: Series, block: Block) -> Float64Array:
    """Return the start of each step since the start of the export [s]."""
    return np.round(block.positions * series.step_ms / MS_PER_S, 3)


def _write(job: Job) -> Written:
    header = ("t_s", "p_mw", "q_mvar") if job.reactive is not None else ("t_s", "p_mw")
    with CsvFile(job.place, header) as file:
        for block in job.series.blocks():
            columns = [seconds(job.series, block), in_mw(block.power_w)]
            if job.reactive is not None:
                columns.append(np.round(job.reactive.at(block.power_w), 9))
            file.write(*columns)
    units = "t_s: s since the first step's start; p_mw: MW"
    return Written(
        {job.place.name: units + ("; q_mvar: Mvar" if job.reactive is not None else "")},
        ("hold each value until the next t_s: it is a mean over the step, no sample at its start",),
    )


PLAYBACK = Format(
    name="playback",
    summary="playback CSV for dynamic models: t_s,p_mw[,q_mvar]",
    write=_write,
    options=frozenset({"q_table"}),
)
