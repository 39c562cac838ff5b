"""The program against what was published: every row that is asked for, and the page that tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from diploee.published import Section, sections, validation_page

pytestmark = pytest.mark.paper

PAGE = Path(__file__).parents[2] / "docs" / "VALIDATION.md"


@pytest.fixture(scope="module")
def found() -> list[Section]:
    return list(sections())


def test_every_figure_that_is_asked_for_is_met(found: list[Section]) -> None:
    checks = [check for section in found for check in section.checks]
    assert sum(check.holds is not None for check in checks) >= 140
    assert not [check for check in checks if check.holds is False]


def test_the_page_is_what_the_program_gives(found: list[Section]) -> None:
    assert PAGE.read_text("utf-8") == validation_page(found), (
        "write it anew: diploee published --out docs/VALIDATION.md --force"
    )
