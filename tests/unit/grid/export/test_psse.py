"""Dynamic records for PSS/E and PSCAD playback: published records are read first, then
ours."""

from __future__ import annotations

import json
import re
from math import pi
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import TYPICAL_DENVER, tiny_run

from diploee import Run
from diploee.base.errors import InputError
from diploee.grid.export import Options, export_run
from diploee.grid.export.psse import PERC1, square_wave_height_mw
from diploee.scenario.ride_through import RideThrough

PUBLISHED_CMLD = """6508 'USRLOD' ll 'CMLDBLU2' 12 1 2 133 27 146 48 0 0
-1.25  0  0.04  0.04  0.75  0.08
1  1  1  0.9  1.1
0.00625  1.025  1.04  30  5  0  0
0.09  0  0  0  0.89
1.0  0.65  0.6
1  2.0  1  1  0  0
2.0  1.0  1.0  0.0  0
3 0.75 0.04 1.8 0.12 0.104
0.095 0.0021 0.1 0 0.65
0.5 0.3 1 99999 0.5
0.25 0.6 0.65 0.1
3 0.75 0.03 1.8 0.19 0.14
0.2 0.0026 0.5 2 0
0.02 0 0.65 0.05 0
0.025 0 0.6 0.05
3 0.75 0.03 1.8 0.19 0.14
0.2 0.0026 0.1 2 0
0.03 0 0.68 0.05 0
0.03 0 0.62 0.1
0.03 0.3 0.025 0.05
1 0.98 0.45 0.1 0.1
0 0 1 6 2
12 3.2 11 2.5 0.86
0.2 0.95 1 -3.3 0.5
0.4 0.6 0.5 15 0.7 1.9
0.1  0.6  0.2  0  9999  0.8   /
"""
PUBLISHED_LINJBL = """1401 'USRLOD', 'OS', 'LINJBL', 12 1 4 8 0 5 0
      1 1 0 0
\t  3 0.5 0.5 0.25 1 8 10 0 /
// a comment that follows
"""
POI = {
    "facility.node_types.node.ac_power": "dlc",
    "facility.stages": [
        "pdu",
        "ups",
        "dlc_tower",
        "auxiliary_load",
        {"kind": "transformers", "units": [{"preset": "mv_lv"}]},
        "point_of_interconnection",
    ],
    **TYPICAL_DENVER,
    "duration": "6 h",
    "resolution": "1 s",
}


def records(text: str) -> list[list[str]]:
    """Return the tokens of each record of a .dyr file, apart by blanks and commas, to
    the slash."""
    text = "\n".join(
        line for line in text.splitlines() if not line.lstrip().startswith("//")
    )
    found = []
    for record in re.findall(r"[^/]*/", text):
        found.append(re.findall(r"'[^']*'|[^\s,/]+", record))
    return found


def test_published_records_are_read_token_for_token():
    (cmld,) = records(PUBLISHED_CMLD)
    assert " ".join(cmld[:13]) == "6508 'USRLOD' ll 'CMLDBLU2' 12 1 2 133 27 146 48 0 0"
    assert len(cmld) == 13 + 133
    (wave,) = records(PUBLISHED_LINJBL)
    assert " ".join(wave[:11]) == "1401 'USRLOD' 'OS' 'LINJBL' 12 1 4 8 0 5 0"
    assert wave[11:15] == ["1", "1", "0", "0"]
    assert [float(x) for x in wave[15:]] == [3, 0.5, 0.5, 0.25, 1, 8, 10, 0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "poi", POI)


def psse(run: Run, folder: Path, *parts: str, **options) -> tuple[Path, dict]:
    place = export_run(
        run, "psse", folder, Options(parts=parts, bus_number=6508, **options)
    )
    return place, json.loads((place / "diploee_export.json").read_text())


def test_composite_load_differs_from_the_published_record_in_base_and_shares_alone(
    run, tmp_path
):
    place, told = psse(run, tmp_path / "psse", "raw", "cmld")
    (found,) = records((place / "cmld.dyr").read_text())
    (published,) = records(PUBLISHED_CMLD)
    assert found[:2] == published[:2]
    assert found[2] == "'PK'"
    assert found[3:13] == published[3:13]
    values, theirs = ([float(x) for x in of[13:]] for of in (found, published))
    assert len(values) == len(theirs) == 133
    assert {k for k in range(133) if values[k] != theirs[k]} <= {0, 18, 22}
    assert values[0] == -0.8
    assert all(
        len(line) < 180 for line in (place / "cmld.dyr").read_text().splitlines()
    )
    assert any("not verified in PSS/E" in note for note in told["notes"])
    assert set(told["files"]) == {"datacenter.raw", "cmld.dyr"}


