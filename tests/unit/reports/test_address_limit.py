"""Pictures where the address space is limited, as on login nodes: drawn apart, or
refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from diploee.base.errors import OutputError
from diploee.reports import write_report
from diploee.reports.drawing import engine

SPEC = {
    "data": {"values": [{"a": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "a"}},
}


def test_engine_that_dies_costs_the_pictures_and_leaves_the_page(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "report.html"
    write_report([run_folder], page)
    expected = page.stat().st_size
    page.unlink()
    monkeypatch.setattr(engine, "address_limit_b", lambda: 4_000_000_000)
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(OutputError, match=r"4 GB of virtual memory.*is written"):
        write_report([run_folder], page, png=tmp_path / "png")
    assert page.stat().st_size == pytest.approx(expected, rel=0.01)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html"]


@pytest.mark.slow
def test_pictures_drawn_in_a_process_of_their_own_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [((SPEC,), {"scale": scale}) for scale in (1.0, 2.0)]
    here = engine.run_vl_convert("vegalite_to_png", calls)
    monkeypatch.setattr(engine, "address_limit_b", lambda: 10**15)
    assert engine.run_vl_convert("vegalite_to_png", calls) == here
    assert all(each.startswith(b"\x89PNG") for each in here)
