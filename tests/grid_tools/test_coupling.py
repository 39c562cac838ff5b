"""The examples of docs/coupling.md in HELICS, OpenDSS and ANDES, each in a process of
its own."""

from __future__ import annotations

import csv
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from diploee import Run
from diploee import run as simulate
from diploee.scenario import load_scenario

pytestmark = pytest.mark.grid_tools

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def campus(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten seconds of the 100 MW campus, whose IT leaves below 0.70 pu for 30 ms."""
    changes = [
        "duration=12 s",
        "resolution=0.1 s",
        "facility.ride_through.it.preset=oem_like",
    ]
    scenario = load_scenario("campus_100mw_synchronous", changes)
    return simulate(
        scenario, tmp_path_factory.mktemp("runs") / "campus", engine="compiled"
    )


def answer(name: str, *arguments: object) -> dict[str, np.ndarray]:
    """Return the columns that an example prints."""
    line = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    head, *rows = csv.reader(StringIO(done.stdout))
    return dict(zip(head, np.array(rows, dtype=float).T, strict=True))


def test_examples_are_short() -> None:
    sizes = {
        path.name: len(path.read_text("utf-8").splitlines())
        for path in EXAMPLES.iterdir()
    }
    assert len(sizes) == 3
    assert max(sizes.values()) <= 60


def test_opendss_solves_a_feeder_with_the_site_at_its_end(campus: Run) -> None:
    pytest.importorskip("opendssdirect", reason="needs diploee[grid-test]")
    found = answer("opendss_feeder.py", campus.folder)
    t, v, p = (found[name] for name in ("t_s", "voltage_pu", "p_mw"))
    before = t <= 2.0
    own = (
        campus.series().read(["facility_power_w"]).columns["facility_power_w"][:20]
        / 1e6
    )
    # Printed with four decimals
    assert p[before][9::10] == pytest.approx(own, abs=1e-4)
    # What is solved at the site's voltages is what the site draws by itself at them.
    site = campus.site()
    site.step(0.0, 1.0, 60.0)
    again = [
        site.step(at, pu / v[before][0], 60.0)[0] for at, pu in zip(t, v, strict=True)
    ]
    assert p == pytest.approx(again, rel=1e-3, abs=1e-3)
    assert v[before].max() < 1
    assert v[(t > 2.02) & (t < 2.1)].max() < 0.46
    assert 2.03 < t[p < 0.3 * p[0]][0] < 2.07  # 44 ms after the dip began, and a step
    back = (t > 2.2) & (t < 7.0)
    assert p[back].max() < 0.1 * p[0]
    assert v[back].min() > v[before].max()
    assert np.diff(p[t > 8]).min() > 0  # the ramp of 10 s


def test_andes_and_the_site_go_through_a_fault_together(campus: Run) -> None:
    pytest.importorskip("andes", reason="needs diploee[grid-test]")
    found = answer("andes_two_way.py", campus.folder)
    t, v, p, f = (found[n] for n in ("t_s", "voltage_pu", "p_mw", "frequency_hz"))
    assert np.diff(t).min() >= 0
    assert t[-1] == pytest.approx(3.0, abs=0.01)
    fault = (t > 1.001) & (t < 1.079)
    assert v[fault].max() < 0.7
    assert 1.03 < t[p < 0.3 * p[0]][0] < 1.06
    assert p[t > 1.1].max() < 0.1 * p[0]
    assert f.max() > 60.02
    assert f[t < 1] == pytest.approx(60, abs=0.01)


GRID = """
import sys, helics
info = helics.helicsCreateFederateInfo()
info.core_type, info.core_init = "zmq", f"--federates=1 --brokerport={sys.argv[1]}"
info.property[helics.HELICS_PROPERTY_TIME_PERIOD] = 0.02
grid = helics.helicsCreateValueFederate("grid", info)
voltage = grid.register_global_publication("grid/voltage_pu", "double")
frequency = grid.register_global_publication("grid/frequency_hz", "double")
power = grid.register_subscription("site/p_mw")
grid.enter_executing_mode()
time = 0.0
while time < 2.0:
    voltage.publish(0.3 if 0.99 < time < 1.09 else 1.0)
    frequency.publish(60.0)
    time = grid.request_time(time + 0.02)
    print(time, power.double)
grid.disconnect()
"""


def test_helics_exchanges_with_the_site_and_goes_on_from_its_state(
    campus: Run, tmp_path: Path
) -> None:
    helics = pytest.importorskip("helics", reason="needs diploee[grid-test]")

    def federation() -> np.ndarray:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        broker = helics.helicsCreateBroker("zmq", "", f"--federates=2 --port={port}")
        example = [
            str(EXAMPLES / "helics_federate.py"),
            str(campus.folder),
            "--until",
            "2",
        ]
        example += ["--port", str(port), "--state", str(tmp_path / "state")]
        lines = [[sys.executable, *example], [sys.executable, "-c", GRID, str(port)]]
        started = [
            subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for line in lines
        ]
        try:
            printed = [process.communicate(timeout=120)[0] for process in started]
        finally:
            for process in started:
                process.kill()
        assert [process.returncode for process in started] == [0, 0]
        broker.disconnect()
        return np.array([row.split() for row in printed[1].splitlines()], dtype=float)

    site, shift = campus.site(), 0.0
    for _ in range(2):
        time, power = federation().T
        wanted = []
        for k in range(101):
            # The grid's voltage of a time arrives a period later.
            pu = 0.3 if 0.99 < (k - 1) * 0.02 < 1.09 else 1.0
            wanted.append(site.step(shift + k * 0.02, pu, 60.0)[0])
        assert power == pytest.approx(wanted[:100], rel=1e-9)
        assert time[-1] == pytest.approx(2.0)
        assert min(power) < 0.1 * max(power)
        shift += 2.0
