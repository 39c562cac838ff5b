"""`diploee ride-through`: the load of a run, its blocks, and what is said of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders import (
    TYPICAL_DENVER,
    tiny_run,
    tiny_scenario,
    write_library,
    write_scenario,
)
from command_line import call

from diploee.api.finished import load_event
from diploee.base.errors import InputError
from diploee.base.progress import Progress, Update, show_progress
from diploee.grid.dynamics import EVENTS, Site, ride_through
from diploee.grid.dynamics import ride_through_study as answer_module
from diploee.grid.dynamics.curves import SitePower
from diploee.reports import data as data_module
from diploee.scenario.ride_through import RideThrough

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
    "site.ups_ride_through_s": 5,
}
BLOCKS = {
    "it": RideThrough(preset="counter_3_in_60s", filter_s=0),
    "motors": RideThrough(preset="perc1"),
}
EVENT = "nerc_2024_07_10"
IT = "facility.ride_through.it"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "poi", POI)


@pytest.fixture(scope="module")
def two_pools(tmp_path_factory):
    pools = {
        "facility.pools.other": {"node_type": "node", "n_nodes": 5},
        "streams.more": {
            "pool": "other",
            "target_utilization": 0.5,
            "classes": tiny_scenario().model_dump(mode="json", exclude_none=True)[
                "streams"
            ]["training"]["classes"],
        },
    }
    return tiny_run(tmp_path_factory.mktemp("runs") / "two", POI | pools)


def test_blocks_and_what_has_no_settings_add_up_to_the_load(two_pools):
    settings = {
        "other": RideThrough(preset="perc1"),
        "a": RideThrough(of="main", share=0.7, preset="oem_like"),
        "b": RideThrough(of="main", share=0.2, preset="perc1"),
        "motors": RideThrough(preset="perc1"),
    }
    case = ride_through(two_pools, EVENT, settings=settings).cases[0]
    row = int((case.at - two_pools.series().start).total_seconds() / 60)
    columns = two_pools.series().read(
        ["facility_power_w", "it_ac_power_w.main", "it_ac_power_w.other", "cooling_w"],
        (row, row + 1),
    )
    of = {name: float(values[0]) / 1e6 for name, values in columns.columns.items()}
    mw = {block.name: float(block.mw[0]) for block in case.blocks}
    assert sum(mw.values()) == pytest.approx(of["facility_power_w"], rel=1e-6)
    assert case.load_mw == pytest.approx(of["facility_power_w"], rel=1e-6)
    assert mw["motors"] == pytest.approx(of["cooling_w"], rel=1e-6)
    assert mw["a"] / mw["b"] == pytest.approx(3.5)
    ratio = of["it_ac_power_w.main"] / of["it_ac_power_w.other"]
    assert (mw["a"] + mw["b"]) / 0.9 / mw["other"] == pytest.approx(ratio, rel=1e-5)


def test_energy_and_moves_follow_from_the_load_and_the_fractions(run):
    case = ride_through(run, EVENT, settings=BLOCKS).cases[0]
    it, motors, _ = case.blocks
    found = case.totals()
    (latch,) = [move for move in case.load_changes() if move["block"] == it.name]
    assert latch["t_s"] == pytest.approx(15.860)
    assert latch["mw"] == pytest.approx(it.mw[0], rel=1e-6)
    assert found["latched_mw"] == pytest.approx(it.mw[1], rel=1e-6)  # a minute later
    end = case.site_power.time_s[-1]
    away_mwh = (it.mw[0] * (60 - 15.860) + it.mw[1] * (end - 60)) / 3600
    assert found["battery_mwh"] == pytest.approx(away_mwh, rel=1e-6)
    sums = dict.fromkeys(("transfer", "return"), 0.0)
    for move in case.load_changes():
        sums[move["what"]] += move["mw"] * (move["block"] == motors.name)
    assert sums["transfer"] > 0
    assert sums["transfer"] == pytest.approx(sums["return"])


def test_power_over_time_integrates_to_the_same_energy(run):
    ride_through_study = ride_through(run, EVENT, settings=BLOCKS)
    frame = ride_through_study.table().to_pandas()
    for case in ride_through_study.cases:
        of = frame[(frame.case == case.label) & (frame.residual_pu == case.residual_pu)]
        for block, wanted in case.energy_mwh().items():
            part = of[of.block == block]
            away = part.without_event_mw - part.power_mw
            assert np.trapezoid(away, part.t_s) / 3600 == pytest.approx(
                wanted, abs=1e-9
            )


def test_instants_are_those_of_the_percentiles_of_the_load(run):
    load = run.facility(["facility_power_w"])["facility_power_w"] / 1e6
    hours = run.metrics["grid"]["transient_h"] if "grid" in run.metrics else 0.0
    load = load[
        load.index >= load.index[0] + np.timedelta64(round((hours or 0) * 3600), "s")
    ]
    ride_through_study = ride_through(run, EVENT, settings=BLOCKS)
    for case in ride_through_study.cases:
        wanted = np.percentile(load, float(case.label[1:]))
        assert case.load_mw == pytest.approx(wanted, abs=float(np.ptp(load)) / 50)
    loads = [case.load_mw for case in ride_through_study.cases[::2]]
    assert loads == sorted(loads)


def test_deeper_dips_never_leave_less_away(run):
    cases = ride_through(run, EVENT, settings={"it": RideThrough(preset="perc1")}).cases
    for shallow, deep in zip(cases[::2], cases[1::2], strict=True):
        assert shallow.residual_pu > deep.residual_pu
        assert shallow.totals()["transferred_mw"] < deep.totals()["transferred_mw"]


def test_notes_say_what_is_assumed_and_that_the_ups_ends_first(run):
    notes = " ".join(ride_through(run, EVENT, settings=BLOCKS).notes)
    assert "study_assumption, not the site's own settings: it, motors" in notes
    assert "the UPS carries 5 s" in notes
    assert "positive sequence" in notes
    stages = ({"voltage_pu": 0.7, "time_s": 0.02},)
    mine = {"it": RideThrough(stages=stages, source="our relay")}
    notes = " ".join(ride_through(run, EVENT, settings=mine).notes)
    assert "study_assumption" not in notes


def test_command_prints_tables_and_writes_parquet_and_picture(run, tmp_path):
    words = ("--set", f"{IT}.preset=counter_3_in_60s")
    command = ("ride-through", run.folder, "--event", EVENT, *words)
    out, picture = tmp_path / "a.parquet", tmp_path / "a.svg"
    done = call(*command, "--out", out, "--picture", picture)
    assert done.code == 0, done.err
    assert done.out.startswith(f"Ride-through: {EVENT}")
    assert done.out.index("Leaves, at most") < done.out.index("By load and depth")
    assert "counts 3 dips in 60 s, which is prohibited" in done.out
    assert "study_assumption" in pq.read_schema(out).metadata[b"diploee.notes"].decode()
    assert picture.read_text("utf-8").startswith("<svg")
    found = json.loads(call(*command, "--json", "--at", "2018-01-02T06:00").out)
    assert [case["residual_pu"] for case in found["cases"]] == [0.4, 0.25]
    assert found["cases"][0]["at"].startswith("2018-01-02T06:00")
    assert found["cases"][0]["latched_s"] == {"it": pytest.approx(15.863646)}
    assert found["cases"][0]["verdicts"]["ercot_nogrr282"]["verdict"] == "not met"


def test_command_simulates_a_scenario_first(tmp_path):
    site = write_scenario(
        tmp_path / "site.yaml",
        {"duration": "6 h", "facility.ride_through": {"main": {"preset": "oem_like"}}},
    )
    library = write_library(tmp_path / "library")
    done = call("ride-through", site, "--event", EVENT, "--profiles", library, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["cases"]) == 6
    assert any("models no cooling" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "has no facility.ride_through"),
        (("--set", "seed=3"), "--set seed=3: of a run only facility.ride_through can"),
        (("--set", "facility.ride_through.x.preset=perc1"), "block 'x' is of 'x',"),
        (("--set", "facility.ride_through.it.delay_s=1"), "has neither stages nor a"),
        (("--set", f"{IT}.preset=perc1", "--at", "2031-01-01"), "outside the run"),
        (("--event", "nerc"), "--event: unknown event name 'nerc', expected one of"),
    ],
)
def test_mistakes_are_one_line_with_the_remedy(run, words, text):
    done = call("ride-through", run.folder, "--event", EVENT, *words)
    assert done.code == 2
    assert text in done.problem


def test_an_event_behind_a_change_of_the_clock_begins_at_its_local_time(tmp_path):
    spring = POI | {
        "facility.utc_offset": None,
        "facility.time_zone": "America/Denver",
        "start": "2018-03-10",
        "duration": "2 days",
    }
    at = datetime(2018, 3, 11, 12, 30)
    run = tiny_run(tmp_path / "spring", spring)
    (label,) = {case.label for case in ride_through(run, EVENT, at, BLOCKS).cases}
    assert label == f"{at:%Y-%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (
            {
                "it": {"preset": "perc1", "share": 0.6},
                "main": {"preset": "perc1", "share": 0.5},
            },
            "'main' add up to more than 1",
        ),
        (
            {
                "main": {
                    "stages": [{"voltage_pu": 0.9, "time_s": 1}],
                    "recovery": {"voltage_pu": 0.8, "time_s": 1, "ramp_s": 1},
                }
            },
            "raise recovery",
        ),
    ],
    ids=["more than a pool", "a stage above the recovery"],
)
def test_blocks_that_do_not_go_together_are_refused(blocks, words):
    with pytest.raises(InputError, match=words):
        tiny_scenario({"facility.ride_through": blocks})


def test_blocks_from_python_are_checked_as_those_of_a_scenario(run):
    settings = {"itt": RideThrough(preset="perc1")}
    for ride_through_study in (ride_through, Site.open):
        with pytest.raises(
            InputError, match="block 'itt' is of 'itt', expected 'main', 'it'"
        ):
            ride_through_study(run, settings=settings)


def test_settings_change_no_hash_where_there_are_none_and_are_read_back_alike():
    plain = tiny_scenario()
    assert "ride_through" not in plain.model_dump(mode="json")["facility"]
    given = tiny_scenario(
        {"facility.ride_through": {"main": {"preset": "four_stages"}}}
    )
    dumped = given.model_dump(mode="json")
    again = type(given).model_validate(dumped)
    assert again.facility.ride_through == given.facility.ride_through
    assert again.sha256() == given.sha256() != plain.sha256()


class TestEvents:
    """Files of voltage over time."""

    def test_a_file_of_the_dips_gives_the_same_answer(self, run, tmp_path):
        voltage = EVENTS[EVENT].voltage(0.40)
        rows = "".join(
            f"{t},{v},60\n" for t, v in zip(voltage.time_s, voltage.pu, strict=True)
        )
        file = tmp_path / "dips.csv"
        file.write_text(f"t_s,voltage_pu,frequency_hz\n{rows}", "utf-8")
        found = run.answer(str(file), settings=BLOCKS).cases[1]
        wanted = ride_through(run, EVENT, settings=BLOCKS).cases[2]
        assert found.totals() == pytest.approx(wanted.totals())

    def test_rms_of_half_cycles_of_a_step_are_those_of_the_sheet(self, tmp_path):
        n = 192  # samples per cycle
        t = np.arange(-4 * n, 6 * n) / n / 60
        wave = np.where(t < 0, 1.0, 0.4) * np.sin(2 * np.pi * 60 * t)
        file = tmp_path / "wave.csv"
        rows = "".join(f"{a:.9f},{b:.9f}\n" for a, b in zip(t, wave, strict=True))
        file.write_text(f"t_s,waveform_pu\n{rows}", "utf-8")
        series = load_event(str(file)).series
        assert series.is_rms
        assert [round(v, 4) for v in series.pu] == [1.0, 0.7616, 0.4]
        assert [round(x * 1e3, 2) for x in series.time_s[1:]] == [8.33, 16.67]
        (span,) = series.excursions(0.9, "under", 0.02)
        assert round(span.start * 1e3, 2) == 8.33  # it is not filtered again

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("t_s,v\n0,1\n", "dips.csv:1: column 'voltage_pu' is missing"),
            ("t_s,voltage_pu\n", "has no rows"),
            ("t_s,voltage_pu\n0,1\n0,0.4\n", "dips.csv:3: column 't_s' is '0'"),
            ("t_s,voltage_pu\n0,1\n1,-0.1\n", "a number of 0 or more up to 2"),
            ("t_s,voltage_pu,frequency_hz\n0,1,0\n", "a number above 0 up to 100"),
            ("t_s,waveform_pu\n0,1\n1,0.4\n", "more in even steps of at most 2.08 ms"),
        ],
    )
    def test_a_bad_file_is_refused_in_one_line(self, tmp_path, text, why):
        file = tmp_path / "dips.csv"
        file.write_text(text, "utf-8")
        with pytest.raises(InputError, match=why):
            load_event(str(file))

    def test_an_unknown_event_names_those_there_are(self):
        with pytest.raises(
            InputError, match=f"one of '{EVENT}'; did you mean .* or give a file"
        ):
            load_event("nerc_2024")

    def test_a_wave_at_50_hz_says_so_by_its_frequency(self, tmp_path):
        t = np.arange(0, 0.2, 1e-4)
        rows = "".join(f"{a:.4f},{np.sin(100 * np.pi * a):.9f},50\n" for a in t)
        (tmp_path / "w.csv").write_text(
            f"t_s,waveform_pu,frequency_hz\n{rows}", "utf-8"
        )
        assert load_event(str(tmp_path / "w.csv")).series.pu == pytest.approx([1.0])

    def test_a_longer_dip_than_the_run_has_power_for_holds_the_last_value(self, run):
        event = replace(EVENTS[EVENT], dips=((0.0, 0.1), (1e6, 0.1)))
        case = ride_through(run, event, settings=BLOCKS).cases[0]
        assert np.isfinite(case.site_power.without_mw).all()


@pytest.mark.slow
def test_report_and_data_sheet_have_the_answer_where_the_site_has_settings(
    tmp_path, monkeypatch
):
    settings = {"facility.ride_through": {"it": {"preset": "counter_3_in_60s"}}}
    site = {"site": {"short_circuit_mva": 5.0, "x_over_r": 8.0}}
    fine = {"duration": "1 h", "resolution": "0.1 s"}
    found = tiny_run(tmp_path / "run", settings | site | fine)
    (section,) = [s for s in found.sections() if s.id == "ride-through"]
    assert "study_assumption" in " ".join(section.notes)
    page, sheet = tmp_path / "page.html", tmp_path / "sheet.html"
    asked = []
    with monkeypatch.context() as counting:
        counting.setattr(
            data_module,
            "ride_through",
            lambda run: asked.append(run) or ride_through(run),
        )
        assert call("report", found.folder, "--out", page, "-q").code == 0
    assert len(asked) == 1  # for text and picture
    assert call("datasheet", found.folder, "--out", sheet, "-q").code == 0
    for place in (page, sheet):
        text = place.read_text("utf-8")
        assert "Ride-through: nerc_2024_07_10" in text
        assert "apid voltage change" in text
    assert "Load through nerc_2024_07_10" in page.read_text("utf-8")
    bare = tiny_run(tmp_path / "bare", {"duration": "1 h"})
    assert "ride-through" not in [s.id for s in bare.sections()]


def test_last_time_below_a_level_is_that_of_a_look_at_every_piece():
    rng = np.random.default_rng(5)
    edges = np.cumsum(rng.uniform(0.1, 2.0, 200))
    times = np.column_stack([edges[:-1], edges[1:]]).ravel()
    # Jumps fall
    rising = np.sort(rng.uniform(0.0, 1.0, (2, times.size // 2, 2)), axis=2)
    power = rising.reshape(2, -1)
    course = SitePower(times, power, np.ones_like(power))
    fine_s = np.linspace(edges[0], edges[-1], 400_001)
    drawn = np.interp(
        fine_s, times + np.tile([1e-9, -1e-9], times.size // 2), power.mean(axis=0)
    )
    for first, end in np.sort(rng.uniform(edges[0], edges[-1], (30, 2)), axis=1):
        inside = (fine_s >= first) & (fine_s < end) & (drawn < 0.3)
        expected = fine_s[inside].max() if inside.any() else first
        assert course.last_time_below_s(0.3, first, end) == pytest.approx(
            expected, abs=2e-3
        )


def test_tables_of_an_event_of_many_dips_show_the_first_of_them(run, tmp_path):
    dips = [f"{t},{pu}" for k in range(60) for t, pu in ((k + 1, 0.1), (k + 1.4, 1.0))]
    (tmp_path / "dips.csv").write_text("\n".join(["t_s,voltage_pu", "0,1.0", *dips]))
    bars: list[str] = []

    class Bars(Progress):
        @contextmanager
        def stage(self, name: str) -> Iterator[Update]:
            yield lambda _, text: bars.append(text)

    settings = {"it": RideThrough(preset="perc1")}
    with show_progress(Bars()):
        found = run.answer(str(tmp_path / "dips.csv"), settings=settings)
    assert found.cases[0].name in bars and len(bars) > len(found.verdicts)
    (table,) = [
        t for t in found.section().tables if t.title.startswith("By block and dip")
    ]
    assert 0 < len(table.headings) <= answer_module.MAX_DIPS + 1
    assert (
        len({move["dip"] for move in found.cases[0].load_changes()})
        > answer_module.MAX_DIPS
    )
