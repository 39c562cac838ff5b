"""The net under a redesign.

What a base commit gives and what the working tree gives, compared. The base is unpacked
into a folder for temporary files and found there through PYTHONPATH; third parties'
packages are those of this environment, so that dependencies must not change meanwhile.
Both sides make the same runs, a sweep, a report and all exports, in two processes.
Schedules and power must be equal byte for byte, metrics to 1e-12, other files in their
names and their schema; API, help, keys of scenarios and of metrics line by line.
`net.toml` names base and exceptions.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import io
import json
import math
import os
import pkgutil
import runpy
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
BOTH, SIMPY, COMPILED = ("compiled", "simpy"), ("simpy",), ("compiled",)
H100 = "facility.pools.h100."
# Name, scenario, values, engines: the first with its own window, the second with a
# short one.
RUNS: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("colocation", "colocation_10mw", {"duration": "9 d", "warm_up": "2 d"}, BOTH),
    ("poi", "colocation_10mw_poi", {"duration": "4 d"}, BOTH),
    (
        "poi_air",
        "colocation_10mw_poi_air",
        {"duration": "2 d", "resolution": "1 s"},
        BOTH,
    ),
    (
        "metered",
        "colocation_metered_150mw",
        {"duration": "2 d", "warm_up": "1 d"},
        BOTH,
    ),
    ("campus", "campus_100mw_synchronous", {"duration": "2 d"}, BOTH),
    ("recurring", "chat_and_recurring", {"duration": "3 d", "warm_up": "1 d"}, BOTH),
    ("response", "demand_response_3h", {}, SIMPY),
    ("inference", "inference_1mw_poi", {"duration": "4 d"}, BOTH),
    ("latency", "inference_1mw_latency_10s", {"duration": "3 d"}, BOTH),
    ("mixed", "mixed_11mw", {"duration": "4 d", "warm_up": "1 d"}, BOTH),
    ("replicas", "replicas_under_a_cap", {}, BOTH),
    (
        "fine",
        "colocation_10mw",
        {"duration": "1 h", "warm_up": "6 h", "resolution": "0.1 s"},
        BOTH,
    ),
    # Full queues, so that their disciplines differ.
    *(
        (
            str(kind["kind"]),
            "colocation_10mw",
            {"duration": "2 d", H100 + "scheduler": kind, H100 + "n_nodes": 400},
            engines,
        )
        for kind, engines in (
            ({"kind": "sjf"}, BOTH),
            ({"kind": "easy", "estimate": {"factor": 2}, "order": "sjbf"}, BOTH),
            ({"kind": "conservative", "estimate": {"classes": ["1 h", "8 h"]}}, BOTH),
            ({"kind": "priority", "age": 1, "size": 1}, SIMPY),
            ({"kind": "power_capped", "cap_mw": 3}, SIMPY),
        )
    ),
    ("gpus", "colocation_10mw", {"duration": "4 d", H100 + "allocate": "gpus"}, BOTH),
)
OF_YEAR = (
    "csv",
    "8760",
    "sam",
    "reopt",
    "reopt-json",
    "opendss",
    "pypsa",
    "pandapower",
    "pjm-lla",
)
OF_DAYS = (
    "playback",
    "openg2g",
    "openg2g-load",
    "gpu-data",
    "andes",
    "gridlabd",
    "comtrade",
    "comtrade-1999",
)
YEAR = {"duration": "1 year", "resolution": "30 min"}
SWEEP = """
base: base.yaml
axes:
  - grid: {streams.training.target_utilization: [0.4, 0.6]}
seeds: 2
"""


def main() -> int:
    """Build, run and compare; return 1 on a difference that is not allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "base", nargs="?", help="commit to compare with; that of net.toml"
    )
    parser.add_argument("--config", type=Path, default=HERE.with_suffix(".toml"))
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make(asked.make)
        return 0
    config = tomllib.loads(asked.config.read_text())
    with tempfile.TemporaryDirectory(prefix="net-") as name:
        work = Path(name)
        unpack(asked.base or config["base"], work / "base")
        began = time.monotonic()
        sides = {"base": start(work / "base", work), "new": start(ROOT, work)}
        if sum([side.wait() for side in sides.values()]):
            for side in sides:
                sys.stdout.write(
                    f"-- {side}\n{(work / f'{side}.log').read_text()[-3000:]}\n"
                )
            return 1
        checks = compare(work / "out-base", work / "out-new")
        allowed = config.get("allowed", [])
        return report(checks, allowed, time.monotonic() - began)


