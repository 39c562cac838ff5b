"""P5 to P95 of an ensemble, beside the figures of a run of its scenario."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from builders import TYPICAL_DENVER, tiny_run, write_scenario
from command_line import call

import diploee
from diploee import Run
from diploee.base.errors import InputError
from diploee.reports.datasheet import data_sheet
from diploee.runs.sections import Section, Statistic, as_dict

SITE: dict[str, Any] = {
    "duration": "3 h",
    "facility.node_types.node.ac_power": "dlc",
    "facility.stages": ["pdu", "ups", "transformers", "point_of_interconnection"],
}
LOSS = "facility.stages.0.linear_loss"
SIGNED = (-0.002, 0.001)
BANDS: dict[str, tuple[float | None, float | None]] = {
    "power.max_mw": (0.04, 0.05),
    "poi.peak.reactive_mvar": SIGNED,
    "poi.reactive.max_mvar": (0.001, 0.004),
    "poi.peak.power_factor": (0.97, 0.99),
    "power.median_mw": (None, None),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("site") / "run"
    return tiny_run(folder, SITE)


def ensemble_of(
    run: Run, folder: Path, n: int = 40, points: int = 1, **other: Any
) -> Path:
    """Write what is read of an ensemble of a run's scenario, with another seed and
    loss."""
    folder.mkdir()
    base = {**run.manifest["scenario"], "seed": 7, **other}
    metrics = {
        k: {"n": n, "p5": a, "p95": b, "mean": 0.0} for k, (a, b) in BANDS.items()
    }
    content = {"draw": {LOSS: {}}, "points": [{"metrics": metrics}] * points}
    (folder / "ensemble.json").write_text(json.dumps(content))
    (folder / "sweep.json").write_text(json.dumps({"base_scenario": base}))
    return folder


def figures(run: Run) -> dict[str, Statistic]:
    return by_key(reversed(run.sections()))


def sheet(run: Run) -> dict[str, Statistic]:
    return by_key(data_sheet(run).sections)


def by_key(sections: Iterable[Section]) -> dict[str, Statistic]:
    return {f.key: f for section in sections for f in section.figures if f.key}


def test_a_headline_figure_has_its_band_in_its_unit(run: Run, tmp_path: Path) -> None:
    banded = run.with_bands(ensemble_of(run, tmp_path / "many"))
    found = figures(banded)["power.max_mw"]
    assert found.unit == "kW"
    assert found.band == pytest.approx((40, 50))
    assert found.note.endswith("; P5-P95 40.00 to 50.00")
    answer = as_dict(banded.sections())[0]
    (peak,) = (f for f in answer["figures"] if f["key"] == "power.max_mw")
    assert peak["band"] == pytest.approx((40, 50))
    assert "band" not in as_dict(run.sections())[0]["figures"][0]
    assert answer["notes"][1] == (
        "P5-P95: over 40 runs in many, which draw 1 numbers within their ranges; "
        "this run is one more draw."
    )
    assert figures(banded)["power.mean_mw"].band is None
    assert figures(banded)["power.median_mw"].band is None


def test_a_sign_is_not_known_where_the_band_holds_zero(
    run: Run, tmp_path: Path
) -> None:
    banded = run.with_bands(ensemble_of(run, tmp_path / "many"))
    for found in (figures(banded), sheet(banded)):
        assert found["poi.peak.power_factor"].note.endswith("; sign not known")
        assert "sign" not in found["poi.reactive.max_mvar"].note
    assert found["poi.peak.reactive_mvar"].note.endswith("; sign not known")
    assert not any("sign not known" in of.note for of in sheet(run).values())


def test_without_a_band_reactive_power_is_said_to_rest_on_assumptions(
    run: Run, tmp_path: Path
) -> None:
    banded = run.with_bands(ensemble_of(run, tmp_path / "many"))
    for of, expected in ((run, True), (banded, False)):
        (poi,) = (section for section in of.sections() if section.id == "poi")
        assert any("its sign may not be" in note for note in poi.notes) == expected
        (reactive,) = (s for s in data_sheet(of).sections if s.id == "reactive")
        assert any("its sign may not be" in note for note in reactive.notes) == expected


def test_a_power_factor_has_two_digits(run: Run) -> None:
    found = figures(run)
    for name in ("peak", "lagging", "leading"):
        key = "poi.peak.power_factor" if name == "peak" else f"poi.{name}_power_factor"
        assert len(found[key].shown) == len("0.98"), key


def test_report_and_data_sheet_show_the_band(run: Run, tmp_path: Path) -> None:
    many = ensemble_of(run, tmp_path / "many")
    options = ("--bands", many, "--out", tmp_path / "page.html")
    ended = call("report", run.folder, *options)
    assert ended.code == 0
    assert "P5-P95 40.00 to 50.00" in " ".join(ended.out.split())
    assert "P5-P95 40.00 to 50.00" in (tmp_path / "page.html").read_text("utf-8")
    sections = json.loads(call("report", run.folder, "--bands", many, "--json").out)[
        "sections"
    ]
    assert sections[0]["figures"][0]["band"] == pytest.approx([40, 50])
    table = tmp_path / "sheet.csv"
    options = (*options[:2], "--csv", table, "--out", tmp_path / "sheet.html")
    assert call("datasheet", run.folder, *options).code == 0
    lines = table.read_text("utf-8").splitlines()
    rows = [line for line in lines if "sign not known" in line]
    names = [row[1] for row in csv.reader(rows)]
    at_peak = "Power factor at the peak, 1 min means"
    assert names == ["Reactive power at the peak", at_peak]
    assert "P5-P95 -0.002000 to 0.001000; sign not known" in rows[0]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            {"duration": "4 h"},
            r"is of another scenario \(duration differ from those of",
        ),
        ({"n": 19}, "19 runs have no P5 and P95; take --runs 40"),
        (
            {"points": 2},
            "has 2 points; 'diploee ensemble SITE --assumed --runs 40' makes one of",
        ),
    ],
)
def test_what_is_no_ensemble_of_the_scenario_is_refused(
    run: Run, tmp_path: Path, other: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=f"--bands: .*{problem}"):
        run.with_bands(ensemble_of(run, tmp_path / "many", **other))


def test_bands_need_an_ensemble_and_one_run(run: Run) -> None:
    with pytest.raises(InputError, match=r"--bands: .*: not an ensemble"):
        run.with_bands(run.folder)
    two = call("report", run.folder, run.folder, "--bands", run.folder)
    assert "--bands: is of one run; give its folder alone" in two.problem


@pytest.mark.slow
def test_a_sized_site_and_its_ensemble_are_of_one_scenario(
    tmp_path: Path, library_folder: Path
) -> None:
    cooled = [*SITE["facility.stages"][:2], "dlc_tower", *SITE["facility.stages"][2:]]
    sized = {"facility.size": {"poi_mw": 1.0}, "facility.stages": cooled}
    site = write_scenario(tmp_path / "site.yaml", SITE | TYPICAL_DENVER | sized)
    profiles = [str(library_folder)]
    one = diploee.run(site, tmp_path / "run", profiles=profiles, seed=5)
    diploee.ensemble(site, tmp_path / "many", seeds=20, assumed=True, profiles=profiles)
    peak = figures(one.with_bands(tmp_path / "many"))["power.max_mw"]
    assert peak.band is not None
    assert isinstance(peak.value, float)
    assert 0.7 * peak.value < peak.band[0] < peak.band[1] < 1.5 * peak.value