def test_shares_of_the_composite_load_are_those_of_the_run(run, tmp_path):
    frame = run.facility()
    row = frame.iloc[int(frame["facility_power_w"].argmax())]
    fed = row["it_ac_power_w"] + row["pdu_loss_w"] + row["ups_loss_w"]
    whole = row["facility_power_w"] - row["transformer_loss_w"]
    for drives in (0.0, 0.25):
        place, told = psse(run, tmp_path / f"{drives}", "cmld", drives=drives, vd1=0.7)
        (found,) = records((place / "cmld.dyr").read_text())
        fma, fmb, fmc, fmd, fel = (float(x) for x in found[13 + 18 : 13 + 23])
        assert fel == pytest.approx((fed + drives * row["cooling_w"]) / whole, abs=2e-6)
        assert fma == pytest.approx((1 - drives) * row["cooling_w"] / whole, abs=2e-6)
        assert (fmb, fmc, fmd) == (0, 0, 0)
        static = row["auxiliary_power_w"] / whole
        assert fma + fel + static == pytest.approx(1, abs=3e-6)
        assert float(found[13 + 24]) == 0.7
        assert any("on drives" in note for note in told["notes"])


def test_records_are_of_the_moment_that_is_studied(run, tmp_path):
    place, told = psse(
        run, tmp_path / "psse", "raw", "cmld", "perc1", at="2018-01-01T04:00"
    )
    (found,) = records((place / "cmld.dyr").read_text())
    assert found[2] == "'AT'"
    in_service = [
        line
        for line in (place / "datacenter.raw").read_text().splitlines()
        if line.split(",")[2] == "1"
    ]
    assert [line.split(",")[1] for line in in_service] == ["'AT'"]
    assert "2018-01-01T04:00:00" in told["files"]["cmld.dyr"]
    pnom = json.loads((place / "perc1.json").read_text())["Pnom"]
    assert pnom * 100 == pytest.approx(float(in_service[0].split(",")[5]), abs=1e-6)


def test_perc1_is_by_name_in_its_order_and_a_record_needs_a_head(run, tmp_path):
    place, told = psse(run, tmp_path / "psse", "perc1")
    found = json.loads((place / "perc1.json").read_text())
    assert list(found) == [*PERC1, "Pnom", "Qnom"]
    assert len(PERC1) == 30
    assert set(told["files"]) == {"perc1.json"}
    head = "'USRLOD' '1' 'PERC1U1' 12 1 0 30 9 9 0"
    place, told = psse(run, tmp_path / "with", "perc1", perc1_head=head)
    (tokens,) = records((place / "perc1.dyr").read_text())
    assert tokens[:11] == ["6508", *head.split()]
    assert [float(x) for x in tokens[11:]] == list(PERC1.values())
    assert any("no record of PERC1 was seen" in note for note in told["notes"])


def with_settings(run: Run, **blocks: RideThrough) -> Run:
    facility = run.scenario.facility.model_copy(update={"ride_through": blocks})
    copied = Run(run.folder)
    copied.__dict__["scenario"] = run.scenario.model_copy(update={"facility": facility})
    return copied


def test_perc1_takes_the_stage_that_trips_first_and_lists_what_is_lost(run, tmp_path):
    deep = {"voltage_pu": 0.5, "time_s": 0.005}
    late = {"voltage_pu": 0.7, "time_s": 0.2}
    part = {"voltage_pu": 0.8, "time_s": 0.001, "fraction": 0.5}
    back = {"voltage_pu": 0.9, "time_s": 2.0, "ramp_mw_per_min": 0.06}
    chosen = RideThrough(
        share=0.5,
        stages=[late, deep, part],
        recovery=back,
        delay_s=0.1,
        counter={"n": 3, "window_s": 60, "voltage_pu": 0.9},
    )
    other = RideThrough(preset="oem_like")
    place, told = psse(
        with_settings(run, main=chosen, motors=other), tmp_path / "psse", "perc1"
    )
    found = json.loads((place / "perc1.json").read_text())
    row = run.facility()
    row = row.iloc[int(row["facility_power_w"].argmax())]
    mw = 0.5 * (row["it_ac_power_w"] + row["pdu_loss_w"] + row["ups_loss_w"]) / 1e6
    assert (found["Vcease"], found["Tcease"], found["Tdelay"]) == (0.5, 0.005, 0.1)
    assert (found["Vrecon"], found["Trecon"], found["Frecon"]) == (0.9, 2.0, 1.0)
    assert found["Tramp"] == pytest.approx(mw / 0.06 * 60, rel=1e-5)
    assert found["Fcease"] == pytest.approx(
        mw / (row["facility_power_w"] / 1e6), rel=1e-5
    )
    assert 0 <= found["Fcease"] <= 1
    assert found["Vcease"] <= found["Vrecon"]
    lost = " ".join(note for note in told["notes"] if "lost" in note)
    for words in (
        "0.7 pu, 0.2 s",
        "0.8 pu, 0.001 s, 0.5",
        "main: counter",
        "motors: all",
    ):
        assert words in lost


