"""ANDES, GridLAB-D and a COMTRADE reader load what is exported for dynamic studies."""

from __future__ import annotations

import csv
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diploee import Run
from diploee.grid.export import Options, export_run
from diploee.grid.export.series import ReactiveTable

pytestmark = [pytest.mark.grid_tools, pytest.mark.filterwarnings("default")]


def in_mw(run: Run, window: str) -> np.ndarray:
    return run.event_window(window)["facility_power_w"].to_numpy(dtype=np.float64) / 1e6


def test_andes_plays_an_event_window_on_ieee_39(
    run: Run, q_table: ReactiveTable, tmp_path: Path
) -> None:
    andes = pytest.importorskip("andes", reason="needs diploee[grid-test]")
    options = Options(q_table=q_table, event_window="rise_1s", name="dc", mva=0.1)
    place = export_run(run, "andes", tmp_path / "andes", options)
    (row,) = csv.DictReader((place / "TimeSeries.csv").read_text("utf-8").splitlines())
    t_s, p_pu, q_pu = np.loadtxt(place / "dc.csv", delimiter=",", skiprows=1).T

    system = andes.load(
        andes.get_case("ieee39/ieee39_full.xlsx"),
        setup=False,
        no_output=True,
        default_config=True,
    )
    for key, value in {"p2p": 1, "p2z": 0, "q2q": 1, "q2z": 0}.items():
        setattr(system.PQ.config, key, value)
    system.add(
        "PQ",
        {
            "idx": "dc",
            "name": "dc",
            "bus": 4,
            "Vn": 345.0,
            "p0": p_pu[0],
            "q0": q_pu[0],
        },
    )
    typed = {**row, "u": 1, "mode": 1, "path": str(place / row["path"])}
    system.add("TimeSeries", typed)
    assert system.setup()
    assert system.PFlow.run()
    system.TDS.config.tf = 10.0
    system.TDS.config.no_tqdm = 1
    assert system.TDS.run()
    assert not system.TDS.busted
    place_of = list(system.PQ.idx.v).index("dc")
    # What the load draws at the end is the value that holds then.
    held = int(np.searchsorted(t_s, 10.0 + 1e-9)) - 1
    assert system.PQ.Ppf.v[place_of] == pytest.approx(p_pu[held], abs=1e-9)
    assert system.PQ.Qpf.v[place_of] == pytest.approx(q_pu[held], abs=1e-9)


def test_andes_reads_the_raw_record_back(
    run: Run, q_table: ReactiveTable, tmp_path: Path
) -> None:
    andes = pytest.importorskip("andes", reason="needs diploee[grid-test]")
    place = export_run(
        run,
        "psse",
        tmp_path / "psse",
        Options(q_table=q_table, bus_number=4, parts=("raw",)),
    )
    record = (
        (place / "datacenter.raw").read_text().splitlines()[0].partition("/")[0].strip()
    )
    lines = Path(andes.get_case("ieee14/ieee14.raw")).read_text().splitlines()
    before = next(k for k, line in enumerate(lines) if "Begin Load data" in line)
    case = tmp_path / "with_load.raw"
    case.write_text("\n".join([*lines[: before + 1], record, *lines[before + 1 :], ""]))
    system = andes.load(str(case), no_output=True, default_config=True)
    assert system.PFlow.run()
    fields = record.split(",")
    found = [
        (p, q)
        for p, q, bus in zip(
            system.PQ.p0.v, system.PQ.q0.v, system.PQ.bus.v, strict=True
        )
        if bus == 4
    ]
    expected = (float(fields[5]) / 100, float(fields[6]) / 100)
    assert any(pair == pytest.approx(expected, abs=1e-9) for pair in found)


@pytest.mark.parametrize(
    ("clock", "start", "stop"),
    [
        ("UTC0", "2018-01-01 07:00:00", "2018-01-01 09:00:00"),
        ("EST5EDT", "2018-01-01 02:00:00", "2018-01-01 04:00:00"),
        ("MST7MDT", "2018-01-01 00:00:00", "2018-01-01 02:00:00"),
    ],
)
def test_gridlabd_draws_what_is_played_whatever_its_clock(
    run: Run, tmp_path: Path, clock: str, start: str, stop: str
) -> None:
    pytest.importorskip("gridlabd", reason="needs diploee[grid-test]")
    place = export_run(run, "gridlabd", tmp_path / "glm")
    model = (place / "datacenter.glm").read_text(encoding="ascii")
    model = model.replace("name datacenter;", "name datacenter;\n    parent source;")
    source = (
        "object meter { name source; bustype SWING; phases ABCN; nominal_voltage "
        "7200; };\n"
    )
    head, tail = model.split("module tape;\n")
    (place / "grid.glm").write_text(
        f"clock {{ timezone {clock}; starttime '{start}'; stoptime '{stop}'; }};\n"
        f"module powerflow {{ solver_method NR; }};\nmodule tape;\n{head}{source}{tail}"
        "object recorder { parent source; property measured_real_power; file seen.csv; "
        "interval 60; };\n",
        encoding="ascii",
    )
    script = (
        "import gridlabd as g; s = g.DirectGridLabD(); s.load('grid.glm'); s.run(); "
        "s.finalize()"
    )
    subprocess.run(
        [sys.executable, "-c", script], cwd=place, check=False, capture_output=True
    )
    rows = [
        line.split(",")
        for line in (place / "seen.csv").read_text().splitlines()
        if not line.startswith("#")
    ]
    seen_mw = np.array([float(row[1]) for row in rows]) / 1e6
    power_mw = (
        run.facility()["facility_power_w"].to_numpy(dtype=np.float64)[: seen_mw.size]
        / 1e6
    )
    assert seen_mw.size >= 100
    np.testing.assert_allclose(seen_mw, power_mw, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "within_mw"), [("comtrade", 1e-7), ("comtrade-1999", 2e-6)]
)
def test_comtrade_readers_give_energy_and_peak_back(
    run: Run, tmp_path: Path, name: str, within_mw: float
) -> None:
    comtrade: Any = pytest.importorskip("comtrade", reason="needs diploee[grid-test]")
    place = export_run(run, name, tmp_path / "record", Options(event_window="peak"))
    record = comtrade.Comtrade()
    record.load(str(place / "datacenter.cfg"), str(place / "datacenter.dat"))
    expected_mw = in_mw(run, "peak")
    np.testing.assert_allclose(record.analog[0], expected_mw, atol=within_mw)
    np.testing.assert_allclose(np.diff(record.time), 0.1, atol=2e-5)
    began = datetime.fromisoformat(run.event_window("peak").index[0].isoformat())
    told = began if name == "comtrade-1999" else began.astimezone(UTC)
    assert record.start_timestamp == told.replace(tzinfo=None)


def test_openg2g_interpolates_the_load_of_the_facility(
    run: Run, tmp_path: Path
) -> None:
    # Its requirements hold whole serving stacks; the loader takes none of them.
    load: Any = pytest.importorskip(
        "openg2g.grid.load", reason="pip install --no-deps openg2g"
    )
    place = export_run(
        run, "openg2g-load", tmp_path / "load.csv", Options(event_window="peak")
    )
    played = load.CSVProfileLoad(place)
    expected_kw = in_mw(run, "peak") * 1e3
    seen_kw = np.array([played.power_kw(0.1 * k) for k in range(expected_kw.size)])
    np.testing.assert_allclose(seen_kw, expected_kw, rtol=1e-6)
