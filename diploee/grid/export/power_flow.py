"""Exports for power-flow tools: OpenDSS, PyPSA, pandapower, GridLAB-D."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from diploee.base.errors import InputError, printable
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_KW, W_PER_MW
from diploee.grid.export.base import ExportRequest, WrittenFiles
from diploee.grid.export.csv_writer import csv_file, naive_stamps

MULTIPLIER_DIGITS = 12
"""Decimals of a multiplier in pu of the peak; the peak is exactly 1."""

KW_DIGITS = 6
KVAR_PER_MVAR = 1e3


def write_opendss(request: ExportRequest) -> WrittenFiles:
    """Write an OpenDSS LoadShape with its files, and the Load that uses it."""
    (peak_kw, peak_kvar), actual = _peaks(request), request.options.actual
    kw_base, kvar_base = (1.0, 1.0) if actual else (peak_kw, peak_kvar or 1.0)
    digits = KW_DIGITS if actual else MULTIPLIER_DIGITS
    with ExitStack() as stack:
        names = ("p.csv", "q.csv") if request.has_reactive else ("p.csv",)
        write_p, *write_q = (
            stack.enter_context(csv_file(request.path / name)) for name in names
        )
        for block in request.blocks():
            write_p(np.round(block.power_w / W_PER_KW / kw_base, digits))
            if write_q and block.q_mvar is not None:
                write_q[0](np.round(block.q_mvar * KVAR_PER_MVAR / kvar_base, digits))
    script = request.path / f"{request.options.name}.dss"
    script.write_text(_opendss_script(request, peak_kw, peak_kvar), encoding="utf-8")
    units = {
        "p.csv": "pmult, kW" if actual else f"pmult, 1, of the peak {peak_kw:.6f} kW",
        "q.csv": "qmult, kvar" if actual else f"qmult, 1, of {peak_kvar:.6f} kvar",
    }
    if not request.has_reactive:
        del units["q.csv"]
    return WrittenFiles(
        {script.name: "New LoadShape and New Load; Redirect it", **units},
        (
            (
                "the first value is the mean over the first step: OpenDSS applies it "
                "to the solution at the step's end"
            ),
            (
                "bus1 and kV of the Load are those of --bus and --kv; phases and "
                "connection are OpenDSS's defaults"
            ),
        ),
    )


def _peaks(request: ExportRequest) -> tuple[float, float]:
    """Return the largest active power [kW] and the largest reactive power [kvar]."""
    peak_w = peak_kvar = 0.0
    for block in request.blocks():
        peak_w = max(peak_w, float(block.power_w.max()))
        if block.q_mvar is not None:
            peak_kvar = max(
                peak_kvar, float(np.abs(block.q_mvar).max()) * KVAR_PER_MVAR
            )
    if peak_w <= 0:
        raise InputError(
            f"{request.run.folder}: '{request.options.column}' is never above 0 W; no "
            "load to export"
        )
    return peak_w / W_PER_KW, peak_kvar


def _opendss_script(request: ExportRequest, peak_kw: float, peak_kvar: float) -> str:
    """Return the OpenDSS commands that define the LoadShape and the Load."""
    options = request.options
    interval = (
        f"minterval={request.step_ms // MS_PER_MIN}"
        if request.step_ms % MS_PER_MIN == 0
        else f"sinterval={request.step_s:g}"
    )
    qmult = " qmult=(file=q.csv)" if request.has_reactive else ""
    match request.reactive:
        case None:
            reactive = "the run has none; kvar=0 is no statement on a power factor"
        case str(column):
            reactive = f"the run's {column}, above 0 drawn by the load"
        case _:
            reactive = "from the user's Q(P) table, above 0 drawn by the load"
    shape = options.name
    return "\n".join(
        (
            # A line break in the text of a manipulated file would start a command.
            printable(
                f"! diploee export of {request.run.scenario.name}, {options.column}."
            ),
            printable(f"! Power boundary: {request.run.boundary(options.column)}."),
            (f"! Means over steps of {request.step_s:g} s from {request.start}."),
            "! A playback of P(t) supports no fault study.",
            f"! Reactive power: {reactive}.",
            (
                f"New LoadShape.{shape} npts={request.n_steps} {interval} "
                f"pmult=(file=p.csv){qmult} "
                f"useactual={'yes' if options.actual else 'no'}"
            ),
            (
                f"New Load.{shape} bus1={options.bus} kV={options.kv:g} model=1 "
                f"status=variable kW={peak_kw!r} kvar={peak_kvar!r} yearly={shape} "
                f"daily={shape} duty={shape}"
            ),
            "",
        )
    )


def write_pypsa(request: ExportRequest) -> WrittenFiles:
    """Write a folder for PyPSA's ``Network.import_from_csv_folder``."""
    name, bus = request.options.name, request.options.bus
    hours = request.step_ms / MS_PER_H
    with csv_file(request.path / "buses.csv", ("name",)) as write:
        write([bus])
    with csv_file(request.path / "loads.csv", ("name", "bus")) as write:
        write([name], [bus])
    with ExitStack() as stack:
        # The columns of PyPSA's own export; it reads the stamps from the second.
        header = ("", "snapshot", "objective", "stores", "generators")
        write_snapshots = stack.enter_context(
            csv_file(request.path / "snapshots.csv", header)
        )
        names = ("p_set", "q_set") if request.has_reactive else ("p_set",)
        sets = [
            stack.enter_context(
                csv_file(request.path / f"loads-{key}.csv", ("snapshot", name))
            )
            for key in names
        ]
        for block in request.blocks():
            stamps = naive_stamps(block.starts_ms, request.needs_milliseconds)
            weights = np.full(block.power_w.size, hours)
            write_snapshots(block.positions, stamps, weights, weights, weights)
            for write_set, values in zip(sets, block.columns, strict=True):
                write_set(stamps, values)
    files = {
        "snapshots.csv": (
            "start of each step, naive UTC; weightings: its length in hours"
        ),
        "buses.csv": f"the bus '{bus}', which PyPSA needs to import the folder",
        "loads.csv": f"the load '{name}'",
        "loads-p_set.csv": "MW",
    }
    if request.has_reactive:
        files["loads-q_set.csv"] = "Mvar"
    return WrittenFiles(files, ("stamps are naive UTC, as PyPSA's are; no local time",))


