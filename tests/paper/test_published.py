"""Accepted ranges, the validation page, and the sections that need no year."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from checks import Check, Section
from metered import eight_gpu_runs, node_power, supply_efficiency
from paper_figures import figures
from paper_tables import LEVELS, TABLE_3, TABLE_4, run_times_and_power
from validation import HEAD, PAGE, median_week, validation_page, weekly_curve

from diploee.profiles import ProfileLibrary


@pytest.mark.parametrize(
    ("published", "found", "holds"),
    [
        (10.0, 10.4, True),
        (10.0, 10.6, False),
        (10.0, None, False),
        (None, None, True),
        (None, 1.0, False),
    ],
)
def test_a_figure_holds_within_its_distance_and_one_that_is_absent_must_be_absent(
    published: float | None, found: float | None, holds: bool
) -> None:
    assert Check.near("x", "", published, found, relative=0.05).holds is holds


def test_a_published_figure_without_an_accepted_range_is_refused() -> None:
    with pytest.raises(ValueError, match="steps"):
        Check("steps", "kW", 10.0, 8.0, None)


def test_the_page_counts_every_figure_and_lists_first_what_misses_with_its_reason() -> (
    None
):
    met = Check.near("run time", "s", 10.0, 10.1, relative=0.05, fitted=True)
    missed = Check.near("mean", "W", 1.0, 2.0, relative=0.1, why="fans")
    absent = Check.near("wait", "h", None, None)
    page = validation_page(
        [Section("A source", "its name", [met, missed, absent], "Mind this.")]
    )
    assert "**2 of 3 figures lie within their range.**" in page
    assert "fitted to 1 of them; of the others 1 of 2 do." in page
    why = "| A source: mean [W] | 1 | 2 | +100.0 % | 0.9 to 1.1: **no** | fans |"
    assert page.index("What misses") < page.index(why) < page.index("Source: its name")
    assert "| mean [W] | 1 | 2 | +100.0 % | 0.9 to 1.1: **no** |  |" in page
    assert "| run time [s] | 10 | 10.1 | +1.0 % | 9.5 to 10.5 | fitted |" in page
    assert "| wait [h] | none | none |  | none |  |" in page


def quick_sections() -> list[Section]:
    library = ProfileLibrary.open()
    profiles = run_times_and_power(library), figures(library)
    return [*profiles, eight_gpu_runs(), node_power(), supply_efficiency()]


def test_figures_lie_within_their_range_or_have_a_reason_and_no_range_is_widened() -> (
    None
):
    sections = quick_sections()
    checks = [check for section in sections for check in section.checks]
    assert [len(section.checks) for section in sections] == [71, 57, 8, 5, 9]
    assert not [check.what for check in checks if check.holds == bool(check.why)]
    widths = {
        check.what: check.accepted[1] / check.published - 1
        for check in checks
        if check.accepted and check.published
    }
    assert not [what for what, width in widths.items() if width > 0.15 + 1e-12]


def test_validation_page_has_the_sections_that_need_no_year() -> None:
    page, sections = PAGE.read_text("utf-8"), quick_sections()
    head, *parts = validation_page(sections).split("\n## ")
    assert head.startswith(HEAD) and page.startswith(HEAD)
    misses, *parts = parts
    assert all(line in page for line in misses.splitlines())
    assert all(part.rstrip() in page for part in parts)


@pytest.mark.parametrize("table", [TABLE_3, TABLE_4])
def test_a_table_has_a_figure_for_each_level(table: Any) -> None:
    assert tuple(table.values) == LEVELS
    assert len({row.name for row in table.rows}) == len(table.rows) == 14


def test_a_median_week_starts_on_monday_whatever_the_day_of_the_first_value() -> None:
    start = datetime(2018, 1, 4, 7, 30)  # a Thursday
    moments = [start + timedelta(minutes=30 * k) for k in range(3 * 336)]
    power_w = np.array([moment.weekday() * 24.0 + moment.hour for moment in moments])
    np.testing.assert_array_equal(
        median_week(power_w, 1_800_000, start), np.arange(168)
    )


def test_profiles_of_metered_nodes_have_their_durations_and_means() -> None:
    checks = eight_gpu_runs().checks
    assert len(checks) == 8 and all(check.holds for check in checks)
    by_name = {check.what: check.published for check in checks}
    # As the data set's README says: 12.5 MJ on one node, 14.7 MJ on eight.
    assert by_name["llama2_70b_lora on 1 node of 8 x H100: energy"] == pytest.approx(
        12.5, abs=0.1
    )
    assert by_name["llama2_70b_lora on 8 nodes of 8 x H100: energy"] == pytest.approx(
        14.7, abs=0.1
    )


def test_a_published_year_is_compared_week_by_week(tmp_path: Path) -> None:
    class Year:
        def __init__(self, power_w: np.ndarray) -> None:
            self.scenario = type(
                "", (), {"clock": type("", (), {"start": datetime(2018, 1, 1)})}
            )
            self.power_w = power_w

        def facility(self, _: Any) -> pd.DataFrame:
            return pd.DataFrame({"it_power_w": self.power_w})

    minutes = np.arange(4 * 7 * 1440)
    power_w = 4e6 + 1e6 * np.sin(2 * np.pi * minutes / 1440)
    stamps = pd.date_range("2018-01-01", periods=minutes.size, freq="min")
    path = tmp_path / "colocation_60_power.csv"
    pd.DataFrame({"timestamp": stamps, "power_W": power_w, "utilization": 0.61}).to_csv(
        path, index=False
    )
    asked = []

    def run_of(name: str, values: tuple[str, ...]) -> Any:
        asked.append((name, values))
        return Year(1.1 * power_w)

    section = weekly_curve(path, run_of)
    by_name = {check.what: check.found for check in section.checks}
    assert asked == [("colocation_10mw", (f"{TABLE_3.key}={TABLE_3.values[60]}",))]
    assert section.title == "Median week at 60 % utilization"
    assert by_name["correlation of the hourly medians of the week"] == pytest.approx(1)
    assert by_name["rms difference, as a fraction"] == pytest.approx(0.1)
    assert not [check.what for check in section.checks if check.accepted is None]
