"""A run's site as a HELICS federate: it takes voltage and frequency, and gives P and Q.

    helics_broker -f 2 & python your_grid.py & python helics_federate.py RUN_DIR
    --period 0.02

It publishes site/p_mw and site/q_mvar, and subscribes to grid/frequency_hz and to
grid/voltage_pu, of the voltage at which the load is the run's own.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from pathlib import Path

import diploee

try:
    import helics
except ImportError:
    sys.exit("this example needs HELICS: pip install helics")

options = argparse.ArgumentParser()
options.add_argument("run", help="run folder")
options.add_argument("--period", type=float, default=0.02, help="of exchanges [s]")
options.add_argument("--until", type=float, default=10.0, help="end [s]")
options.add_argument("--port", type=int, default=23404, help="port of the broker")
options.add_argument("--state", type=Path, help="file to go on from and to save to")
given = options.parse_args()

run, kept = diploee.open_run(given.run), given.state and given.state.exists()
site = run.site(state=pickle.loads(given.state.read_bytes()) if kept else None)
start_s, time_s = site.state.time_s, 0.0

info = helics.helicsCreateFederateInfo()
info.core_type = "zmq"
info.core_init = f"--federates=1 --brokerport={given.port}"
info.property[helics.HELICS_PROPERTY_TIME_PERIOD] = given.period
federate = helics.helicsCreateValueFederate("site", info)
publish = federate.register_global_publication
subscribe = federate.register_subscription
outputs = [publish(f"site/{name}", "double") for name in ("p_mw", "q_mvar")]
inputs = [subscribe(f"grid/{name}") for name in ("voltage_pu", "frequency_hz")]
for value, nominal in zip(inputs, (1.0, 60.0), strict=True):
    value.set_default(nominal)

federate.enter_executing_mode()
while True:
    pu, hz = (value.double for value in inputs)
    for output, power in zip(outputs, site.step(start_s + time_s, pu, hz), strict=True):
        output.publish(power)
    if time_s >= given.until:
        break
    time_s = federate.request_time(time_s + given.period)
federate.disconnect()
if given.state:
    given.state.write_bytes(pickle.dumps(site.state))
