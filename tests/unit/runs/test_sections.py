"""Sections of a run: what stands in them is what the metrics hold, ranked, in every
form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import tiny_run
from command_line import call

from diploee import Run
from diploee.base.metric import find_metric
from diploee.grid.limits import check_limits, load_limits
from diploee.metrics.catalogue import declared_metrics
from diploee.reports.run_sections import run_sections
from diploee.runs.formatting import format_time, number_format
from diploee.runs.lower_bounds import data_limits_note
from diploee.runs.metric_order import sort_by_rank
from diploee.runs.sections import Section, Statistic, as_dict, long_rows, side_by_side

STAGES = [
    "pdu",
    "ups",
    "transformers",
    {"kind": "point_of_interconnection", "contract_mw": 0.02},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten days in two months of a contracted meter."""
    changes = {
        "start": "2018-01-25",
        "duration": "10 d",
        "warm_up": "1 d",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": STAGES,
    }
    folder = tmp_path_factory.mktemp("sections") / "run"
    return tiny_run(folder, changes)


def section_of(run: Run, name: str, **options: Any) -> Section:
    return next(s for s in run_sections(run, **options) if s.id == name)


def test_a_site_at_a_meter_answers_with_the_use_of_its_contract_first(run: Run) -> None:
    answer = run_sections(run)[0]
    keys = [figure.key for figure in answer.figures]
    assert keys[0] == "poi.headroom.use" and "power.load_factor" in keys
    peak_mw = run.metrics["poi"]["peak"]["max_mw"]
    assert answer.figures[0].value == pytest.approx(100 * peak_mw / 0.02)
    assert answer.figures[0].note.endswith(" of 0.02 MW")


def test_verdicts_stand_in_the_answer_in_a_word(run: Run) -> None:
    report = check_limits(run, load_limits("example"))
    sections = run_sections(run, [report])
    (verdict,) = (f for f in sections[0].figures if f.key == "verdict")
    assert verdict.value == report.verdict and sections[1].id == "limits"
    (table,) = sections[1].tables
    assert {table.cell(item, "Verdict") for item in table.rows} >= {report.span_verdict}


def test_figures_are_the_metrics_in_the_page_s_unit(run: Run) -> None:
    for section in run_sections(run):
        for figure in section.figures:
            if figure.key and figure.key != "verdict":
                metric = find_metric(figure.key, declared_metrics())
                assert metric is not None
                scale = 1e3 if figure.unit[:1] == "k" else 1
                expected = run.values[figure.key] * metric.factor * scale
                assert figure.value == pytest.approx(expected), figure.key


def test_a_month_s_load_factors_give_the_energy_back(run: Run) -> None:
    tables = {table.title: table for table in section_of(run, "poi").tables}
    demand, energy = tables["Demand over 15 min"], tables["Energy and power factor"]
    hours = {"2018-01": 7 * 24, "2018-02": 3 * 24}
    assert list(demand.rows) == list(hours)
    for month, cells in demand.rows.items():
        mean_kw = cells["Active"].value * cells["Load factor"].value  # type: ignore[operator]
        energy_kwh = energy.rows[month]["Energy"].value
        assert mean_kw * hours[month] == pytest.approx(energy_kwh)
    parts = tables["Energy by part"]
    assert list(parts.rows) == [*hours, "Whole run"]
    for cells in parts.rows.values():
        shares = [
            f.value for name, f in cells.items() if f.unit == "kWh" and name != "Total"
        ]
        assert sum(shares) == pytest.approx(cells["Total"].value)  # type: ignore[arg-type]


def test_ramps_and_causes_are_those_of_the_metrics(run: Run) -> None:
    tables = {table.title: table for table in section_of(run, "ramps").tables}
    block = run.metrics["grid"]["ramps"]["intervals"]
    up, down = (
        tables[f"Ramps {way}: change of adjacent means"] for way in ("up", "down")
    )
    assert list(up.rows) == ["1 min", "5 min", "10 min", "15 min", "1 h"]
    for entry, cells in zip(block, down.rows.values(), strict=True):
        assert cells["Largest"].value == pytest.approx(entry["down"]["max_mw"] * 1e3)
    named = [
        item for name in tables if name.startswith("Why") for item in tables[name].rows
    ]
    assert len(named) == len(set(named)) and "Peak" in named


def test_one_line_says_what_is_withheld_and_why(run: Run) -> None:
    (line,) = section_of(run, "ramps").notes
    assert line.startswith(
        "Withheld: ramps over 2 s and ramps over 10 s (shorter than the run's"
    )
    assert "No claim on flicker, torsion or harmonics" in line
    block = json.loads(json.dumps(run.metrics["grid"]))
    for kind in ("maximum_demand", "ramps", "rolling_range", "spectrum"):
        block[kind]["absent"].clear()
    assert data_limits_note(block).startswith("No claim on flicker")


def test_figures_in_percent_change_in_percentage_points_side_by_side() -> None:
    now, more = (
        Section(
            "jobs", "Jobs", (Statistic("Queued", x, "%"), Statistic("Wait", w, "h"))
        )
        for x, w in ((38.26, 2.0), (57.69, 3.0))
    )
    (table,) = side_by_side({"now": now, "more": more}).tables
    changes = [(f.value, f.unit) for f in table.figures if f.quantity == "change"]
    assert changes == [(19.4, "pp"), (50.0, "%")]
    # Each cell says what it is, as no heading is true of both.
    assert table.headings == ["now", "more", "change"] and len(table.rows) == 2
    assert [line[-1] for line in table.lines()] == ["+19.4 pp", "+50.0 %"]


def test_json_table_and_notebook_hold_the_same_figures(run: Run) -> None:
    sections = run_sections(run)
    rows = list(long_rows(sections))
    plain = as_dict(sections)
    values = [f.get("value") for s in plain for f in s["figures"]]
    values += [f.get("value") for s in plain for t in s["tables"] for f in t["figures"]]
    assert sorted(map(str, values)) == sorted(str(row[3]) for row in rows)
    page = run._repr_html_()
    assert all(figure.shown in page for figure in sections[0].figures)
    shown = json.loads(call("report", run.folder, "--json").out)["sections"]
    assert [s["figures"] for s in shown] == [s["figures"] for s in plain]


def test_what_people_ask_first_is_ranked_first() -> None:
    ranked = "poi.headroom.use power.max_mw jobs.submitted grid.bandwidth.trusted_hz"
    assert sort_by_rank(ranked.split()[::-1]) == ranked.split()


def test_times_and_numbers_are_as_fine_as_they_can_be_read() -> None:
    text = "2018-05-19T12:39:07.300-07:00"
    assert format_time(text) == "2018-05-19 12:39"
    assert format_time(text, 1_000) == "2018-05-19 12:39:07"
    assert format_time(text, 100) == "2018-05-19 12:39:07.3"
    assert format_time(None) == format_time(5) == "\N{EN DASH}"
    assert number_format([7.33, None, -0.2]).format(7.33) == "7.330"
    assert number_format([3649.2], 3).format(3649.2) == "3,649"
    assert number_format([673, None, 2]).format(673) == "673"  # counts


def test_notebook_text_of_a_user_s_name_is_no_markup(tmp_path: Path) -> None:
    changes = {"duration": "6 h", "name": "x"}
    run = tiny_run(tmp_path / "a<b>", changes)
    assert "a<b>" not in run._repr_html_() and "a&lt;b&gt;" in run._repr_html_()
