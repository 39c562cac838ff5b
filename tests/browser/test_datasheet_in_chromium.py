"""The data sheet in a real headless Chromium: it fits its window, and prints on one
page."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from diploee import load_scenario
from diploee import run as simulate
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.reports.datasheet import write_datasheet

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_sheet_of_a_year_at_the_meter_fits_and_prints_on_one_page(
    browser: Any, tmp_path: Path, screenshots: Path | None
) -> None:
    scenario = load_scenario("colocation_10mw_poi")
    simulate(scenario, tmp_path / "run", engine="compiled")
    peaks = tmp_path / "peaks.csv"
    days = (f"{month}CP,2018-{month:02}-17 17:00,60" for month in range(6, 10))
    peaks.write_text("\n".join(["name,start,duration_min", *days]), "utf-8")
    page = tmp_path / "sheet.html"
    limits = ["ieso_3_0", "ercot_lcl_2026_06", "southern", "lipa"]
    write_datasheet(
        tmp_path / "run", page, limits=limits, peaks=read_peak_intervals(peaks)
    )
    for width in (1280, 700):
        browser.set_window_size(width, 900)
        browser.get(page.as_uri())
        wide, inner = browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert wide <= inner
        assert len(browser.find_elements("css selector", "h2")) == 10
        if screenshots is not None:
            browser.save_screenshot(str(screenshots / f"datasheet-{width}.png"))
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(printed["data"])
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 1
