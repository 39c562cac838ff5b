"""pandapower's DFData and ConstControl play the table back in a time series power flow."""  # noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from grid_truth import STEP, STEP_H

from diploee import Run
from diploee.grid.export import Options, export_run
from diploee.grid.export.series import ReactiveTable

# pandapower itself warns about changes of its dependencies to come.
pytestmark = [pytest.mark.grid_tools, pytest.mark.filterwarnings("default")]

pandapower: Any = pytest.importorskip("pandapower", reason="needs diploee[grid-test]")

SMALL = 1e-6


def play_back(table: Any, variables: dict[str, str]) -> Any:
    """Return the results of each step of a little net."""
    from pandapower.control import ConstControl
    from pandapower.timeseries import DFData, OutputWriter, run_timeseries

    net = pandapower.create_empty_network()
    source = pandapower.create_bus(net, vn_kv=20.0)
    bus = pandapower.create_bus(net, vn_kv=20.0)
    pandapower.create_ext_grid(net, bus=source)
    pandapower.create_line(net, source, bus, length_km=1.0, std_type="NAYY 4x50 SE")
    load = pandapower.create_load(net, bus=bus, p_mw=0.0, q_mvar=0.0)
    for variable, profile in variables.items():
        ConstControl(
            net,
            "load",
            variable,
            [load],
            data_source=DFData(table),
            profile_name=[profile],
        )
    writer = OutputWriter(net, time_steps=table.index, output_path=None)
    for variable in ("p_mw", "q_mvar"):
        writer.log_variable("res_load", variable)
    run_timeseries(net, time_steps=table.index, verbose=False)
    return writer.output


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_energy_and_peak_of_the_time_series(
    run: Run, expected_mw: np.ndarray, tmp_path: Path, suffix: str
) -> None:
    place = export_run(
        run, "pandapower", tmp_path / f"load{suffix}", Options(step=STEP)
    )
    table = (
        pd.read_parquet(place)
        if suffix == ".parquet"
        else pd.read_csv(place, index_col="step")
    )
    load_mw = (
        play_back(table, {"p_mw": "datacenter_p_mw"})["res_load.p_mw"]
        .to_numpy()
        .ravel()
    )
    assert load_mw.sum() * STEP_H == pytest.approx(
        expected_mw.sum() * STEP_H, rel=SMALL
    )
    assert load_mw.max() == pytest.approx(expected_mw.max(), rel=SMALL)
    np.testing.assert_allclose(load_mw, expected_mw, rtol=SMALL)


def test_reactive_power_has_the_tables_sign(
    run: Run, expected_mvar: np.ndarray, q_table: ReactiveTable, tmp_path: Path
) -> None:
    options = Options(step=STEP, q_table=q_table, name="dc")
    table = pd.read_parquet(
        export_run(run, "pandapower", tmp_path / "load.parquet", options)
    )
    found = play_back(table, {"p_mw": "dc_p_mw", "q_mvar": "dc_q_mvar"})[
        "res_load.q_mvar"
    ]
    np.testing.assert_allclose(found.to_numpy().ravel(), expected_mvar, atol=2e-9)


def test_the_runs_own_reactive_power_is_played_back(
    reactive_run: Run, own_mvar: np.ndarray, tmp_path: Path
) -> None:
    options = Options(step=STEP)
    table = pd.read_parquet(
        export_run(reactive_run, "pandapower", tmp_path / "load.parquet", options)
    )
    names = {"p_mw": "datacenter_p_mw", "q_mvar": "datacenter_q_mvar"}
    found = play_back(table, names)["res_load.q_mvar"].to_numpy().ravel()
    np.testing.assert_allclose(found, own_mvar, atol=2e-9)