INDEX = "step"


def write_pandapower(request: ExportRequest) -> WrittenFiles:
    """Write a table for pandapower's ``DFData``, with an integer index of steps."""
    names = [f"{request.options.name}_p_mw"]
    if request.has_reactive:
        names.append(f"{request.options.name}_q_mvar")
    if request.path.suffix == ".csv":
        with csv_file(request.path, (INDEX, *names)) as write:
            for block in request.blocks():
                write(block.positions, *block.columns)
        reader = f"pandas.read_csv(file, index_col='{INDEX}')"
    else:
        _write_parquet(request, names)
        reader = "pandas.read_parquet(file)"
    content = f"{', '.join(names)} by integer step; MW{', Mvar' if names[1:] else ''}"
    return WrittenFiles(
        {request.path.name: content},
        (
            f"DFData({reader}); ConstControl(net, 'load', 'p_mw', [index of the load], "
            f"data_source=that, profile_name=['{names[0]}'])"
            f"{', and one more for q_mvar' if names[1:] else ''}",
        ),
    )


def _write_parquet(request: ExportRequest, names: list[str]) -> None:
    """Write the table as Parquet, with an index that pandas restores."""
    import pandas as pd

    index = pd.Index(np.empty(0, dtype=np.int64), name=INDEX)
    empty = pd.DataFrame({name: np.empty(0) for name in names}, index=index)
    # The schema's metadata let pandas restore the index.
    schema = pa.Schema.from_pandas(empty, preserve_index=True)
    with pq.ParquetWriter(request.path, schema, compression="zstd") as writer:
        for block in request.blocks():
            columns = dict(zip(names, block.columns, strict=True))
            writer.write_table(
                pa.table({**columns, INDEX: block.positions}, schema=schema)
            )


PHASES = "ABC"
ZONE = "GMT"
"""Time zone of the player's timestamps.

GridLAB-D 6.0.0 reads this name under every timezone of its clock, besides the clock's
own name. `UTC` makes it stop (tested with EST5EDT, UTC0 and GMT0).
"""


def write_gridlabd(request: ExportRequest) -> WrittenFiles:
    """Write a GridLAB-D player file of complex power, and the load that plays it."""
    name = request.options.name
    if request.step_ms % MS_PER_S:
        raise InputError(
            f"{request.run.folder}: GridLAB-D's clock has whole seconds, found a step "
            f"of {request.step_s:g} s; choose a --step such as '1 s'"
        )
    player = f"{name}.player"
    with (request.path / player).open("w", encoding="ascii", newline="\n") as file:
        for block in request.blocks():
            p_mw, *q_mvar = block.columns
            reactive = q_mvar[0] if q_mvar else np.zeros_like(p_mw)
            file.writelines(_player_lines(block.starts_ms, p_mw, reactive))
    (request.path / f"{name}.glm").write_text(
        _gridlabd_model(name, player), encoding="ascii"
    )
    return WrittenFiles(
        {
            player: f"a third of the facility, P+Qj in VA, by {ZONE}",
            f"{name}.glm": (
                "#include it behind 'module powerflow;'; set parent and voltage"
            ),
        },
        (
            "each value holds until the next stamp: it is a mean over the step",
            (
                f"the stamps name their zone, {ZONE}: the clock may have any timezone "
                "of whole hours, such as EST5EDT, and its starttime and stoptime are "
                "local time of that, from 'start' to 'end' above; before the first "
                "stamp the load draws nothing"
            ),
        ),
    )


def _player_lines(
    starts_ms: Int64Array, p_mw: Float64Array, q_mvar: Float64Array
) -> list[str]:
    """Return the lines of a player file: timestamp, complex power of a phase [VA]."""
    stamps = np.datetime_as_string(starts_ms.astype("datetime64[ms]"), unit="s")
    per_phase = W_PER_MW / len(PHASES)
    return [
        f"{stamp[:10]} {stamp[11:]} {ZONE},{p:.3f}{q:+.3f}j\n"
        for stamp, p, q in zip(
            stamps.tolist(),
            (p_mw * per_phase).tolist(),
            (q_mvar * per_phase).tolist(),
            strict=True,
        )
    ]


def _gridlabd_model(name: str, player: str) -> str:
    """Return the GridLAB-D model of a load with a player for each phase."""
    players = "".join(
        f"    object player {{ property constant_power_{phase}; file {player}; }};\n"
        for phase in PHASES
    )
    return (
        "// diploee export: a load that plays P(t) and Q(t); a playback supports no "
        "fault study\n"
        "module tape;\n"
        f"object load {{\n    name {name};\n    phases ABCN;\n    nominal_voltage "
        "7200;\n"
        f"{players}}}\n"
    )
