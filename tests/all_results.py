"""Finds what the package finds, as plain data: ``python all_results.py FOLDER``.

Runs of some hours, limits, imports, a fit, an ensemble, exports, forms and errors go
into ``FOLDER/results.json``, in the order in which the package gives them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from builders import write_library, write_scenario
from command_line import call
from contract.job_log_writers import JOBS, LogWriter, Slurm, Swf, write_lines
from readme_logs import EPOCH_S, write_logs
from samples import MOONCAKE, synthetic_sample

import diploee
from diploee import Run
from diploee.grid.limits import LimitReport
from diploee.importers import read_job_log, read_request_trace
from diploee.runs.sections import as_dict
from diploee.studio.page_contents import Draft, StudioFolder, page_contents, search_keys

RUNS: dict[str, dict[str, Any]] = {
    "colocation_10mw_poi": {"duration": "6 h"},
    "campus_100mw_synchronous": {"duration": "1 h"},
    "colocation_metered_150mw": {"duration": "1 h"},
    "demand_response_3h": {"start": "2018-01-03 15:00", "duration": "4 h"},
    "inference_1mw_poi": {"duration": "2 h"},
    "inference_1mw_latency_10s": {"duration": "1 h"},
    "mixed_11mw": {"duration": "2 h"},
    "replicas_under_a_cap": {"duration": "10 min"},
    "training_measured_levels": {"duration": "10 min"},
    "chat_and_recurring": {"duration": "6 h"},
}
"""Shipped scenarios, and what is changed of them."""

LIMITS = ("example", "ercot_lcl_2026_06", "southern")

OF_THE_COMPUTER = {"timing", "results_sha256"}


def plain(value: Any) -> Any:
    """Return results in types of JSON, without what is the computer's own."""
    match value:
        case dict():
            return {
                str(k): plain(v) for k, v in value.items() if k not in OF_THE_COMPUTER
            }
        case list() | tuple():
            return [plain(inner) for inner in value]
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int():
            return value
        case _ if hasattr(value, "__dataclass_fields__"):
            return plain(vars(value))
    return str(value)


def table(read: pa.Table) -> dict[str, Any]:
    """Return the columns of a table, and some of their values."""
    pairs = zip(read.schema, read.columns, strict=True)
    return {
        f"{field.name} {field.type}": column.to_pylist()[::97]
        for field, column in pairs
    }


