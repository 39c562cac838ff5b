"""Costs of runs, measured: ``python tests/bench/costs.py FOLDER`` writes docs/SPEED.md.

All times and sizes of README and docs are links to rows of that page. Each command is a
process of its own; processor time is that of all its threads, and hardly grows on a
machine that others use.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "SPEED.md"
YEAR = ("run", "colocation_10mw", "--engine", "compiled")


def _larger(times: int, duration: str) -> tuple[str, ...]:
    """Return the facility with that many times its nodes."""
    changes = (
        f"duration={duration}",
        f"facility.pools.h100.n_nodes={times * 2_840}",
        f"facility.rated_power_mw={times * 10}",
    )
    return (*YEAR, *(word for change in changes for word in ("--set", change)))


def _checked(site: str, duration: str) -> tuple[str, ...]:
    """Return a run in steps of 0.1 s with two files of limits."""
    limits = ("--limits", "ercot_lcl_2026_06", "--limits", "ercot_nprr1191")
    return "run", site, *YEAR[2:], "--set", f"duration={duration}", *limits


ROWS = {
    "year": ("a year of 10 MW at 60 s", YEAR),
    "simpy": ("the same in SimPy", YEAR[:2]),
    "inference": ("a year of inference, 1 MW", ("run", "inference_1mw")),
    "meter": (
        "a year of 10 MW at its meter",
        ("run", "colocation_10mw_poi", *YEAR[2:]),
    ),
    "day": (
        "a day of 10 MW at 0.1 s",
        (*YEAR, "--set", "resolution=0.1 s", "--set", "duration=1 day"),
    ),
    "days-of-100-mw": ("36 days of 100 MW at 60 s", _larger(10, "36 days")),
    "hours-of-1-gw": ("87 hours of 1 GW at 60 s", _larger(100, "87 h")),
    "limits": (
        "3 days of 10 MW at its meter, two limits",
        _checked("colocation_10mw_poi", "3 days"),
    ),
    "ends": (
        "the same of 100 MW, both ends of its large job",
        _checked("campus_100mw_synchronous", "3 days"),
    ),
    "native": ("a year of 10 MW at 0.1 s", (*YEAR, "--set", "resolution=0.1 s")),
}
"""Name and command of each row by its anchor on the page."""


def measured(words: tuple[str, ...], out: Path) -> tuple[float, float, float]:
    """Return processor time [s], peak memory [MB] and size on disk [MB] of a command."""  # noqa: E501
    command = [sys.executable, "-m", "diploee", *words, "--quiet", "--out", str(out)]
    with subprocess.Popen(command) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3, size / 1e6


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    name = next(
        line.split(":")[1].strip() for line in lines if line.startswith("model name")
    )
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main(folder: Path) -> None:
    """Measure all rows and write the page."""
    measured((*YEAR, "--set", "duration=1 day"), folder / "compiles")
    rows = []
    for key, (what, words) in ROWS.items():
        figures = measured(words, folder / key)
        shutil.rmtree(folder / key)
        cells = " | ".join(f"{float(f'{figure:.2g}'):,.10g}" for figure in figures)
        shown = " ".join(f'"{word}"' if " " in word else word for word in words)
        rows.append(f'| <a id="{key}"></a>{what} | {cells} | `diploee {shown}` |')
        print(rows[-1], flush=True)  # noqa: T201
    head = (
        "# What runs cost",
        "With this page you can estimate the time, memory and disk of a run.",
        (
            "`just speed FOLDER` measures this page, each command in a process of its "
            "own and compiled before; other\npages link to its rows. Two digits; "
            "processor time is that of all threads."
        ),
        f"Machine: {_machine()}, which others used as well; {date.today()}.",
        "| | processor time [s] | peak memory [MB] | on disk [MB] | command |\n"
        "|---|---:|---:|---:|---|\n" + "\n".join(rows),
    )
    PAGE.write_text("\n\n".join(head) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
