"""Every command that writes: killed at any step, on a full disk, over what is not its
own.

The commands of one table write in children of this process, which share what it has
imported. Where not said to be slow, a test takes a few of the commands and of the
steps.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from benchmark_builders import leaderboard_data, tiny_spec
from builders import write_library, write_scenario
from command_line import call, contents
from damages import a_device
from killing import command as in_child
from killing import kill_at, kills, n_steps
from samples import AZURE, MLPERF, WATTAMETER, synthetic_sample
from text_readers import READERS
from weather_writers import write_epw

from diploee.base.progress import Progress, Update, show_progress
from diploee.cli.command_help import EXAMPLES
from diploee.grid.export import FORMATS
from diploee.grid.export.base import Format

SHORT = {"duration": "30 min", "resolution": "6 s"}


@dataclass(frozen=True)
class Command:
    """A command that writes below a folder."""

    # The command line, `{site}` for the folder of the inputs, `{root}` for that to
    # write to.
    words: str
    older: str = ""  # further arguments that make another result of the same names
    force: bool = True  # it replaces what is there on request
    slow: bool = False  # it takes more than half a second

    def line(self, site: Path, root: Path, *more: str) -> list[str]:
        """Return the whole command line."""
        words = [word.format(site=site, root=root) for word in self.words.split()]
        at = words.index("--") if "--" in words else len(words)
        return [
            *words[:at],
            *(word for text in more for word in text.split()),
            *words[at:],
        ]


def export(fmt: Format) -> Command:
    """Return the export of half an hour or, for tools that know years alone, of a year."""  # noqa: E501
    suffix = (fmt.suffixes or ("",))[0]
    run, step = ("year", "30 min") if fmt.whole_year else ("run", "5 min")
    if fmt.name == "pjm-lla":  # hours of years
        run, step = "year", "30 min"
    words = f"export {fmt.name} {{site}}/{run} -q --out {{root}}/power{suffix}"
    if fmt.name == "psse":  # it needs reactive power
        words += " --q-table {site}/q.csv"
    return Command(words, f"--step {step.replace(' ', '')}", slow=run == "year")


SEVERAL = {"export csv", "report --png", "datasheet --csv", "import mlperf-power"}
"""Commands with several results, each of which appears by itself."""

EXPORTS = ("csv", "opendss", "pypsa", "pandapower", "psse", "pjm-lla")
"""A file, folders, a table, one with a second input, a year; all formats are written
alike."""

SHOW = "profiles show draw-1n-1 --profiles {site}/library --out {root}/profile.png"
REPORT = "report {site}/run -q --out {root}/report.html"
SERVED = (
    "serving-trace {site}/azure.csv --out {root}/lib --set parameters_b=8 --set "
    "precision=fp8 --set gpu=L40S --set other_node_power_w=200 --set input_tokens=99 "
    "--set prefill_tokens_per_s=9000 --set time_per_token_s=0.02"
)
LEARNT = "fit {site}/log.csv --workload tune --profiles {site}/library"
RUN = "run {site}/tiny.yaml --profiles {site}/library --engine compiled -q"
SERIES = "series {site}/run --of node -q --profiles {site}/library"
RIDE = (
    "ride-through {site}/run --event nerc_2024_07_10 -q --out {root}/answer.parquet "
    "--set facility.ride_through.it.preset=perc1"
)
PACKAGE = "package {site}/tiny.yaml -q --profiles {site}/library --out {root}/package"
FRAGMENT = "--out {root}/stream.yaml"


def import_object(words: str, older: str = "--add-w 5") -> Command:
    """Return the import of a site's file or folder that is named for its format."""
    return Command(f"profiles import {words} --out {{root}}/lib", older)