def of_run(folder: Path, name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return all that a run holds."""
    run: Run = diploee.run(name, folder, values=values)
    found = {
        "metrics": run.metrics,
        "manifest": run.manifest,
        "sections": as_dict(run.sections()),
    }
    files = sorted(folder.rglob("*.parquet"))
    return found | {file.name: table(pq.read_table(file)) for file in files}


def of_limits(folder: Path, name: str) -> Any:
    """Return a report, as data and as text."""
    report: LimitReport = diploee.limits(folder, name)
    return report.as_dict(), as_dict(report.sections())


def said(*command: object) -> Any:
    """Return how a command ends, and what it prints; not how long it took."""
    ended = call(*command)
    errors = [line for line in ended.err.splitlines() if " 0:00:" not in line]
    return ended.code, ended.out.splitlines(), errors


def lines_of(place: Path) -> Any:
    """Return the lines of a file, or of those of a folder, without hashes of files with
    texts."""
    files = [place] if place.is_file() else sorted(place.iterdir())
    texts = {file.name: file.read_text("utf-8").splitlines() for file in files}
    return {
        name: [x for x in lines if "sha256" not in x][:99]
        for name, lines in texts.items()
    }


def of_log(folder: Path, writer: LogWriter) -> Any:
    """Return a job log of a format, with steps of jobs among them."""
    rows = [*writer.lines(JOBS), *writer.parts(JOBS[0]), *writer.parts(JOBS[1])]
    return read_job_log(
        write_lines(folder / f"log.{writer.name}", rows), gpus_per_node=8
    )


def of_fit(folder: Path) -> Any:
    """Return the fit of three weeks of jobs."""
    rng, out = np.random.default_rng(3), folder / "fit.yaml"
    times_s = np.sort(rng.integers(0, 21 * 86_400, 600)) + EPOCH_S
    rows = (
        f"{k},{t},{t + 60},{t + 60 + rng.integers(60, 9_000)},{rng.integers(1, 5)}"
        for k, t in enumerate(times_s.tolist())
    )
    log = write_lines(folder / "jobs.csv", ["id,submit,start,end,nodes", *rows])
    options = ("--workload", "llama2_70b_lora", "--gpus-per-node", 4)
    return said("fit", log, *options, "--out", out), lines_of(out)


def of_power_logs(folder: Path) -> Any:
    """Return the profile of the power logs of a job."""
    write_logs(folder / "power")
    files = sorted((folder / "power").iterdir())
    found = diploee.import_profile(files, "wattameter", workload="mine", n_nodes=2)
    return found.provenance, found.power_w


def of_ensemble(folder: Path) -> Any:
    """Return an ensemble of two."""
    scenario = write_scenario(folder / "tiny.yaml", {"duration": "6 h"})
    options = ("--profiles", write_library(folder / "library"), "--seeds", 2)
    out = folder / "ensemble"
    return said("ensemble", scenario, *options, "--out", out), table(
        pq.read_table(out / "summary.parquet")
    )


def of_all(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield results by name, and how to find them."""
    poi = folder / "colocation_10mw_poi"
    for name, values in RUNS.items():
        yield name, partial(of_run, folder / name, name, values)
        for limits in LIMITS:
            yield f"{name}, {limits}", partial(of_limits, folder / name, limits)
    sheet, page = folder / "sheet.csv", folder / "sheet.html"
    yield "data sheet", partial(said, "datasheet", poi, "--out", page, "--csv", sheet)
    yield "its lines", partial(lines_of, sheet)
    for form in ("csv", "psse"):
        out = folder / form
        yield form, lambda form=form, out=out: lines_of(diploee.export(poi, form, out))
    for writer in (Slurm(), Swf()):
        yield writer.name, partial(of_log, folder, writer)
    yield "trace", lambda: read_request_trace(synthetic_sample(folder, MOONCAKE))
    yield "fit", partial(of_fit, folder)
    yield "power logs", partial(of_power_logs, folder)
    yield "ensemble", partial(of_ensemble, folder)
    (folder / "studio").mkdir()
    place, edits = (
        StudioFolder(folder / "studio"),
        (("facility.pools.main.n_nodes", "-3"),),
    )
    for name in ("colocation_10mw_poi", "inference_1mw_poi"):
        draft = Draft(start="file", file=name)
        yield f"form of {name}", partial(page_contents, draft, place)
        yield f"keys of {name}", partial(search_keys, draft, place, "facility.stages")
    wrong = Draft(start="file", file="colocation_10mw", edits=edits)
    yield "wrong form", partial(page_contents, wrong, place)
    for command in (
        ("run", "colocation_10mw", "--set", "facility.pools.main.n_nodes=-3"),
        ("run", "no_such"),
        ("run", "colocation_10mw", "--set", "streams.training.target_utilisation=0.3"),
        ("limits", "example", poi),
        ("limits", "example", folder),
        ("ride-through", poi),
        ("compare", poi, folder / "inference_1mw_poi"),
        ("export", "cvs", poi),
        ("profiles", "check", folder / "library"),
        ("fit", folder / "nothing.csv", "--workload", "mine"),
    ):
        yield " ".join(map(str, command)), partial(said, *command)


def main(folder: Path) -> None:
    """Write the results, or the error in place of one."""
    found = {}
    for name, find in of_all(folder):
        try:
            found[name] = plain(find())
        except Exception as error:  # which is another result  # noqa: BLE001
            found[name] = [type(error).__name__, str(error)]
    (folder / "results.json").write_text(json.dumps(found), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
