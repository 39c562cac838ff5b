"""A package: each question with its file or the reason, the same bytes, differences."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from builders import tiny_library, tiny_scenario, write_library, write_scenario
from command_line import call, contents

import diploee
from diploee.base.errors import InputError, OutputExistsError
from diploee.reports import package

SITE: dict[str, Any] = {
    "duration": "6 h",
    "facility.node_types.node.ac_power": "air_hgx",
    "facility.stages": [
        "ups",
        "transformers",
        {"kind": "point_of_interconnection", "contract_mw": 0.06},
    ],
    "facility.ride_through": {"it": {"preset": "perc1"}},
}
OTHER = SITE | {
    "facility.stages": [
        "ups",
        "transformers",
        {"kind": "point_of_interconnection", "contract_mw": 0.05},
    ],
}


def make(out: Path, site: Mapping[str, Any] = SITE, **options: Any) -> Path:
    return diploee.package(
        tiny_scenario(site), out, profiles=tiny_library(), limits=["example"], **options
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("package") / "made", excel=True)


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def test_readme_names_every_file_or_says_why_it_is_not_there(made: Path) -> None:
    text = (made / "README.md").read_text("utf-8")
    table, absent = text.split("## Not here")
    names = {path.name for path in made.iterdir()} - {"README.md", "package.json"}
    assert {name for name in names if f"`{name}" not in table} == set()
    assert "needs a whole calendar year" in absent
    # All of them with their sidecars
    assert (made / "pscad_rise_1s.txt.meta.json").is_file()
    assert {path.name for path in (made / "psse").iterdir()} == {
        "cmld.dyr",
        "datacenter.raw",
        "diploee_export.json",
        "perc1.json",
    }


def test_pages_have_what_the_run_has(made: Path) -> None:
    verdicts = pd.read_csv(made / "verdicts.csv")
    assert {"met", "inconclusive"} <= set(verdicts["value"])
    assert "Ride-through" in (made / "ride_through.html").read_text("utf-8")
    table = pd.read_csv(made / "by_year" / "by_year.csv")
    metrics = json.loads((made / "record" / "metrics.json").read_text("utf-8"))
    (hour,) = [
        of
        for of in metrics["grid"]["maximum_demand"]["intervals"]
        if of["interval_min"] == 60
    ]
    assert table["peak_mw"][0] == pytest.approx(hour["max_mw"], abs=5e-4)


def test_two_packages_have_the_same_bytes(made: Path, copy: Path) -> None:
    make(copy, excel=True, force=True)
    assert contents(copy) == contents(made)
    assert not any(b"timing" in text for text in contents(copy).values())


def test_no_file_names_a_place_of_this_machine(made: Path) -> None:
    names = [
        name
        for name, text in contents(made).items()
        if str(made.parent).encode() in text or b"/tmp/" in text
    ]
    assert names == []


def test_a_changed_scenario_adds_a_page_of_keys_and_figures(
    made: Path, copy: Path
) -> None:
    for site in (OTHER, OTHER):  # the first package stays the one that was studied
        make(copy, site, excel=True, force=True)
        found = pd.read_csv(copy / "differences.csv")
        key = "facility.stages.point_of_interconnection.contract_mw"
        of_key = found[found["item"] == key].set_index("quantity")["value"]
        assert of_key.to_dict() == {"as studied": "0.06", "as built": "0.05"}
        assert found["item"].str.contains("Use of the contract").any()
        assert not found["item"].str.contains("Maximum power").any()  # it is equal
        assert contents(copy / "as_studied") == contents(made / "record")
    make(copy, excel=True, force=True)
    assert contents(copy) == contents(made)


def test_differences_begin_with_verdicts_ride_through_and_firm_demand(
    copy: Path,
) -> None:
    larger = {
        "facility.pools.main.n_nodes": 24,
        "facility.ride_through": {"it": {"preset": "four_stages"}},
    }
    make(copy, SITE | larger, force=True)
    found = pd.read_csv(copy / "differences.csv")
    titles = [text.removeprefix("Differences: ") for text in found["section"].unique()]
    assert titles[0] == "Verdicts" and len(titles) == 3
    first = found[found["section"].str.endswith("Verdicts")]
    assert {"Leaves, at most at a time", "Firm demand to sign"} <= set(first["item"])


def test_peaks_of_a_file_are_in_both_forms_of_the_table_and_in_firm_levels(
    tmp_path: Path,
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    peaks = tmp_path / "peaks.csv"
    peaks.write_text("start,end,name\n2018-01-01 02:02,2018-01-01 03:00,grid\n")
    place = make(tmp_path / "out", peaks=peaks, excel=True)
    table = pd.read_csv(place / "by_year" / "by_year.csv")
    assert table["case"].tolist() == ["all hours", "grid"]
    rows = openpyxl.load_workbook(place / "by_year" / "by_year.xlsx")["by_year"]
    assert [row[3] for row in rows.iter_rows(values_only=True)] == ["case", *table.case]
    firm = pd.read_csv(place / "firm.csv")
    called = firm["section"].str.endswith("Called in peak hours")
    hours = firm[called & (firm["quantity"] == "above")]["value"].astype(float)
    assert hours.max() == 1  # 58 min, in whole steps of 5 min
    assert "summer peak" not in (place / "README.md").read_text("utf-8")


def test_an_older_package_goes_by_force_alone_and_other_files_never(
    made: Path, copy: Path
) -> None:
    with pytest.raises(OutputExistsError, match="force=True"):
        make(copy)
    (copy / "mine.txt").write_text("mine", "utf-8")
    with pytest.raises(OutputExistsError, match=r"holds 'mine\.txt'"):
        make(copy, force=True)
    (copy / "mine.txt").unlink()
    assert contents(copy) == contents(made)


def test_a_package_is_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(package, "write_csv", fail)
    with pytest.raises(diploee.DiploeeError, match="nothing of it was kept"):
        make(tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_command_refuses_a_run_that_is_forecast_to_take_long(tmp_path: Path) -> None:
    site = write_scenario(tmp_path / "tiny.yaml", {"duration": "1 year"})
    library = write_library(tmp_path / "library")
    words = ("package", site, "--profiles", library, "--out", tmp_path / "out")
    outcome = call(*words, "--at-most", "0.00001")
    assert outcome.code == 2 and "--at-most" in outcome.err
    assert call(*words, "--at-most", "0").code == 2
    assert not (tmp_path / "out").exists()


def test_command_refuses_a_place_that_cannot_be_written_before_any_work(
    tmp_path: Path,
) -> None:
    site = write_scenario(tmp_path / "tiny.yaml", {"duration": "1 year"})
    outcome = call("package", site, "--out", site / "out")
    assert outcome.code == 2 and "can't be written" in outcome.problem


def test_firm_table_has_a_row_for_each_level(made: Path) -> None:
    levels = pd.read_csv(made / "firm.csv")
    assert len(levels) > 0 and (made / "firm.html").is_file()


def test_a_part_that_fails_for_its_input_is_named_with_its_reason(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="No such file"):
        make(tmp_path / "out", peaks=tmp_path / "none.csv")
    bare = {"duration": "1 h"}
    text = (make(tmp_path / "bare", bare) / "README.md").read_text("utf-8")
    table, absent = text.split("## Not here")
    assert "no facility.ride_through" in absent
    assert "Mvar" not in table.split("by_year")[0] and "power flow" not in table
    assert "(RAW)? the run has no reactive power" in absent
    assert "summer peak or summer net peak or autumn peak? the run has no" in absent
    assert "no work is declared flexible" in absent
    assert not (tmp_path / "bare" / "psse" / "datacenter.raw").exists()