def unpack(commit: str, folder: Path) -> None:
    """Write the files of a commit."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")


def start(tree: Path, work: Path) -> subprocess.Popen[bytes]:
    """Start the runs of one side."""
    side = "base" if tree.parent == work else "new"
    # Texts break at the width of the terminal; a run of one side shall not use the
    # other's core.
    env = os.environ | {
        "PYTHONPATH": str(tree),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    (work / f"cwd-{side}").mkdir()
    with (work / f"{side}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(HERE), "--make", str(work / f"out-{side}")],
            cwd=work / f"cwd-{side}",
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def make(out: Path) -> None:
    """Make all that is compared, with the `diploee` that PYTHONPATH names."""
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != HERE.parent]
    import diploee

    if not Path(diploee.__file__).is_relative_to(os.environ["PYTHONPATH"]):
        raise SystemExit(
            f"diploee is {diploee.__file__}, not below {os.environ['PYTHONPATH']}"
        )
    lists = out / "lists"
    lists.mkdir(parents=True)
    (lists / "api.json").write_text(json.dumps(api()))
    (lists / "outputs.json").write_text(
        json.dumps(command("schema", "--outputs").splitlines())
    )
    for name, options in (("scenario", []), ("sweep", ["--sweep"])):
        schema = json.loads(command("schema", *options))
        keys = [f"{key} = {value}" for key, value in flat(schema)]
        (lists / f"{name}.json").write_text(json.dumps(keys))
    for name, scenario, values, engines in RUNS:
        for engine, days in zip(engines, (None, 0.25), strict=False):
            diploee.run(
                scenario,
                out / "runs" / f"{name}-{engine}",
                values=values,
                engine=engine,
                window_days=days,
                event_windows=name in ("poi", "mixed"),
                n_threads=1,
            )
    year, poi = out / "runs" / "year", out / "runs" / "poi-compiled"
    diploee.run(
        "colocation_10mw_poi", year, values=YEAR, engine="compiled", n_threads=1
    )
    files = out / "files"
    files.mkdir()
    others(files, year, poi)


def others(files: Path, year: Path, poi: Path) -> None:
    """Make a sweep, verdicts, pages and exports."""
    base, sweep = Path("base.yaml"), Path("sweep.yaml")
    shipped = command("scenarios", "show", "colocation_10mw_poi")
    base.write_text(shipped.replace("duration: 1 year", "duration: 2 d"))
    sweep.write_text(SWEEP)
    command(
        "sweep", str(sweep), "--out", str(files / "sweep"), "--workers", "0", "--quiet"
    )
    for preset in ("example", "ercot_lcl_2026_06", "ieso_3_0"):
        (files / f"limits-{preset}.json").write_text(
            command("limits", preset, str(poi), "--json")
        )
    command("report", str(poi), "--out", str(files / "run.html"), "--quiet")
    command(
        "report", str(files / "sweep"), "--out", str(files / "sweep.html"), "--quiet"
    )
    command(
        "datasheet",
        str(year),
        "--out",
        str(files / "sheet.html"),
        "--csv",
        str(files / "sheet.csv"),
        "--quiet",
    )
    command("compare", str(poi), str(year), "--out", str(files / "compare.csv"))
    for name in [*OF_YEAR, *OF_DAYS]:
        run = year if name in OF_YEAR else poi
        out = files / (f"export-{name}" + (".csv" if name == "pandapower" else ""))
        command("export", name, str(run), "--out", str(out), "--quiet")


def command(*words: str) -> str:
    """Return what a command prints."""
    said, before = io.StringIO(), sys.argv
    sys.argv = ["diploee", *words]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module("diploee", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(
                f"{words}: exit code {end.code}\n{said.getvalue()}"
            ) from None
    finally:
        sys.argv = before
    return said.getvalue()


def api() -> list[str]:
    """Return the public names.

    Those of `diploee` with signatures, those that packages list.
    """
    import diploee

    found = []
    for name in diploee.__all__:
        value = getattr(diploee, name)
        found.append(f"diploee.{name}")
        if callable(value) and not inspect.isclass(value):
            found += [
                f"diploee.{name}({one})" for one in inspect.signature(value).parameters
            ]
    for info in pkgutil.walk_packages(diploee.__path__, "diploee."):
        if info.ispkg and "._" not in info.name:
            names = getattr(importlib.import_module(info.name), "__all__", ())
            found += [f"{info.name}.{name}" for name in names]
    return sorted(found)


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested values by dotted key."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, one in inner:
        if isinstance(one, dict | list) and one:
            yield from flat(one, f"{key}{name}.")
        else:
            yield f"{key}{name}", one


def compare(base: Path, new: Path) -> dict[str, tuple[int, list[str]]]:
    """Return for each check how much was compared, and the differences."""
    checks: dict[str, tuple[int, list[str]]] = {}

    def note(check: str, n: int, found: list[str]) -> None:
        before, differences = checks.get(check, (0, []))
        checks[check] = before + n, differences + [f"{check}/{line}" for line in found]

    names = [
        {str(p.relative_to(side)) for p in side.rglob("*")} for side in (base, new)
    ]
    note("files", len(names[0]), missing(*names))
    for name in sorted(names[0] & names[1]):
        old, now = base / name, new / name
        if old.is_dir():
            continue
        if name.startswith("lists/"):
            lines = [json.loads(p.read_text()) for p in (old, now)]
            check = old.stem if old.stem == "api" else f"{old.stem} lines"
            note(check, len(lines[0]), missing(*map(set, lines)))
            if set(lines[0]) == set(lines[1]) and lines[0] != lines[1]:
                note(check, 0, ["in another order"])
        elif old.suffix == ".parquet":
            check = {"facility": "power", "jobs": "schedules"}.get(
                old.stem, "other parquet"
            )
            note(check, *tables(old, now, name))
        elif old.suffix == ".json":
            close = old.stem != "manifest"
            check = (
                "manifests"
                if not close
                else "metrics"
                if old.stem == "metrics"
                else "json"
            )
            note(check, *values(old, now, name, close))
        else:
            same = old.read_bytes() == now.read_bytes()
            note("files byte for byte", 1, [] if same else [name])
    return checks


def missing(base: set[str], new: set[str]) -> list[str]:
    """Return what one of two sets has alone."""
    return [f"- {x}" for x in sorted(base - new)] + [
        f"+ {x}" for x in sorted(new - base)
    ]


def tables(old: Path, now: Path, name: str) -> tuple[int, list[str]]:
    """Compare the columns of two tables byte for byte, metadata included."""
    import pyarrow.parquet as pq

    before, after = (pq.read_table(path).combine_chunks() for path in (old, now))
    found = [
        f"{name}/{line}"
        for line in missing(*map(set, (before.column_names, after.column_names)))
    ]
    for column in before.column_names:
        if column not in after.column_names:
            continue
        if before.schema.field(column) != after.schema.field(column):
            found.append(f"{name}/{column}: {after.schema.field(column)}")
        elif not before[column].equals(after[column]):
            found.append(f"{name}/{column}: other values")
    if before.schema.metadata != after.schema.metadata:
        found.append(f"{name}/metadata")
    return before.num_columns, found


def values(old: Path, now: Path, name: str, close: bool) -> tuple[int, list[str]]:
    """Compare numbers to 1e-12, other values exactly.

    Of manifests all but times and versions.
    """
    before, after = (dict(flat(json.loads(path.read_text()))) for path in (old, now))
    found = [f"{name}/{line}" for line in missing(set(before), set(after))]
    for key in before.keys() & after.keys():
        a, b = before[key], after[key]
        if not close and key.split(".")[0] in (
            "timing",
            "packages",
            "diploee",
            "platform",
        ):
            continue
        both = isinstance(a, int | float) and isinstance(b, int | float)
        if a != b and not (
            both and (math.isclose(a, b, rel_tol=1e-12) or a != a != b != b)
        ):
            found.append(f"{name}/{key}: {a!r} -> {b!r}")
    return len(before), sorted(found)


def report(
    checks: dict[str, tuple[int, list[str]]], allowed: list[Any], took_s: float
) -> int:
    """Print a table and the differences; return 1 if one is not allowed."""
    write, failed, used = sys.stdout.write, [], set()
    write(f"{'check':<22}{'compared':>10}{'allowed':>10}{'different':>11}\n")
    for check, (count, found) in checks.items():
        bad = []
        for line in found:
            hit = [
                one["pattern"] for one in allowed if fnmatchcase(line, one["pattern"])
            ]
            used.update(hit)
            bad += [] if hit else [line]
        write(f"{check:<22}{count:>10,}{len(found) - len(bad):>10,}{len(bad):>11,}\n")
        failed += bad[:20] + [f"{check}: {len(bad) - 20} more"] * (len(bad) > 20)
    write("".join(f"  {line[:300]}\n" for line in failed))
    for one in allowed:
        if one["pattern"] not in used:
            write(f"not needed any more: {one['pattern']} ({one['reason']})\n")
    write(f"{'different' if failed else 'equal'}, {took_s:.0f} s\n")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
