"""Output of the command line, and where it goes; help, schema, validation and profiles."""  # noqa: E501

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
import typer
from builders import write_scenario
from command_line import Ended, call
from samples import WATTAMETER

from diploee import load_scenario, open_run
from diploee.base.files.paths import shipped
from diploee.base.version import full_version
from diploee.cli.app import COMMANDS as PANELS
from diploee.cli.app import application
from diploee.cli.command_help import ADVANCED, EXAMPLES

COMMANDS = [tuple(name.split()) for name in EXAMPLES]
NEVER = {
    "numpy.f2py",
    "pandas",
    "pyarrow.dataset",
    "scipy.linalg",
    "vl_convert",
    "scipy.optimize",
    "scipy.signal",
    "scipy.special",
    "scipy.stats",
    "simpy",
}


@pytest.fixture
def run_tiny(tmp_path: Path, scenario_file: Path, library_folder: Path) -> Any:
    def run_it(*options: str) -> Ended:
        place = ("--out", tmp_path / "run", "--engine", "compiled")
        return call(
            "run", scenario_file, "--profiles", library_folder, *place, *options
        )

    return run_it


@pytest.mark.slow
def test_result_goes_to_standard_output_and_progress_to_standard_error(
    run_tiny: Any, tmp_path: Path
) -> None:
    ended = run_tiny()
    assert ended.code == 0
    for words in (
        "Peak, 1 min means",
        "Largest fall within 10 min",
        "Peak-to-average ratio",
        "kWh",
    ):
        assert words in ended.out
    assert f"Files in {tmp_path / 'run'}" in ended.out
    assert "simulate" in ended.err
    assert "schedule" not in ended.out


def test_json_is_all_that_is_printed_and_valid_without_jobs_or_power_too(
    tmp_path: Path, library_folder: Path
) -> None:
    changes = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 1e-9,
        "facility.node_types.node.idle_power_w": 0,
    }
    path = write_scenario(tmp_path / "idle.yaml", changes)
    ended = call(
        "run", path, "--profiles", library_folder, "--json", "--out", tmp_path / "run"
    )
    assert (ended.code, ended.err) == (0, "")
    content = json.loads(ended.out, parse_constant=pytest.fail)
    assert content["folder"] == str(tmp_path / "run")
    assert content["metrics"] == open_run(tmp_path / "run").metrics
    assert content["metrics"]["power"]["max_mw"] == 0
    assert content["metrics"]["power"]["peak_to_average_ratio"] is None


def test_quiet_prints_nothing_but_errors(run_tiny: Any) -> None:
    assert run_tiny("--quiet") == Ended(0, "", "")
    assert "exists already" in run_tiny("--quiet").problem


@pytest.mark.slow
def test_warnings_stand_in_the_result_and_in_the_json(
    tmp_path: Path, library_folder: Path
) -> None:
    of = {"workload": "tune", "n_nodes": 8, "scale_from_n_nodes": 4, "probability": 0.5}
    scaled = {"streams.training.classes.0": of}
    path = write_scenario(tmp_path / "scaled.yaml", scaled)
    arguments = ("run", path, "--profiles", library_folder, "--out")
    shown = call(*arguments, tmp_path / "shown")
    printed = call(*arguments, tmp_path / "json", "--json")
    assert "coherent upper bound" in shown.out.replace("\n", " ")
    assert any(
        "coherent upper bound" in warning
        for warning in json.loads(printed.out)["warnings"]
    )


