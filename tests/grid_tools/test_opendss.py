"""OpenDSS, through OpenDSSDirect.py, compiles the export and solves it step by step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grid_truth import STEP, STEP_H, means_mw

from diploee import Run
from diploee.grid.export import Options, export_run
from diploee.grid.export.series import ReactiveTable

pytestmark = pytest.mark.grid_tools

dss: Any = pytest.importorskip("opendssdirect", reason="needs diploee[grid-test]")

SMALL = 1e-6


@pytest.fixture(autouse=True)
def _same_folder() -> Iterator[None]:
    """OpenDSS changes the working folder to that of the script."""
    before = Path.cwd()
    yield
    dss.Text.Command("clear")
    os.chdir(before)


def solve(
    script: Path, mode: str, n_steps: int, step_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the load's power at each step of a stiff little circuit [kW, kvar]."""
    for command in (
        "clear",
        "new circuit.grid bus1=source basekv=12.47 pu=1.0 mvasc3=20000 mvasc1=20000",
        (
            "new line.feeder bus1=source bus2=datacenter length=0.1 units=km r1=0.05 "
            "x1=0.1"
        ),
        f'redirect "{script}"',
        "set voltagebases=[12.47]",
        "calcvoltagebases",
        f"set mode={mode} number=1 stepsize={step_s}s controlmode=off tolerance=1e-10",
    ):
        dss.Text.Command(command)
    kw, kvar = np.empty(n_steps), np.empty(n_steps)
    for step in range(n_steps):
        dss.Solution.Solve()
        assert dss.Solution.Converged()
        dss.Circuit.SetActiveElement(f"Load.{script.stem}")
        powers = np.array(dss.CktElement.Powers()).reshape(-1, 2)
        kw[step], kvar[step] = powers[:, 0].sum(), powers[:, 1].sum()
    return kw, kvar


@pytest.mark.parametrize("mode", ["yearly", "daily", "duty"])
@pytest.mark.parametrize("actual", [False, True], ids=["of the peak", "actual kW"])
def test_energy_and_peak_of_the_solved_load(
    run: Run, expected_mw: np.ndarray, tmp_path: Path, mode: str, actual: bool
) -> None:
    folder = export_run(
        run, "opendss", tmp_path / "dss", Options(step=STEP, actual=actual)
    )
    kw, kvar = solve(folder / "datacenter.dss", mode, expected_mw.size, 900)
    assert kw.sum() * STEP_H == pytest.approx(
        expected_mw.sum() * STEP_H * 1e3, rel=SMALL
    )
    assert kw.max() == pytest.approx(expected_mw.max() * 1e3, rel=SMALL)
    np.testing.assert_allclose(kw, expected_mw * 1e3, rtol=SMALL)
    assert np.abs(kvar).max() < SMALL * kw.max()


def test_an_event_window_solves_in_duty_mode_at_a_tenth_of_a_second(
    run: Run, tmp_path: Path
) -> None:
    folder = export_run(
        run, "opendss", tmp_path / "dss", Options(event_window="rise_1s")
    )
    expected_kw = (
        run.event_window("rise_1s")["facility_power_w"].to_numpy(np.float64) / 1e3
    )
    kw, _ = solve(folder / "datacenter.dss", "duty", expected_kw.size, 0.1)
    assert kw.sum() == pytest.approx(expected_kw.sum(), rel=SMALL)
    assert kw.max() == pytest.approx(expected_kw.max(), rel=SMALL)


@pytest.mark.parametrize("actual", [False, True], ids=["of the peak", "actual kW"])
def test_reactive_power_of_the_solved_load_has_the_tables_sign(
    run: Run,
    expected_mw: np.ndarray,
    expected_mvar: np.ndarray,
    q_table: ReactiveTable,
    tmp_path: Path,
    actual: bool,
) -> None:
    options = Options(step=STEP, q_table=q_table, actual=actual)
    folder = export_run(run, "opendss", tmp_path / "dss", options)
    kw, kvar = solve(folder / "datacenter.dss", "yearly", expected_mw.size, 900)
    np.testing.assert_allclose(kw, expected_mw * 1e3, rtol=SMALL)
    np.testing.assert_allclose(kvar, expected_mvar * 1e3, atol=SMALL * kw.max())


@pytest.mark.parametrize("actual", [False, True], ids=["of the peak", "actual kW"])
def test_the_runs_own_reactive_power_is_that_of_the_solved_load(
    reactive_run: Run, own_mvar: np.ndarray, tmp_path: Path, actual: bool
) -> None:
    options = Options(step=STEP, actual=actual)
    folder = export_run(reactive_run, "opendss", tmp_path / "dss", options)
    kw, kvar = solve(folder / "datacenter.dss", "yearly", own_mvar.size, 900)
    assert own_mvar.min() < 0 < own_mvar.max()
    np.testing.assert_allclose(kw, means_mw(reactive_run, 15) * 1e3, rtol=SMALL)
    np.testing.assert_allclose(kvar, own_mvar * 1e3, atol=SMALL * kw.max())


def test_whole_year_of_8760_hours(year_run: Run, tmp_path: Path) -> None:
    folder = export_run(year_run, "opendss", tmp_path / "dss", Options(name="dc"))
    kw, _ = solve(folder / "dc.dss", "yearly", 8_760, 3600)
    expected_kw = means_mw(year_run, 1) * 1e3
    assert kw.sum() == pytest.approx(expected_kw.sum(), rel=SMALL)
    assert kw.max() == pytest.approx(expected_kw.max(), rel=SMALL)


def test_tenths_of_seconds_in_duty_mode(run: Run, tmp_path: Path) -> None:
    """The step in seconds is understood; the values are those of a minute run read as
    60 s."""
    folder = export_run(run, "opendss", tmp_path / "dss")
    script = folder / "datacenter.dss"
    script.write_text(script.read_text().replace("minterval=1 ", "sinterval=0.1 "))
    kw, _ = solve(script, "duty", 100, 0.1)
    np.testing.assert_allclose(kw, means_mw(run, 1)[:100] * 1e3, rtol=SMALL)
