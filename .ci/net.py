"""The net under a redesign: a base commit compared with the working tree.

Both trees are copied into a folder for temporary files and found there through
PYTHONPATH; third parties' packages are those of this environment, so that dependencies
must not change meanwhile. Both make the same runs, a sweep, pages and all exports, in
two processes. Schedules and power must be equal byte for byte, metrics to 1e-12, other
files in their names and their content; the API, help, keys of scenarios, of sweeps and
of outputs line by line, after modules that `docs/moved.md` says are elsewhere.
`net.toml` names the base, the runs, and what else may differ.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.metadata
import inspect
import io
import json
import math
import os
import pkgutil
import re
import runpy
import shutil
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
CONFIG = tomllib.loads(HERE.with_suffix(".toml").read_text())
ROW_OF_MOVED = re.compile(
    r"^\| `(diploee[\w.]+)` \| `(diploee[\w.]+)` \|", re.MULTILINE
)
SWEEP = """
base: base.yaml
axes:
  - grid: {streams.training.target_utilization: [0.4, 0.6]}
seeds: 2
"""
CHECKS = {
    "facility": "power",
    "jobs": "schedules",
    "manifest": "manifests",
    "metrics": "metrics",
}
# Of a manifest, what is of the machine
NOT_COMPARED = ("timing", "packages", "platform")


def main() -> int:
    """Build, run and compare; return 1 on a difference that is not allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "base", nargs="?", default=CONFIG["base"], help="commit to compare with"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder to keep the results of the base in"
    )
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        make(asked.make)
        return 0
    with tempfile.TemporaryDirectory(prefix="net-") as name:
        base, new = Path(name, "base"), Path(name, "new")
        for part in ("diploee", "profiles", "scenarios"):
            shutil.copytree(ROOT / part, new / "tree" / part)
        shutil.copy(ROOT / "pyproject.toml", new / "tree")
        kept = kept_at(asked.keep, asked.base) if asked.keep else base / "out"
        began = time.monotonic()
        if not kept.exists():
            packed = subprocess.check_output(["git", "archive", asked.base], cwd=ROOT)
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(base / "tree", filter="data")
        sides = {side: start(side) for side in (base, new) if (side / "tree").exists()}
        failed = [side for side, process in sides.items() if process.wait()]
        if not kept.exists() and base not in failed:
            shutil.move(base / "out", kept)
        for side in failed:
            print(f"-- {side.name}\n{(side / 'log').read_text()[-3000:]}")
        if failed:
            return 1
        return report(compare(kept, new / "out"), time.monotonic() - began)


