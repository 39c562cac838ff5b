"""PyPSA imports the folder and solves power flows over its snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grid_truth import STEP, STEP_H

from diploee import Run
from diploee.grid.export import Options, export_run
from diploee.grid.export.series import ReactiveTable

# PyPSA itself warns about changes of its dependencies to come.
pytestmark = [pytest.mark.grid_tools, pytest.mark.filterwarnings("default")]

pypsa: Any = pytest.importorskip("pypsa", reason="needs diploee[grid-test]")

SMALL = 1e-6


def network_of(folder: Path) -> Any:
    """Return the imported load with a generator behind a line."""
    network = pypsa.Network()
    network.import_from_csv_folder(folder)
    network.buses.loc["datacenter", "v_nom"] = 110.0
    network.add("Bus", "grid", v_nom=110.0)
    network.add("Generator", "plant", bus="grid", control="Slack", p_nom=1.0)
    network.add(
        "Line", "feeder", bus0="grid", bus1="datacenter", x=0.1, r=0.01, s_nom=10.0
    )
    return network


def test_energy_and_peak_of_the_linear_power_flow(
    run: Run, expected_mw: np.ndarray, tmp_path: Path
) -> None:
    folder = export_run(run, "pypsa", tmp_path / "net", Options(step=STEP))
    network = network_of(folder)
    network.lpf()
    load_mw = network.loads_t.p["datacenter"].to_numpy()
    weights_h = network.snapshot_weightings["generators"].to_numpy()
    expected_mwh = expected_mw.sum() * STEP_H
    assert (load_mw * weights_h).sum() == pytest.approx(expected_mwh, rel=SMALL)
    assert load_mw.max() == pytest.approx(expected_mw.max(), rel=SMALL)
    plant_mw = network.generators_t.p["plant"].to_numpy()
    assert (plant_mw * weights_h).sum() == pytest.approx(expected_mwh, rel=SMALL)


def test_snapshots_are_times_in_utc(run: Run, tmp_path: Path) -> None:
    network = network_of(export_run(run, "pypsa", tmp_path / "net", Options(step=STEP)))
    assert str(network.snapshots[0]) == "2018-01-01 07:00:00"  # midnight at UTC-07:00
    assert str(network.snapshots[-1]) == "2018-01-01 18:45:00"
    assert network.snapshots.dtype.kind == "M"


def test_reactive_power_has_the_tables_sign(
    run: Run,
    expected_mw: np.ndarray,
    expected_mvar: np.ndarray,
    q_table: ReactiveTable,
    tmp_path: Path,
) -> None:
    options = Options(step=STEP, q_table=q_table, name="dc")
    network = network_of(export_run(run, "pypsa", tmp_path / "net", options))
    network.pf()
    np.testing.assert_allclose(network.loads_t.p["dc"], expected_mw, rtol=SMALL)
    np.testing.assert_allclose(network.loads_t.q["dc"], expected_mvar, atol=2e-9)
    # The line carries what the load draws to within its own small losses.
    drawn = -network.lines_t.q1["feeder"].to_numpy()
    np.testing.assert_allclose(drawn, expected_mvar, atol=1e-6)


def test_the_runs_own_reactive_power_is_imported(
    reactive_run: Run, own_mvar: np.ndarray, tmp_path: Path
) -> None:
    network = network_of(
        export_run(reactive_run, "pypsa", tmp_path / "net", Options(step=STEP))
    )
    network.pf()
    np.testing.assert_allclose(network.loads_t.q["datacenter"], own_mvar, atol=2e-9)