def test_perc1_takes_the_block_of_the_most_load_before_the_one_that_trips_first(
    run, tmp_path
):
    quick, slow = (
        RideThrough(preset="oem_like", stages=[{"voltage_pu": 0.7, "time_s": t}])
        for t in (0.01, 0.1)
    )
    place, told = psse(
        with_settings(run, motors=quick, it=slow), tmp_path / "psse", "perc1"
    )
    assert json.loads((place / "perc1.json").read_text())["Tcease"] == 0.1
    assert any("lost: motors: all" in note for note in told["notes"])


def test_perc1_of_like_settings_for_all_parts_is_of_the_whole_load(run, tmp_path):
    alike = RideThrough(preset="perc1")
    settled = with_settings(run, it=alike, motors=alike, rest=alike)
    place, _ = psse(settled, tmp_path / "psse", "perc1")
    assert json.loads((place / "perc1.json").read_text())["Fcease"] == pytest.approx(
        1, abs=1e-9
    )


@pytest.mark.parametrize(("duty", "amp"), [(0.5, 15.708), (0.3, 19.416)])
def test_square_of_equal_fundamental_is_that_of_the_sheet(duty, amp):
    assert round(square_wave_height_mw(10, duty), 3) == amp


def wave(numbers, times, shape):
    """Return the wave that LINJBL adds, written apart from the package."""
    start, duty, fast_duty, hz, fast_hz, cycles, amp, amp1 = numbers
    u = times - start
    phase = (u * hz) % 1
    high = amp
    if shape == 1:
        high = np.where((phase / hz * fast_hz) % 1 < fast_duty, amp, amp1)
    return np.where((u >= 0) & (u < cycles / hz) & (phase < duty), high, 0.0)


def played(tmp_path: Path, power_mw: np.ndarray, step_s: float = 0.1) -> Run:
    """Return a run whose file holds a power."""
    duration_s = round(power_mw.size * step_s)
    run = tiny_run(
        tmp_path / "wave",
        {"duration": f"{duration_s} s", "resolution": f"{step_s:g} s"},
    )
    path = run.folder / "facility.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("facility_power_w")
    values = pa.array((power_mw * 1e6).astype(np.float32), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), values), path)
    return run


TIMES = np.arange(1_200) / 10


def linjbl(tmp_path: Path, power_mw: np.ndarray, **options) -> tuple[list, list, list]:
    """Return the tokens, the numbers and the notes of a wave that plays a power."""
    place, told = psse(
        played(tmp_path, power_mw), tmp_path / "psse", "linjbl", **options
    )
    (tokens,) = records((place / "linjbl.dyr").read_text())
    return tokens, [float(x) for x in tokens[15:]], told["notes"]


def test_square_wave_has_the_line_of_the_window(tmp_path):
    power = 50 + 8 * np.sin(2 * pi * 0.25 * TIMES + 0.3)
    tokens, numbers, notes = linjbl(tmp_path, power)
    assert any("amplitude of 8" in note for note in notes)
    assert " ".join(tokens[:11]) == "6508 'USRLOD' 'OS' 'LINJBL' 12 1 4 8 0 5 0"
    assert tokens[13] == "0"
    assert numbers[3] == pytest.approx(0.25, rel=1e-3)
    assert numbers[5] in (29, 30)
    fine = np.arange(0, 200, 1e-3)
    made = wave(numbers, fine, 0)
    within = (fine >= 1) & (fine < 1 + numbers[5] / numbers[3])
    line = 2 * abs(np.mean(made[within] * np.exp(-2j * pi * numbers[3] * fine[within])))
    assert line == pytest.approx(8, rel=0.01)


def test_square_wave_of_equal_peak_to_peak_has_the_levels_of_the_window(tmp_path):
    power = np.where((TIMES * 0.2) % 1 < 0.3, 70.0, 50.0)
    _, numbers, _ = linjbl(tmp_path, power, equal="peak_to_peak")
    assert numbers[3] == pytest.approx(0.2, rel=2e-3)
    assert numbers[1] == pytest.approx(0.3, abs=1e-3)
    assert numbers[6] == pytest.approx(20, rel=1e-3)


def test_biperiodic_wave_gives_levels_and_energy_back(tmp_path):
    asked = (0.0, 0.6, 0.4, 0.1, 1.0, 12, 30.0, 10.0)
    power = 40 + wave(asked, TIMES + 1e-6, 1)
    tokens, numbers, _ = linjbl(tmp_path, power, hz=0.1, fast_hz=1.0)
    assert tokens[13] == "1"
    assert numbers[1:8] == pytest.approx(asked[1:], rel=0.02)
    fine = np.arange(0, 121, 1e-3)
    assert wave(numbers, fine + 1, 1)[:120_000].mean() == pytest.approx(
        power.mean() - 40, rel=0.02
    )