def kept_at(folder: Path, commit: str) -> Path:
    """Return where a commit's results are kept, of these runs and packages."""
    packages = sorted(
        f"{of.name} {of.version}" for of in importlib.metadata.distributions()
    )
    asked = [value for key, value in CONFIG.items() if key != "allowed"]
    by = json.dumps([packages, asked]).encode() + HERE.read_bytes()
    commit = subprocess.check_output(["git", "rev-parse", commit], cwd=ROOT, text=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{commit[:10]}-{hashlib.sha256(by).hexdigest()[:10]}"


def start(side: Path) -> subprocess.Popen[bytes]:
    """Start the runs of one side, which has entry points of its own."""
    (side / "cwd").mkdir()
    project = tomllib.loads((side / "tree" / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [
            f"[{group}]",
            *(f"{name} = {place}" for name, place in points.items()),
        ]
    installed = side / "tree" / "diploee-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: diploee\nVersion: 0\n"
    )
    (installed / "entry_points.txt").write_text("\n".join(lines))
    # Texts break at the width of the terminal; one side shall not use the other's core.
    env = {"PYTHONPATH": str(side / "tree"), "COLUMNS": "100", "NO_COLOR": "1"}
    with (side / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(HERE), "--make", str(side / "out")],
            cwd=side / "cwd",
            env=os.environ | env | {"NUMBA_NUM_THREADS": "1"},
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
    lists = {
        "api": sorted(api()),
        "help": list(helps()),
        "outputs": command("schema", "--outputs").splitlines(),
        "scenario": keys("schema"),
        "sweep": keys("schema", "--sweep"),
    }
    (out / "lists").mkdir(parents=True)
    for name, lines in lists.items():
        (out / "lists" / f"{name}.json").write_text(json.dumps(lines))
    for name, given in CONFIG["runs"].items():
        values = dict(given)
        scenario, engines = (
            values.pop("scenario"),
            values.pop("engines", ["compiled", "simpy"]),
        )
        # The first engine with its own window, the second with a short one
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
    (out / "files").mkdir()
    others(out / "files", out / "runs" / "year-compiled", out / "runs" / "poi-compiled")


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
    sheet = ("--out", str(files / "sheet.html"), "--csv", str(files / "sheet.csv"))
    command("datasheet", str(year), *sheet, "--quiet")
    command("compare", str(poi), str(year), "--out", str(files / "compare.csv"))
    for run, names in (
        (year, CONFIG["exports_of_a_year"]),
        (poi, CONFIG["exports_of_days"]),
    ):
        for name in names:
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


def api() -> Iterator[str]:
    """Yield public names: of `diploee` with what they take, and those of fronts."""
    import diploee

    for name in diploee.__all__:
        value = getattr(diploee, name)
        found = {name: value}
        for owner in getattr(value, "__mro__", ()):  # a class: its own members
            if owner.__module__.startswith("diploee."):
                found |= {
                    f"{name}.{of}": to for of, to in vars(owner).items() if of[0] != "_"
                }
        for place, one in found.items():
            yield f"diploee.{place}"
            if inspect.isfunction(one):
                yield from (
                    f"diploee.{place}({key})"
                    for key in inspect.signature(one).parameters
                )
    for info in pkgutil.walk_packages(diploee.__path__, "diploee."):
        if info.ispkg:
            names = getattr(importlib.import_module(info.name), "__all__", ())
            yield from (f"{info.name}.{name}" for name in names)


def helps(*words: str) -> Iterator[str]:
    """Yield the lines of the help of a command and of those below it."""
    text = command(*words, "--help")
    yield from (f"{' '.join(words)}: {line.strip()}" for line in text.splitlines())
    if "COMMAND [ARGS]" in text:
        for name in re.findall(r"^│ ([a-z][a-z-]*) ", text, re.MULTILINE):
            yield from helps(*words, name)


def keys(*words: str) -> list[str]:
    """Return the leaves of a schema that a command prints."""
    return [f"{key} = {value}" for key, value in flat(json.loads(command(*words)))]


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
    names = [
        {str(p.relative_to(side)) for p in side.rglob("*")} for side in (base, new)
    ]
    checks = {"files": (len(names[0]), [f"files/{line}" for line in missing(*names)])}
    for name in sorted(names[0] & names[1]):
        old, now = base / name, new / name
        if old.is_dir():
            continue
        if old.parent.name == "lists":
            check, (n, found) = old.stem, lists(old, now)
        elif old.suffix == ".parquet":
            check, (n, found) = CHECKS.get(old.stem, "other parquet"), tables(old, now)
        elif old.suffix == ".json":
            check, (n, found) = CHECKS.get(old.stem, "other json"), values(old, now)
        else:
            check, n = "other files", 1
            found = [] if old.read_bytes() == now.read_bytes() else ["other bytes"]
        before, differences = checks.get(check, (0, []))
        place = check if old.parent.name == "lists" else f"{check}/{name}"
        checks[check] = before + n, differences + [f"{place}/{line}" for line in found]
    return checks


def missing(base: set[str], new: set[str]) -> list[str]:
    """Return what one of two sets has alone."""
    return [f"- {x}" for x in sorted(base - new)] + [
        f"+ {x}" for x in sorted(new - base)
    ]


def lists(old: Path, now: Path) -> tuple[int, list[str]]:
    """Compare lines, those of the base with modules where they are now.

    A front that one side lacks is one difference.
    """
    moved = dict(ROW_OF_MOVED.findall((ROOT / "docs" / "moved.md").read_text("utf-8")))

    def now_at(found: re.Match[str]) -> str:
        parts = found[0].split(".")
        heads = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
        head = next((head for head in heads if head in moved), "")
        return moved.get(head, "") + found[0].removeprefix(head)

    def front(line: str) -> str:
        return line.partition("(")[0].rpartition(".")[0]

    before, after = (json.loads(path.read_text()) for path in (old, now))
    before = [re.sub(r"\bdiploee(\.\w+)+", now_at, line) for line in before]
    if old.stem == "api":
        both = set(map(front, before)) & set(map(front, after))
        before, after = (
            sorted(
                line if front(line) in both else f"{front(line)}.*" for line in lines
            )
            for lines in (before, after)
        )
    found = missing(set(before), set(after))
    return len(before), found or ["in another order"] * (before != after)


def tables(old: Path, now: Path) -> tuple[int, list[str]]:
    """Compare columns of two tables byte for byte, and what the file says of itself."""
    import pyarrow.parquet as pq

    before, after = (pq.read_table(path).combine_chunks() for path in (old, now))
    found = missing(set(before.column_names), set(after.column_names))
    for column in set(before.column_names) & set(after.column_names):
        if before.schema.field(column) != after.schema.field(column):
            found.append(f"{column}: {after.schema.field(column)}")
        elif not before[column].equals(after[column]):
            found.append(f"{column}: other values")
    if before.schema.metadata != after.schema.metadata:
        found.append("metadata")
    return before.num_columns, found


def values(old: Path, now: Path) -> tuple[int, list[str]]:
    """Compare values exactly, numbers but those of manifests to 1e-12."""
    before, after = (dict(flat(json.loads(path.read_text()))) for path in (old, now))
    found = missing(set(before), set(after))
    exact = old.stem == "manifest"
    for key in sorted(before.keys() & after.keys()):
        a, b = before[key], after[key]
        if a == b or (exact and key.split(".")[0] in NOT_COMPARED):
            continue
        both = not exact and isinstance(a, int | float) and isinstance(b, int | float)
        if not (both and (math.isclose(a, b, rel_tol=1e-12) or (a != a and b != b))):
            found.append(f"{key}: {a!r} -> {b!r}")
    return len(before), found


def report(checks: dict[str, tuple[int, list[str]]], took_s: float) -> int:
    """Print a table and the differences; return 1 if one is not allowed."""
    failed: list[str] = []
    used: set[str] = set()
    print(f"{'check':<14}{'compared':>10}{'allowed':>10}{'different':>11}")
    for check, (count, found) in checks.items():
        hits = {x: [p for p in CONFIG["allowed"] if fnmatchcase(x, p)] for x in found}
        used.update(*hits.values())
        bad = [line for line, patterns in hits.items() if not patterns]
        print(f"{check:<14}{count:>10,}{len(found) - len(bad):>10,}{len(bad):>11,}")
        failed += bad[:20] + [f"{check}: {len(bad) - 20} more"] * (len(bad) > 20)
    for line in failed:
        print(f"  {line[:300]}")
    for pattern in CONFIG["allowed"].keys() - used:
        print(f"not needed any more: {pattern}")
    print(f"{'different' if failed else 'equal'}, {took_s:.0f} s")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
