"""Times and sizes of runs in README and docs are those of the one page that is
measured."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEED = ROOT / "docs" / "SPEED.md"
PAGES = [ROOT / "README.md", ROOT / "SKILL.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[([^]]*)\]\([^)#]*SPEED\.md#([\w-]+)\)")
ROW = re.compile(
    r'^\| <a id="([\w-]+)"></a>.*? \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \|', re.M
)
CLAIM = re.compile(
    r"fraction of a second|(?:under|quarter of) a minute|on two cores"
    r"|\b(?:s|seconds?|minutes?|[MG]B) of (?:processor time|memory|disk)"
    r"|\byear[^.|]{0,30}\bin [\d.]+ s\b"
)


def costs() -> dict[str, tuple[float, ...]]:
    """Return processor time [s], memory [MB] and disk [MB] by anchor."""
    rows = ROW.findall(SPEED.read_text("utf-8"))
    return {
        key: tuple(float(x.replace(",", "")) for x in cells) for key, *cells in rows
    }


def agrees(text: str, row: tuple[float, ...]) -> bool:
    """Tell whether a linked figure is one of a row, with at most its digits."""
    number, *unit = text.replace(",", "").split(maxsplit=1)
    scale = 1000 if unit and unit[0] == "GB" else 1
    return any(f"{float(number) * scale:.2g}" == f"{cell:.2g}" for cell in row)


def test_a_linked_cost_is_that_of_the_measured_row_and_none_stands_without_a_link() -> (
    None
):
    rows = costs()
    texts = {page: page.read_text("utf-8") for page in PAGES}
    links = [(page, *link) for page in PAGES for link in LINK.findall(texts[page])]
    assert [link for link in links if not agrees(link[1], rows[link[2]])] == []
    del texts[SPEED]
    unlinked = {page: CLAIM.findall(LINK.sub("", text)) for page, text in texts.items()}
    assert [found for found in unlinked.items() if found[1]] == []


def test_a_stale_cost_and_one_without_a_link_are_found() -> None:
    agreed = {
        "10 s of processor time": True,
        "520 MB": True,
        "0.52 GB": True,
        "9.2": False,
        "2.45 s": False,
    }
    assert {text: agrees(text, (10.0, 520.0, 41.0)) for text in agreed} == agreed
    for claim in (
        "the same start times, job for job, in a fraction of a second",
        "Each runs in under a minute and ends in a number",
        "took 9.2, 9.1 and 8.5 s of processor time",
        "takes about a minute and 1.8 GB of memory",
        "two do a year of 10 MW in 1.25 s, one in 2.45 s",
    ):
        assert CLAIM.search(claim), claim