COMMANDS = {
    "run": Command(f"{RUN} --out {{root}}/run", "--seed 7"),
    **{f"export {name}": export(FORMATS[name]) for name in EXPORTS},
    "series": Command(f"{SERIES} --out {{root}}/nodes.parquet", "--step 5min"),
    "import plain": import_object("plain {site}/plain --workload x --nodes 1"),
    "import nvidia-smi": import_object("nvidia-smi {site}/nvidia-smi --workload x"),
    "import mlperf-power": import_object(
        "mlperf-power {site}/mlperf_power", "--licence CC0"
    ),
    "import wattameter": import_object(
        "wattameter {site}/wattameter --workload x", "--licence CC0"
    ),
    "import nlr-genai": import_object("nlr-genai {site}/nlr", ""),
    "init": Command("init --defaults --out {root}/site.yaml", "--poi-mw 3", slow=True),
    "scenarios copy": Command("scenarios copy mixed_11mw --out {root}/site.yaml", ""),
    "profiles show": Command(SHOW, slow=True),
    "serving-trace": Command(SERVED, "--nodes 2"),
    "report": Command(REPORT, slow=True),
    "report --png": Command(f"{REPORT} --png {{root}}/png", slow=True),
    "datasheet": Command("datasheet {site}/run -q --out {root}/sheet.html"),
    "datasheet --csv": Command(
        "datasheet {site}/run -q --out {root}/sheet.html --csv {root}/s.csv"
    ),
    "compare": Command(
        "compare {site}/run {site}/run --out {root}/changes.csv", "--all"
    ),
    "package": Command(PACKAGE, slow=True),
    "ride-through": Command(RIDE, "--set facility.ride_through.it.share=0.5"),
    "model-quality": Command(
        "model-quality {site}/run -q --out {root}/quality.html",
        "--at 2018-01-01T00:05",
        slow=True,
    ),
    "fit": Command(f"{LEARNT} {FRAGMENT}", "--confidence 0.5", slow=True),
    "fit-requests": Command(f"fit-requests {{site}}/azure.csv {FRAGMENT}", slow=True),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the commands read; the run in it is half an hour, another
    a year."""
    folder = tmp_path_factory.mktemp("site")
    write_library(folder / "library")
    files = {
        "q.csv": ["p_mw,q_mvar", "0,0", "1,0.1"],
        "plain": ["t_s,power_w", *(f"{t},{500 + (t * 37) % 900}" for t in range(100))],
        "log.csv": ["submit_time,nodes,duration", *map(job, range(400))],
        "sweep.yaml": [json.dumps({"base": "tiny.yaml", "seeds": 2})],
        "board.json": [json.dumps(leaderboard_data())],
        "specs.yaml": [json.dumps({"models": [tiny_spec().model_dump(mode="json")]})],
    }
    for name, lines in files.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    nvidia_smi = next(reader for reader in READERS if reader.name == "power-nvidia-smi")
    (folder / "nvidia-smi").write_text(nvidia_smi.text, "utf-8")
    write_epw(folder / "weather.epw")
    synthetic_sample(folder, MLPERF)
    synthetic_sample(folder, AZURE).rename(folder / "azure.csv")
    node = folder / "nlr" / "00_raw_datasets" / "training_tune" / "1node"
    node.mkdir(parents=True)
    for log in synthetic_sample(folder, WATTAMETER).iterdir():
        named = f"{log.stem}_emissions_parsed_slurmid_1_node_a.log"
        shutil.copy(log, node / named)
    coarse = {
        "duration": "1 year",
        "resolution": "15 min",
        "facility.pools.main.n_nodes": 4,
    }
    write_scenario(folder / "tiny.yaml", coarse)
    do(*COMMANDS["run"].line(folder, folder))
    (folder / "run").rename(folder / "year")
    write_scenario(folder / "tiny.yaml", SHORT)
    do(*COMMANDS["run"].line(folder, folder))
    return folder


def job(hour: int) -> str:
    return (
        f"{datetime(2024, 1, 1) + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ},"
        f"{1 + hour % 3},600"
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes time or differs each time and is not looked at.

    These are the disk's own time and a drawing's: what draws has threads, for which a
    forked child would wait for ever.
    """
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
    for drawn in ("vegalite_to_png", "vegalite_to_svg"):
        monkeypatch.setattr(
            f"vl_convert.{drawn}", lambda spec, **_: json.dumps(spec).encode()
        )


def told(root: Path) -> dict[str, bytes]:
    """Return what stands in a folder, hidden files too; of a manifest all but the
    times."""
    found = contents(root)
    for name in found:
        if name.endswith("run/manifest.json"):
            content = json.loads(found[name])
            del content["timing"]
            found[name] = json.dumps(content).encode()
    return found


def results(found: dict[str, bytes]) -> dict[str, bytes]:
    """Return what a user sees; a cache is no result."""
    return {
        n: text
        for n, text in found.items()
        if "/." not in f"/{n}" and "cache/" not in n
    }


def empty(root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return root


def do(*arguments: object) -> None:
    """Run a command; an exit code other than 0 is an error of this process."""
    outcome = call(*arguments)
    assert outcome.code == 0, outcome.err


def check_kills(name: str, replaced: bool, site: Path, root: Path, most: int) -> None:
    """Kill a command at up to n of its steps, the last ones among them."""
    command, before = COMMANDS[name], root.with_name("before")

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(before, root)

    do(*command.line(site, empty(root)))
    new, old = results(told(root)), {}
    if replaced:
        do(*command.line(site, empty(root), command.older))
        old = results(told(root))
    shutil.copytree(root, before) if replaced else before.mkdir()
    line = command.line(site, root, *(["--force"] if replaced else []))
    prepare()
    last = n_steps(root, lambda: do(*line))
    prepare()
    first = range(1, last, 2 * last // most + 1)
    for _ in kills(
        root, lambda: do(*line), sorted({*first, *range(last - most // 2, last + 1)})
    ):
        found = results(told(root))
        assert all(text in (old.get(n), new[n]) for n, text in found.items())
        outcome = call(*line)
        if outcome.code:  # the killed one had put a result in place
            assert not replaced and outcome.code == 2 and found, outcome.err
            if command.force:
                do(*command.line(site, root, "--force"))
        assert results(told(root)) == new
        prepare()


@pytest.mark.parametrize(
    "share",
    [
        pytest.param(0.2, marks=pytest.mark.slow),
        pytest.param(1, marks=pytest.mark.fuzz),
    ],
    ids=["some steps", "many steps"],
)
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_command_leaves_nothing_that_the_next_one_minds(
    name: str, replaced: bool, share: float, site: Path, tmp_path: Path
) -> None:
    if replaced and not COMMANDS[name].force:
        pytest.skip("replaces nothing")
    most = round(share * (10 if COMMANDS[name].slow else 30))
    check_kills(name, replaced, site, tmp_path / "root", most)


# --- what they print

READING = (
    "validate {site}/tiny.yaml --profiles {site}/library",
    "limits ercot_nprr1191 {site}/run",
    "limits --list",
    (
        "firm {site}/tiny.yaml --profiles {site}/library --levels 2 --notice 1h "
        "--seeds 1"
    ),
    "battery {site}/run --limits ieso_3_0",
    (
        "ensemble {site}/tiny.yaml --seeds 2 --workers 0 --profiles {site}/library "
        "--out {root}/runs"
    ),
    "sweep {site}/sweep.yaml --dry-run --profiles {site}/library",
    "fit-models {site}/specs.yaml --from {site}/board.json",
    "scenarios list",
    "profiles list --profiles {site}/library",
    "profiles check {site}/library",
    "profiles compare {site}/library {site}/library",
)
"""Commands that print a result, beside those that write one."""
NO_RESULT = {"scenarios show", "schema", "studio"}
"""They print a file as it is, JSON in any case, and an address."""
PRINTING = {
    command.words.replace("-q ", ""): [pytest.mark.slow] if command.slow else []
    for command in COMMANDS.values()
}


@pytest.mark.parametrize(
    "line",
    [*READING, *(pytest.param(line, marks=marks) for line, marks in PRINTING.items())],
)
def test_json_of_a_result_is_alone_on_standard_output(
    line: str, site: Path, tmp_path: Path
) -> None:
    words = [word.format(site=site, root=tmp_path) for word in line.split()]
    outcome = call(*words, "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out, parse_constant=pytest.fail)


def test_every_command_that_prints_a_result_has_it_as_json() -> None:
    leaves = {
        n for n in EXAMPLES if n and not any(o.startswith(f"{n} ") for o in EXAMPLES)
    }
    lines = {f"{line} " for line in [*READING, *PRINTING]}
    assert {
        n for n in leaves if not any(x.startswith(f"{n} ") for x in lines)
    } == NO_RESULT


class Watch(Progress):
    """Takes down each stage with the fractions that it reports."""

    def __init__(self) -> None:
        self.stages: dict[str, list[float]] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Take down a stage."""
        fractions = self.stages.setdefault(name, [])
        yield lambda fraction, _text: fractions.append(fraction)


STAGES = {
    "validate {site}/tiny.yaml --profiles {site}/library": {"validate"},
    "ensemble {site}/tiny.yaml --seeds 2 --dry-run --profiles {site}/library": {
        "forecast"
    },
    "limits ercot_nprr1191 {site}/run": {"limits"},
    "battery {site}/run --limits ieso_3_0": {"battery"},
    "report {site}/run --out {root}/report.html": {"report"},
    "datasheet {site}/run --out {root}/sheet.html": {"data sheet"},
    f"{LEARNT} --out {{root}}/stream.yaml": {"read log", "fit", "compare"},
    "fit-requests {site}/azure.csv --out {root}/stream.yaml": {"read trace", "fit"},
}


@pytest.mark.parametrize(("line", "stages"), STAGES.items())
def test_long_part_of_a_command_shows_a_bar(
    line: str, stages: set[str], site: Path, tmp_path: Path
) -> None:
    watch = Watch()
    with show_progress(watch):
        outcome = call(
            *(word.format(site=site, root=tmp_path) for word in line.split())
        )
    assert outcome.code == 0, outcome.err
    assert set(watch.stages) == stages


# --- what is not theirs


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
@pytest.mark.parametrize("name", COMMANDS)
def test_force_replaces_nothing_that_is_no_result(
    name: str, kind: str, site: Path, tmp_path: Path
) -> None:
    command, root = COMMANDS[name], tmp_path / "root"
    do(*command.line(site, empty(root)))
    made = next(path for path in sorted(root.rglob("*")) if is_place(path, root, name))
    remove(made)
    if kind == "folder":
        (made / "src").mkdir(parents=True)
        (made / "manifest.json").write_text('{"name": "my web app"}', "utf-8")
        (made / "src" / "main.js").write_text("precious", "utf-8")
    elif kind == "pipe":
        os.mkfifo(made)
    else:
        made.symlink_to(a_device(tmp_path))
    before = (kept(made), contents(root))
    outcome = call(*command.line(site, root, *(["--force"] if command.force else [])))
    assert outcome.code == 2
    assert str(made) in outcome.problem
    assert (kept(made), contents(root)) == before


def kept(path: Path) -> tuple[int, ...]:
    """Return what tells a file that is touched from one that is not."""
    stat = path.lstat()
    return stat.st_mode, stat.st_ino, stat.st_mtime_ns


def is_place(path: Path, root: Path, name: str) -> bool:
    """Return whether a path takes its place as a whole: a file, or a folder of another
    kind."""
    parts = path.relative_to(root).parts
    of_export = FORMATS.get(name.removeprefix("export "))
    if name in ("run", "package") or (of_export is not None and of_export.is_folder):
        return len(parts) == 1
    if name == "fit-models":
        return parts[-1] == "logistic_models"
    return path.is_file() and parts[0] != "cache"


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


@pytest.mark.parametrize("file", ["facility.parquet", "manifest.json", "metrics.json"])
@pytest.mark.parametrize("name", ["report", "export csv"])
def test_force_never_replaces_the_run_that_is_read(
    name: str, file: str, site: Path, tmp_path: Path
) -> None:
    before = contents(site)
    *line, _ = COMMANDS[name].line(site, tmp_path)
    outcome = call(*line, site / "run" / file, "--force")
    assert outcome.code == 2
    assert "is an input of this command" in outcome.problem
    assert contents(site) == before


@pytest.mark.slow
def test_exports_and_reports_may_lie_in_the_run_that_they_show(
    site: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(site / "run", tmp_path / "run")
    for _ in range(2):
        do("export", "csv", run, "-q", "--out", run / "load.csv", "--force")
    for _ in range(2):
        do("report", run, "-q", "--out", run / "report.html")
    line = COMMANDS["run"].line(site, tmp_path, "--force")
    outcome = call(*line)
    assert outcome.code == 2
    assert (
        "holds 'load.csv', 'load.csv.meta.json', 'report.html' besides a run"
        in outcome.problem
    )


# --- full disks and interrupts


@pytest.mark.slow
@pytest.mark.parametrize("force", [["--force"], []], ids=["force", "no force"])
def test_commands_at_once_leave_one_whole_result(
    force: list[str], site: Path, tmp_path: Path
) -> None:
    command, root = COMMANDS["run"], tmp_path / "root"
    lines = [command.line(site, root, more, *force) for more in (command.older, "")]
    whole = []
    for line in lines:
        empty(root)
        do(*line)
        whole.append(results(told(root)))
    empty(root)
    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(in_child, lines))
    assert results(told(root)) in whole
    assert not [name for name in told(root) if "/." in f"/{name}"]
    codes = sorted(outcome.code for outcome in outcomes)
    assert codes == ([0, 0] if force else [0, 2]), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("old", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize("name", COMMANDS)
def test_full_disk_gives_one_line_and_keeps_former_files(
    name: str, old: bool, site: Path, tmp_path: Path
) -> None:
    resource = pytest.importorskip("resource", reason="limits on file size need POSIX")
    command, root = COMMANDS[name], tmp_path / "root"
    if old and not command.force:
        pytest.skip("replaces nothing")
    do(*command.line(site, empty(root)))
    made = results(contents(root))
    sizes = [len(content) for content in made.values()]
    if not old:
        empty(root)
    before = results(contents(root))
    limit = (max(sizes) - 1, resource.RLIM_INFINITY)
    line = command.line(site, root, *(["--force"] if old else []))
    fill = partial(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
    outcome = in_child(line, fill)
    assert outcome.code == 1
    assert "the disk is full" in outcome.problem
    assert "nothing of it was kept" in outcome.problem
    found = results(contents(root))
    if name in SEVERAL:
        assert all(text in (before.get(n), made[n]) for n, text in found.items())
    else:
        assert found == before
    assert not [name for name in contents(root) if "/." in f"/{name}"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["run", "export csv", "export pypsa"])
def test_exit_code_of_an_interrupted_command_says_what_stands(
    name: str, number: signal.Signals, site: Path, tmp_path: Path
) -> None:
    command, root = COMMANDS[name], tmp_path / "root"
    do(*command.line(site, empty(root)))
    new = told(root)
    do(*command.line(site, empty(root), command.older))
    old = told(root)
    line = command.line(site, root, "--force")
    codes = set()
    for step in range(1, 200):
        outcome = in_child(line, partial(kill_at, root, step, number))
        code, found = outcome.code, results(told(root))
        assert code in (0, 130), outcome
        assert all(content in (old.get(n), new[n]) for n, content in found.items())
        assert found == new or code
        codes.add(code)
        if code == 0:
            break
    assert codes == {0, 130}
