"""Runs of the studio in their child process: one at a time, stopped whole, each page
its own."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import wait_until
from studio_pages import Page, served

import diploee
from diploee.studio.server import Studio
from diploee.studio.worker import is_within_import

pytestmark = pytest.mark.slow

SHORT = [["duration", "2 d"]]


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio on an empty folder, in a thread."""
    with served(tmp_path_factory.mktemp("studio").resolve(), 600) as made:
        yield made


def run(
    studio: Studio, page: str, *edits: list[str], **more: Any
) -> Iterator[dict[str, Any]]:
    """Yield what the page of a draft hears of its run."""
    draft = {"start": "file", "file": "colocation_10mw", "edits": [*SHORT, *edits]}
    yield from Page(studio, page).lines("run", {"draft": draft, "span": "year"} | more)


def left(studio: Studio) -> list[str]:
    """Return what is in the folder of runs, hidden files too."""
    return sorted(
        str(p.relative_to(studio.runs_folder)) for p in studio.runs_folder.rglob("*")
    )


def child_of(studio: Studio) -> int:
    assert studio.jobs is not None
    assert studio.jobs.child is not None
    return studio.jobs.child.pid


def ended(said: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Return all that was said of a job, which must have gone well."""
    found: dict[str, Any] = {}
    for message in said:
        found |= message
    assert found["problems"] == []
    return found


def test_run_shows_its_picture_before_its_metrics_and_is_that_of_the_library(
    studio: Studio, tmp_path: Path
) -> None:
    said = [m for m in run(studio, "a") if m]
    kinds = [m.get("kind") or next(iter(m)) for m in said]
    assert kinds.index("forecast") < kinds.index("picture") < kinds.index("report")
    found = ended(iter(said))
    own = diploee.run(
        "colocation_10mw", tmp_path / "own", values=dict(SHORT), engine="compiled"
    )
    for name in ("facility.parquet", "metrics.json"):
        made = studio.runs_folder / found["run"] / name
        assert made.read_bytes() == (own.folder / name).read_bytes()
    assert b"Facility power" in Page(studio, "a").get(found_frame(said, "picture"))
    assert b"diploee report" in Page(studio, "a").get(found_frame(said, "report"))


def found_frame(said: list[dict[str, Any]], kind: str) -> str:
    return next(str(m["frame"]) for m in said if m.get("kind") == kind)


def test_week_is_kept_nowhere_and_drawn_over_the_one_before_of_the_same_days(
    studio: Studio,
) -> None:
    kept = left(studio)

    def week(start: str) -> tuple[bool, bool]:
        more = {"span": "week", "start": start, "before": before[-1]}
        said = [m for m in run(studio, "w", ["duration", "1 year"], **more) if m]
        before.append(ended(iter(said))["id"])
        picture = Page(studio, "w").get(found_frame(said, "picture"))
        return b'"before"' in picture, any(m.get("differences") for m in said)

    before = [""]
    assert week("2018-01-01") == (False, False)
    assert week("2018-01-01") == (True, True)
    assert week("2018-07-02") == (False, False)
    assert left(studio) == kept


def test_run_that_is_there_is_not_run_again(studio: Studio) -> None:
    first = ended(run(studio, "a"))
    again = list(run(studio, "b"))
    assert ended(iter(again))["run"] == first["run"]
    assert "simulate" not in {m.get("stage") for m in again}


def test_page_that_goes_away_leaves_nothing_of_its_run(studio: Studio) -> None:
    before = left(studio)
    said = run(studio, "a", ["seed", "11"], ["duration", "1 year"])
    while next(said).get("stage") != "simulate":
        pass
    said.close()
    other = ended(run(studio, "b", ["seed", "12"]))
    kept = [name for name in left(studio) if name.partition("/")[0] != other["run"]]
    assert kept == before


def test_changes_in_quick_turn_end_with_the_last_one_and_its_own_answer(
    studio: Studio,
) -> None:
    before = left(studio)
    for seed in range(50, 58):
        edits = ["seed", str(seed)], ["duration", "3 months"]
        said = run(studio, "a", *edits, span="week")
        for _ in range(seed % 4):
            next(said)
        said.close()
    found = [m for m in run(studio, "a", ["seed", "58"], span="week") if m]
    last = ended(iter(found))
    frames = [f"frames/{last['id']}/{kind}" for kind in ("picture", "report")]
    assert [m["frame"] for m in found if "frame" in m] == frames
    assert left(studio) == before


def test_killed_child_is_one_line_and_leaves_nothing_and_the_next_run_works(
    studio: Studio,
) -> None:
    before = left(studio)
    said = run(studio, "a", ["seed", "21"], ["duration", "1 year"])
    while next(said).get("stage") != "simulate":
        pass
    os.kill(child_of(studio), signal.SIGKILL)
    *_, last = said
    assert "ended unexpectedly" in last["problems"][0]
    wait_until(lambda: left(studio) == before)
    assert ended(run(studio, "a", ["seed", "22"]))["run"]


def test_two_pages_at_once_get_their_own_answers_one_after_the_other(
    studio: Studio,
) -> None:
    def of_page(k: int) -> dict[str, Any]:
        return ended(run(studio, f"p{k}", ["seed", f"3{k}"]))

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(of_page, range(3)))
    folders = [studio.runs_folder / of["run"] for of in found]
    assert [diploee.open_run(of).scenario.seed for of in folders] == [30, 31, 32]


def test_run_beyond_its_time_is_refused_with_the_remedy(studio: Studio) -> None:
    longer = run(
        studio, "a", ["step", "0.1 s"], ["duration", "9 years"], automatic=True
    )
    *_, last = longer
    assert "duration" in last["problems"][0]


def test_sheet_and_export_are_handed_over_and_kept_nowhere(studio: Studio) -> None:
    page, found = Page(studio, "a"), ended(run(studio, "a"))
    before = left(studio)
    sheet = page.post("take", {"runs": [found["id"]], "what": "datasheet"})
    assert b"<html" in sheet[1]
    table = page.post("take", {"runs": [found["run"]], "what": "csv"})
    assert b"facility_power" in table[1] or b"timestamp" in table[1]
    refused = page.post("take", {"runs": [found["id"]], "what": "8760"})
    assert refused[0] == 400
    assert "year" in json.loads(refused[1])["problems"][0]["message"]
    assert left(studio) == before


def test_closing_ends_the_child_and_removes_what_it_kept(tmp_path: Path) -> None:
    with served(tmp_path.resolve(), 600) as made:
        ended(run(made, "a", span="week"))
        child = child_of(made)
    assert not made.temporary.exists()

    def is_gone() -> bool:
        with suppress(ProcessLookupError):
            os.kill(child, 0)
            return False
        return True

    wait_until(is_gone)


def test_stop_during_an_import_waits_until_the_module_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_module.py").write_text(
        "import sys\n"
        "from diploee.studio.worker import is_within_import\n"
        "is_seen = is_within_import(sys._getframe())\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("slow_module")
    monkeypatch.delitem(sys.modules, "slow_module")
    assert module.is_seen
    assert not is_within_import(sys._getframe())
    assert not is_within_import(None)
