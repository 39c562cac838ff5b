"""OpenG2G: a training trace of one GPU, which others read too, and the load of a facility."""

from __future__ import annotations

from functools import partial

import numpy as np

from diploee.errors import InputError
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.outputs.export.playback import seconds
from diploee.outputs.export.text import CsvFile, in_kw
from diploee.scenario import Facility


def _write(request: ExportRequest, header: tuple[str, str]) -> Written:
    if request.run.scenario.facility.has_phases:
        raise InputError(
            f"{request.run.folder}: GPUs are added in the course of the run (phases of a pool), so "
            "there is no power per GPU of all; export 'openg2g-load' or 'playback'"
        )
    n_gpus = gpus_behind(request.run.scenario.facility, request.options.column)
    if not n_gpus:
        raise InputError(
            f"{request.run.folder}: no node behind '{request.options.column}' has a GPU, so "
            "there is no power per GPU; export 'playback'"
        )
    if request.series.n_steps < 2:
        raise InputError(
            f"{request.run.folder}: OpenG2G needs two samples or more, choose a finer --step"
        )
    with CsvFile(request.path, header) as file:
        for block in request.series.blocks():
            file.write(seconds(request.series, block), np.round(block.power_w / n_gpus, 6))
    return Written(
        {request.path.name: f"{header[0]}: s since the first step's start; {header[1]}: W per GPU"},
        (
            f"the power over all {n_gpus:,} GPUs, busy or idle, with the CPU packages' share: "
            f"times {n_gpus:,} it is the column's power",
            "OpenG2G repeats the trace, interpolates between its samples and rescales its peak to "
            "the power per GPU that its user asks for",
        ),
    )


def gpus_behind(facility: Facility, column: str) -> int:
    """Return the GPUs whose power a column holds: one pool's, or all."""
    of_pool = column.partition(".")[2]
    return sum(
        pool.n_nodes * facility.node_type_of(name).n_gpus
        for name, pool in facility.pools.items()
        if name == of_pool or not of_pool
    )


def _write_load(request: ExportRequest) -> Written:
    with CsvFile(request.path, ("t_s", "p_kw")) as file:
        for block in request.series.blocks():
            file.write(seconds(request.series, block), in_kw(block.power_w))
    return Written(
        {request.path.name: "t_s: s since the first step's start; p_kw: kW of the facility"},
        ("OpenG2G interpolates between the rows and holds the last",),
    )


OPENG2G = Format(
    name="openg2g",
    summary="OpenG2G training trace: t_s,power_W per GPU",
    write=partial(_write, header=("t_s", "power_W")),
    column="it_power_w",
)
OPENG2G_LOAD = Format(
    name="openg2g-load",
    summary="OpenG2G facility load: t_s,p_kw",
    write=_write_load,
)
GPU_DATA = Format(
    name="gpu-data",
    summary="GPU_data.csv of data center dynamic models: t_seconds,P_gpu_W per GPU",
    write=partial(_write, header=("t_seconds", "P_gpu_W")),
    column="it_power_w",
)
