"""Figures are what they are called: each is computed anew with pandas from the Parquet
file."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import tiny_run, write_library, write_scenario
from command_line import call

from diploee import Run, load_scenario
from diploee import run as simulate
from diploee.reports.datasheet import data_sheet
from diploee.runs.metric_labels import LABELS
from diploee.runs.sections import Section, Statistic

METER = [
    "pdu",
    "ups",
    "transformers",
    {"kind": "point_of_interconnection", "contract_mw": 0.02},
]
CHANGES = {
    "start": "2018-01-25",
    "duration": "10 d",
    "facility.stages": METER,
    "facility.node_types.node.ac_power": "air_hgx",
}
MEANS = ", 1 min means"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Ten days in two months of a contracted meter, which begins empty."""
    folder = tmp_path_factory.mktemp("labels") / "run"
    return tiny_run(folder, CHANGES)


def cells(section: Section) -> dict[tuple[str, str], Statistic]:
    figures = [
        *section.figures,
        *(f for table in section.tables for f in table.figures),
    ]
    return {
        (f.item, f.quantity): f for f in figures if isinstance(f.value, int | float)
    }


def change(power: pd.Series, n: int) -> float:
    return float((power - power.rolling(n + 1, min_periods=1).min()).max())


def quarters_of(power: pd.Series) -> pd.Series:
    found = power.resample("15min").agg(["mean", "size"])
    return found["mean"][found["size"] == 15]


def recomputed(run: Run) -> dict[tuple[str, str], float]:
    """Return every figure by its label and column, in MW, Mvar, MVA, MWh and ratios."""
    frame = (
        pd.read_parquet(run.folder / "facility.parquet")
        .set_index("timestamp")
        .astype(float)
    )
    whole, q_whole = frame["facility_power_w"] / 1e6, frame["poi_reactive_var"] / 1e6
    filled = round(run.transient_h * 60)
    assert filled > 0
    p, q = whole.iloc[filled:], q_whole.iloc[filled:]
    quarters, apparent = quarters_of(p), np.hypot(p, q)
    energy, drawn, supplied = (
        of.sum() / 60 for of in (whole, q_whole.clip(0), -q_whole.clip(None, 0))
    )
    rated = run.metrics["power"]["rated_mw"]
    found = {
        "Use of the contract": 100 * p.max() / 0.02,
        f"Peak{MEANS}": whole.max(),
        "Demand, 15 min": quarters.max(),
        f"Largest rise within 10 min{MEANS}": change(p, 10),
        f"Largest fall within 10 min{MEANS}": change(-p, 10),
        "Energy": energy,
        f"Load factor of the peak{MEANS}": whole.mean() / whole.max(),
        f"Minimum{MEANS}": p.min(),
        "Mean": whole.mean(),
        "Median": whole.median(),
        "Load factor of the 15 min demand": whole.mean() / quarters.max(),
        "Load factor of the rated power": whole.mean() / rated,
        "Load factor of the contract": whole.mean() / 0.02,
        "Reactive power at the peak": q[p.idxmax()],
        f"Maximum reactive power{MEANS}": q.max(),
        f"Minimum reactive power{MEANS}": q.min(),
        "Mean reactive power": q_whole.mean(),
        f"Power factor at the peak{MEANS}": p.max() / np.hypot(p.max(), q[p.idxmax()]),
        "Power factor, lagging": energy / np.hypot(energy, drawn),
        "Power factor, leading": energy / np.hypot(energy, supplied),
        f"Maximum apparent power{MEANS}": apparent.max(),
    }
    for level in (50, 90, 99, 99.9):
        found[f"15 min demand, P{level:g}"] = quarters.quantile(level / 100)
    table = {(label, ""): value for label, value in found.items()}
    for minutes in (1, 10, 15):
        column = f"{minutes} min means"
        means = p.rolling(minutes).mean()
        blocks = p if minutes == 1 else p.resample(f"{minutes}min").mean()[1:-1]
        table["Peak [MW]", column] = blocks.max()
        ramp = (means - means.shift(minutes)) / minutes
        table["Largest ramp up [MW/min]", column] = ramp.max()
        table["Largest ramp down [MW/min]", column] = -ramp.min()
    q_quarters = quarters_of(q)
    all_quarters = quarters_of(whole)
    for month, of in p.groupby(p.index.strftime("%Y-%m")):
        own = quarters[quarters.index.strftime("%Y-%m") == month]
        mean = all_quarters[all_quarters.index.strftime("%Y-%m") == month].mean()
        table[str(month), f"peak{MEANS}"] = of.max()
        table[str(month), "15 min demand"] = own.max()
        table[str(month), "load factor of the 15 min demand"] = mean / own.max()
        table[str(month), "15 min reactive"] = q_quarters[
            q_quarters.index.strftime("%Y-%m") == month
        ].max()
    return table