SHAPES = {
    "sine": (30 + 12 * np.sin(2 * pi * 0.25 * TIMES + 0.3), {}),
    "short pulses": (np.where((TIMES * 0.2) % 1 < 0.2, 70.0, 50.0), {}),
    "long pulses": (
        np.where((TIMES * 0.2) % 1 < 0.8, 70.0, 50.0),
        {"equal": "peak_to_peak"},
    ),
    "two periods": (
        40 + wave((0.0, 0.6, 0.4, 0.1, 1.0, 12, 30.0, 10.0), TIMES + 1e-6, 1),
        {"hz": 0.1, "fast_hz": 1.0},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_base_and_wave_have_the_mean_of_the_window_together(tmp_path, shape):
    power, options = SHAPES[shape]
    tokens, numbers, notes = linjbl(tmp_path, power, **options)
    (base,) = re.findall(r"low level, ([\d.]+) MW", " ".join(notes))
    fine = np.arange(1, 1 + numbers[5] / numbers[3], 1e-3)
    mean = float(base) + wave(numbers, fine, int(tokens[13])).mean()
    assert mean == pytest.approx(power.mean(), rel=2e-3)


def test_the_course_of_a_day_is_no_wave(tmp_path):
    of_day = 50 + 8 * np.sin(2 * pi * np.arange(2_880) / 2_880 * 5)
    run = played(tmp_path, of_day, 30)
    with pytest.raises(
        InputError, match=r"steps of \d+ s hold no wave of .* Hz, which needs steps"
    ):
        psse(run, tmp_path / "psse", "linjbl")
    with pytest.raises(InputError, match=r"hz: must be .*0\.01"):
        psse(run, tmp_path / "psse", "linjbl", hz=5.8e-5)


def test_a_wave_is_found_below_a_slower_and_larger_course(tmp_path):
    times = np.arange(12_000) / 10
    power = 50 + 8 * np.sin(2 * pi * times / 240) + np.sin(2 * pi * 0.25 * times)
    _, numbers, _ = linjbl(tmp_path, power)
    assert numbers[3] == pytest.approx(0.25, rel=1e-3)


def test_a_line_above_what_the_profiles_hold_is_warned_of(tmp_path):
    power = 50 + 8 * np.sin(2 * pi * 2.0 * TIMES)
    _, _, notes = linjbl(tmp_path, power)
    assert any("WARNING" in note for note in notes)


def test_steps_that_hold_no_line_are_refused(run, tmp_path):
    with pytest.raises(InputError, match="give --hz"):
        psse(run, tmp_path / "psse", "linjbl", hz=0.7)
    with pytest.raises(InputError, match="give --hz"):
        linjbl(tmp_path, np.full(1_200, 50.0))


def read_back(place: Path) -> np.ndarray:
    lines = place.read_text().splitlines()
    assert lines[0].startswith("!")
    return np.array([[float(x) for x in line.split()] for line in lines[1:]])


def test_pscad_rows_start_at_zero_and_keep_the_energy(run, tmp_path):
    place = export_run(
        run, "pscad", tmp_path / "p.txt", Options(until="2018-01-01T00:10")
    )
    head = place.read_text().splitlines()[0]
    assert head == "! diploee: t [s]  P [MW, consumption > 0]  Q [Mvar, drawn > 0]"
    rows = read_back(place)
    told = json.loads(place.with_name("p.txt.meta.json").read_text())
    assert rows[0, 0] == 0
    assert rows[-1, 0] == 600
    assert (np.diff(rows[:, 0]) > 0).all()
    energy_mwh = np.trapezoid(rows[:, 1], rows[:, 0]) / 3600
    assert energy_mwh == pytest.approx(told["energy_mwh"], rel=1e-6)
    assert any("not verified in PSCAD" in note for note in told["notes"])


def test_pscad_change_has_a_mean_of_zero_and_rises_with_the_load(tmp_path):
    power = 50 + 8 * np.sin(2 * pi * 0.25 * TIMES)
    options = Options(signal="dp_pu", mva=5000)
    rows = read_back(
        export_run(played(tmp_path, power), "pscad", tmp_path / "p.txt", options)
    )
    assert rows.shape[1] == 2
    assert np.trapezoid(rows[:, 1], rows[:, 0]) == pytest.approx(0, abs=1e-6)
    assert rows[:, 1].max() == pytest.approx(8 / 5000, rel=0.01)
    at_peak = rows[np.argmax(rows[:, 1]), 0]
    assert power[int(at_peak * 10)] == pytest.approx(58, abs=0.2)