@pytest.mark.parametrize(
    "command", COMMANDS, ids=[" ".join(c) or "diploee" for c in COMMANDS]
)
def test_help_of_every_command_fits_a_terminal(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    ended = call(*command, "--help")
    assert ended.code == 0
    assert f"Usage: diploee{''.join(f' {word}' for word in command)}" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    shown = re.sub(r"(ARGS\]|\b[A-Z_]+|files|folders|\})\.\.\.", "", ended.out)
    assert "..." not in shown
    assert not re.search(
        r"<(str|int|float|bool|path|list|%)|default: \(| range |\.0\]", ended.out
    )
    assert EXAMPLES[" ".join(command)] in " ".join(ended.out.split())


def test_help_of_a_command_fits_a_screen_and_all_help_shows_every_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    for name in EXAMPLES:
        lines = call(*name.split(), "--help").out.rstrip().splitlines()
        assert len(lines) <= 48, name
    for name, options in ADVANCED.items():
        short = call(*name.split(), "--help").out
        text = call(*name.split(), "--help-all").out
        shown = set(re.findall(r"--[\w-]+", text.partition("─ Advanced ─")[2]))
        assert shown >= set(options.split()), name
        assert "Advanced" not in short


def test_help_shows_the_panels_in_turn() -> None:
    text = call("--help").out
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a command and all below it, by what is written after `diploee`."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, f"{path} {name}".strip())


@cache
def every_command() -> dict[str, Any]:
    return dict(commands(typer.main.get_command(application())))


@pytest.mark.slow
def test_every_command_has_an_example_that_its_options_allow() -> None:
    assert sorted(every_command()) == sorted(EXAMPLES)
    for name, example in EXAMPLES.items():
        program, *words = shlex.split(example)
        assert (program, words[: len(name.split())]) == ("diploee", name.split())
        starts = (" ".join(words[:n]) for n in range(1, len(words)))
        command = max(start for start in starts if start in EXAMPLES)
        every_command()[command].make_context(command, words[len(command.split()) :])


def test_every_argument_and_option_has_a_help_text_that_is_shown_whole() -> None:
    # What rich takes for a style, as [s], it does not show.
    assert not [
        (path, parameter.name)
        for path, command in every_command().items()
        for parameter in command.params
        if path
        if not parameter.help or re.search(r"\[/?[a-z#@][^\]]*\]", parameter.help)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "slow"),
    [
        ("--help", {*NEVER, "numba", "numpy", "pyarrow", "pydantic", "scipy"}),
        ("validate colocation_10mw", {*NEVER, "numba", "rich"}),
        (
            "run colocation_10mw --set duration=1h --engine compiled --quiet --out run",
            NEVER - {"numpy.f2py", "scipy.linalg"},  # numba takes them
        ),
    ],
    ids=["help", "validate", "run"],
)
def test_nothing_slow_is_imported_that_is_not_needed(
    arguments: str, slow: set[str], tmp_path: Path
) -> None:
    show = "atexit.register(lambda: print('MODULES', *sorted(sys.modules)))"
    code = f"import atexit, sys; {show}; from diploee.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments.split()],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    modules = done.stdout.rpartition("MODULES")[2].split()
    assert "diploee.base.errors" in modules
    assert not set(modules) & slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("diploee limits erc", {"ercot_lcl_2026_06", "ercot_nprr1191"}),
        ("diploee run inference_1mw_l", {"inference_1mw_latency_10s"}),
        ("diploee scenarios co", {"copy"}),
        ("diploee run --eng", {"--engine"}),
    ],
)
def test_shell_is_offered_commands_options_and_shipped_names(
    line: str, offered: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    monkeypatch.setenv("_DIPLOEE_COMPLETE", "complete_bash")
    assert set(call().out.split()) == offered


@pytest.mark.slow
def test_reference_of_commands_holds_every_command_and_option() -> None:
    text = run_path(str(Path(__file__).parents[2] / ".ci" / "pages.py"))[
        "commands_reference"
    ]()
    assert "runs/&lt;scenario>-&lt;hash>" in text  # else a page takes them for tags
    for path, command in every_command().items():
        if not hasattr(command, "commands"):
            section = text.partition(f"## diploee {path}\n")[2].partition("\n## ")[0]
            options = {opt for p in command.params for opt in p.opts if opt[0] == "-"}
            assert {opt for opt in options if opt not in section} == set(), path


def test_version_is_that_of_the_package() -> None:
    assert call("--version") == Ended(0, f"diploee {full_version()}\n", "")


LARGE = {"campus_100mw_synchronous", "colocation_metered_150mw"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LARGE else ())
        for name in sorted(shipped("scenario"))
    ],
)
def test_shipped_scenario_is_valid(name: str) -> None:
    ended = call("validate", name)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{name}: valid; ")
    has_weather = load_scenario(name).facility.weather is not None
    heads = [line.split()[0] for line in ended.out.splitlines()[1:]]
    assert heads == ["weather:", "dry", "wet"] * has_weather


def test_validate_warns_of_a_pool_that_is_asked_for_more_than_it_has(
    tmp_path: Path, library_folder: Path
) -> None:
    asked = {
        "streams.training.target_utilization": None,
        "streams.training.jobs_per_day": 20_000,
    }
    path = write_scenario(tmp_path / "overfull.yaml", asked)
    ended = call("validate", path, "--profiles", library_folder)
    assert ended.code == 0
    (line,) = ended.err.splitlines()
    assert line.startswith("Warning: pool 'main': the jobs ask for ")
    assert "are needed on average" in line


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "bash",
            "-c",
            (
                f"'{sys.executable}' -m diploee schema | head -n 1; echo "
                "${PIPESTATUS[0]}"
            ),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines()[0] == "{"
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_on_a_full_disk_fails_with_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "diploee", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "diploee: standard output: the disk is full\n"


def test_list_names_every_profile_on_one_line() -> None:
    ended = call("profiles", "list")
    rows = ended.out.splitlines()
    assert rows[0].strip() == "47 profiles"
    assert len(rows) == 2 + 47
    assert any(
        row.split()
        == ["llama2_70b_lora-16n-1", "llama2_70b_lora", "16", *row.split()[3:]]
        for row in rows
    )


def test_scenario_runs_on_imported_logs(
    tmp_path: Path, sample: Callable[[str], Path]
) -> None:
    library = tmp_path / "library"
    importing = ("wattameter", sample(WATTAMETER), "--workload", "measured")
    imported = call("profiles", "import", *importing, "--out", library)
    assert (imported.code, imported.err) == (0, "")
    assert imported.out.startswith(f"{library / 'measured-1n.parquet'}: 1 node, ")
    classes = [{"workload": "measured", "n_nodes": 1, "probability": 1.0}]
    path = write_scenario(
        tmp_path / "site.yaml", {"duration": "1 h", "streams.training.classes": classes}
    )
    ended = call(
        "run", path, "--profiles", library, "--json", "--out", tmp_path / "run"
    )
    assert ended.code == 0
    done = open_run(tmp_path / "run")
    (entry,) = done.manifest["profiles"].values()
    assert entry["provenance"]["kind"] == "measured"
    assert done.metrics["utilization"]["mean"] == pytest.approx(0.6, abs=0.05)
    energy_j = done.jobs()["energy_j"].sum()
    idle_node_s = 12 * 3_600 * (1 - done.metrics["utilization"]["mean"])
    total_j = done.metrics["power"]["energy_mwh"] * 3.6e9
    assert total_j == pytest.approx(energy_j + idle_node_s * 400, rel=1e-9)


def test_help_breaks_lines_where_the_terminal_ends() -> None:
    assert "Ctrl-C closes it." in call("studio", "--help").out
