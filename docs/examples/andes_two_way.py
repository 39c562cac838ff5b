"""A run's site on the IEEE 39-bus system in ANDES, two ways, through a fault beside it.

    python andes_two_way.py RUN_DIR > answer.csv

ANDES (GPL) is for an environment of its own: pip install "diploee[grid-test]".
"""

from __future__ import annotations

import sys

import diploee

try:
    import andes
except ImportError:
    sys.exit('needs ANDES: pip install "diploee[grid-test]"')

BUS, FAULT_AT, FAULT_S, STEP_S, END_S = 15, 16, 0.08, 1 / 240, 3.0

andes.config_logger(40)
case = andes.get_case("ieee39/ieee39_full.xlsx")
system = andes.load(case, setup=False, no_output=True, default_config=True)
# The other loads are impedances, ANDES' default; this one draws what the site draws.
site = diploee.open_run(sys.argv[1]).site()
p_mw, q_mvar = site.step(0.0, 1.0, 60.0)
for model, idx, fields in (
    ("PQ", "site", {"bus": BUS, "Vn": 345.0, "p0": p_mw / 100, "q0": q_mvar / 100}),
    ("FLoad", "draws", {"pq": "site", "ap": 0.0, "aq": 0.0, "bp": 0.0, "bq": 0.0}),
    ("Fault", "fault", {"bus": FAULT_AT, "tf": 1.0, "tc": 1.0 + FAULT_S, "xf": 0.004}),
):
    system.add(model, {"idx": idx, "name": idx, **fields})
system.setup()
system.PFlow.run()
voltage = system.Bus.v.a[system.Bus.idx2uid(BUS)]
before_pu = system.dae.y[voltage]  # at which the load is the run's own
print("t_s,voltage_pu,frequency_hz,p_mw,q_mvar")


def exchange(time_s: float, system: andes.System) -> None:
    """Take the site to a time of ANDES by the voltage there, and set its power."""
    pu, speed = system.dae.y[voltage], system.dae.x[system.GENROU.omega.a].mean()
    p_mw, q_mvar = site.step(float(time_s), pu / before_pu, 60 * speed)
    system.FLoad.pv0.v[0], system.FLoad.qv0.v[0] = p_mw / 100, q_mvar / 100
    print(f"{time_s:.6f},{pu:.5f},{60 * speed:.4f},{p_mw:.4f},{q_mvar:.4f}")


system.TDS.callpert = exchange
config = system.TDS.config
config.tstep, config.tf = STEP_S, END_S
config.fixt, config.no_tqdm, config.criteria = 1, 1, 0
sys.exit(not system.TDS.run())
