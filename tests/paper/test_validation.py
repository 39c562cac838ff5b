"""The program against published figures: every row, and the page."""

from __future__ import annotations

import pytest
from checks import Section
from validation import PAGE, SECTIONS, simulate_in, validation_page

pytestmark = pytest.mark.paper


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Section]:
    run_of = simulate_in(tmp_path_factory.mktemp("years"))
    return [section(run_of) for section in SECTIONS.values()]


def test_every_figure_lies_within_its_range_or_has_a_reason(
    found: list[Section],
) -> None:
    checks = [check for section in found for check in section.checks]
    assert len(checks) == 331
    assert not [check for check in checks if check.holds == bool(check.why)]


def test_validation_page_is_up_to_date(found: list[Section]) -> None:
    assert PAGE.read_text("utf-8") == validation_page(found), (
        "write it anew: just validation"
    )
