"""GridLAB-D: a player file of complex power, and the model that plays it on three phases."""

from __future__ import annotations

import numpy as np

from diploee.errors import InputError
from diploee.outputs.export.base import ExportRequest, Format, Written
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S, W_PER_MW

PHASES = "ABC"


def _write(request: ExportRequest) -> Written:
    series, name = request.series, request.options.name
    if series.step_ms % MS_PER_S:
        raise InputError(
            f"{request.run.folder}: GridLAB-D's clock has whole seconds, found a step of "
            f"{series.step_s:g} s; choose a --step such as '1 s'"
        )
    player = f"{name}.player"
    with (request.path / player).open("w", encoding="ascii", newline="\n") as file:
        for block in series.blocks():
            p_mw, *q_mvar = request.power_columns(block)
            reactive = q_mvar[0] if q_mvar else np.zeros_like(p_mw)
            file.writelines(_lines(block.starts_ms, p_mw, reactive))
    (request.path / f"{name}.glm").write_text(_model(name, player), encoding="ascii")
    return Written(
        {
            player: "a third of the facility, P+Qj in VA, by UTC",
            f"{name}.glm": "#include it behind 'module powerflow;'; set parent and voltage",
        },
        ("each value holds until the next stamp: it is a mean over the step",),
    )


def _lines(starts_ms: Int64Array, p_mw: Float64Array, q_mvar: Float64Array) -> list[str]:
    stamps = np.datetime_as_string(starts_ms.astype("datetime64[ms]"), unit="s")
    per_phase = W_PER_MW / len(PHASES)
    return [
        f"{stamp[:10]} {stamp[11:]} UTC,{p:.3f}{q:+.3f}j\n"
        for stamp, p, q in zip(
            stamps.tolist(), (p_mw * per_phase).tolist(), (q_mvar * per_phase).tolist(), strict=True
        )
    ]


def _model(name: str, player: str) -> str:
    players = "".join(
        f"    object player {{ property constant_power_{phase}; file {player}; }};\n"
        for phase in PHASES
    )
    return (
        "// diploee export: a load that plays P(t) and Q(t); a playback supports no fault study\n"
        "module tape;\n"
        f"object load {{\n    name {name};\n    phases ABCN;\n    nominal_voltage 7200;\n"
        f"{players}}}\n"
    )


GRIDLABD = Format(
    name="gridlabd",
    summary="GridLAB-D folder: player of P+Qj (steps of whole seconds) and its load",
    write=_write,
    suffixes=(),
    options=frozenset({"q_table", "name"}),
)
