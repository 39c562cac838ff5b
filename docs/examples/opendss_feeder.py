"""A run's site at the end of a feeder in OpenDSS, step by step, through a dip.

    python opendss_feeder.py RUN_DIR > answer.csv

It needs OpenDSSDirect.py, as pip install "diploee[grid-test]" has it.
"""

from __future__ import annotations

import sys

import diploee

try:
    import opendssdirect as dss
except ImportError:
    sys.exit('this example needs OpenDSSDirect.py: pip install "diploee[grid-test]"')

KV, SHORT_CIRCUIT_MVA, STEP_S, END_S = 34.5, 600.0, 0.01, 10.0
DIP = {"starts_s": 2.0, "ends_s": 2.1, "pu": 0.45}  # of the source

site = diploee.open_run(sys.argv[1]).site()
power = site.step(0.0, 1.0, 60.0)
for command in (
    "clear",
    f"new circuit.grid bus1=source basekv={KV} pu=1 mvasc3={SHORT_CIRCUIT_MVA}",
    "new line.feeder bus1=source bus2=site length=5 units=km r1=0.06 x1=0.12",
    # Below vminpu a load of constant power would become an impedance: the site answers
    # itself.
    f"new load.site bus1=site kv={KV} model=1 vminpu=0 vmaxpu=2 kw=0 kvar=0",
    f"set voltagebases=[{KV}]",
    "calcvoltagebases",
    "set mode=snapshot controlmode=off maxiterations=100",
):
    dss.Text.Command(command)


def solved(source_pu: float, power: tuple[float, float]) -> float:
    """Return the site's voltage for a source voltage and a power [MW, Mvar]."""
    dss.Text.Command(f"edit vsource.source pu={source_pu}")
    dss.Text.Command(
        f"edit load.site kw={1e3 * power[0]:.6f} kvar={1e3 * power[1]:.6f}"
    )
    dss.Solution.Solve()
    if not dss.Solution.Converged():
        sys.exit(
            "the feeder has no solution: it can't carry this power at this voltage"
        )
    dss.Circuit.SetActiveBus("site")
    return dss.Bus.puVmagAngle()[0]


before_pu = solved(1.0, power)  # at which the load is the run's own
print("t_s,voltage_pu,p_mw,q_mvar")
for k in range(1, round(END_S / STEP_S) + 1):
    dips = DIP["starts_s"] < k * STEP_S <= DIP["ends_s"]
    pu = solved(DIP["pu"] if dips else 1.0, power)
    power = site.step(k * STEP_S, pu / before_pu, 60.0)
    print(f"{k * STEP_S:.6f},{pu:.5f},{power[0]:.4f},{power[1]:.4f}")