def test_every_figure_of_sheet_and_page_is_what_its_label_says(run: Run) -> None:
    expected = recomputed(run)
    sheet = {section.id: section for section in data_sheet(run).sections}
    places = [sheet[name] for name in ("active", "averaging", "reactive", "months")]
    answer = run.sections()[0]
    for section in (*places, answer):
        assert cells(section)
        for place, figure in cells(section).items():
            per = 1e3 if figure.unit[:2] in ("kW", "kV", "kv") else 1
            value = expected[place] if place in expected else expected[figure.item, ""]
            assert figure.value == pytest.approx(value * per, rel=2e-6), place


def test_every_label_of_the_first_figures_has_a_formula(run: Run) -> None:
    names = [re.escape(of.name) for of in LABELS.values()]
    patterns = [name.replace(r"\{:g\}", r"[\d.]+") for name in names]
    known = re.compile(f"(?:{'|'.join(patterns)})(?:{MEANS})?")
    sheet = {section.id: section for section in data_sheet(run).sections}
    of_sheet = (sheet[name] for name in ("active", "reactive", "averaging"))
    sections = (run.sections()[0], *of_sheet)
    names = [item for section in sections for item, _ in cells(section)]
    names += [column for _, column in cells(sheet["months"])]
    assert [name for name in names if not known.fullmatch(name)] == []


def test_a_month_s_peak_is_called_a_mean_over_what_is_written_not_over_finer_steps(
    tmp_path: Path,
) -> None:
    changes = CHANGES | {"duration": "2 h", "step": "10 s"}
    run = tiny_run(tmp_path / "run", changes)
    (months,) = (of for of in data_sheet(run).sections if of.id == "months")
    written = pd.read_parquet(run.folder / "facility.parquet").set_index("timestamp")
    named = {column: figure.value for (_, column), figure in cells(months).items()}
    peak_mw = written["facility_power_w"].max() / 1e6
    assert named[f"peak{MEANS}"] == pytest.approx(peak_mw)


def test_what_is_modelled_is_said_of_the_steps_that_the_ramps_are_of(
    tmp_path: Path,
) -> None:
    said = {}
    for step in (None, "10 s"):
        changes = CHANGES | {"duration": "2 h", "step": step}
        run = tiny_run(tmp_path / f"{step}", changes)
        (averaging,) = (of for of in data_sheet(run).sections if of.id == "averaging")
        notes = " ".join(
            (*averaging.notes, *(table.note for table in averaging.tables))
        )
        said[step] = re.search(r"Nothing above ([\d.]+) Hz", notes)
    assert said[None] and float(said[None][1]) == pytest.approx(0.4 / 60, rel=0.05)
    assert said["10 s"] and float(said["10 s"][1]) == pytest.approx(0.4 / 10, rel=0.05)


def test_page_and_terminal_show_the_same_first_figures(
    run: Run, tmp_path: Path
) -> None:
    page = html.unescape(run.report(tmp_path / "page.html").read_text("utf-8"))
    shown = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    library = write_library(tmp_path / "lib")
    scenario = write_scenario(tmp_path / "a.yaml", CHANGES)
    told = call("run", scenario, "--profiles", library, "--out", tmp_path / "run")
    words = " ".join(told.out.split())
    for figure in run.sections()[0].figures:
        if isinstance(figure.value, float) and figure.key != "poi.headroom.use":
            value = f"{figure.shown} {figure.unit}".strip()
            assert f"{figure.item} {value}" in words
            assert figure.item in shown and value in shown


def test_waits_say_how_many_jobs_never_started(tmp_path: Path) -> None:
    changes = {
        "duration": "6 h",
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 2000,
    }
    run = tiny_run(tmp_path / "run", changes)
    n = run.metrics["jobs"]["unstarted"]
    assert n > 0
    waits = [f for s in run.sections() for f in s.figures if "queue time" in f.item]
    assert len(waits) >= 3
    assert all(f"{n:,} jobs never started" in figure.note for figure in waits)
    assert not any("of all jobs" in figure.item for figure in waits)
    label = run.metric("jobs.mean_queue_time_all_h").label
    assert label.endswith("that started")


def test_requests_per_node_and_tokens_stand_with_their_source(tmp_path: Path) -> None:
    scenario = load_scenario("inference_1mw", ["duration=6 h"])
    run = simulate(scenario, tmp_path / "run", engine="compiled")
    frame = run.facility()
    served = sum(frame[name] for name in frame if name.startswith("served_rps."))
    per_node = served.mean() / frame["busy_nodes"].mean()
    figures = run.sections()[0].figures
    (figure,) = (f for f in figures if f.key == "requests.per_node_rps")
    # Busy nodes at starts of intervals
    assert figure.value == pytest.approx(per_node, rel=0.01)
    assert "answers of 512 tokens (output_tokens)" in figure.note
    tokens = float(
        re.search(r"([\d,]+) tokens/s per node", figure.note)[1].replace(",", "")
    )  # type: ignore[index]
    assert tokens == pytest.approx(512 * figure.value, rel=1e-3)
    services = run.metrics["requests"]["services"].values()
    nodes = sum(of["effective_rps"] / of["per_node_rps"] for of in services)
    whole = run.metrics["requests"]
    assert whole["effective_rps"] / whole["per_node_rps"] == pytest.approx(nodes)
