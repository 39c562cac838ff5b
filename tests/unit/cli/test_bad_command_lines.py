"""Bad options and arguments: exit code 2, a line per problem on standard error, nothing
written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from builders import write_scenario
from command_line import Ended, call, contents

from diploee.cli import EXIT_BAD_INPUT, EXIT_FAILED


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def refused(ended: Ended) -> str:
    assert ended.code == EXIT_BAD_INPUT
    assert not ended.out
    assert not list(Path().iterdir())
    return ended.problem


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seed", "-1"), "--seed: must be at least 0"),
        (("--target-utilization", "1.5"), "--target-utilization: must be at most 1"),
        (("--set", "seeed=1"), "--set seeed: unknown key 'seeed'"),
        (
            ("--profiles", "nowhere"),
            "nowhere: no such profile folder; give a",
        ),
    ],
)
def test_bad_option_is_refused(
    scenario_file: Path, command: str, arguments: tuple[str, ...], words: str
) -> None:
    assert words in refused(call(command, scenario_file, *arguments))


def test_all_problems_stand_on_a_line_each(scenario_file: Path) -> None:
    ended = call(
        "run", scenario_file, "--seed", -1, "--set", "colour=red", "--set", "name=5"
    )
    assert ended.code == EXIT_BAD_INPUT
    assert sorted(problem.partition(":")[0] for problem in ended.problems) == [
        "--seed",
        "--set colour",
        "--set name",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run", "Missing argument 'scenario'"),
        ("run colocation_10nw", "did you mean 'colocation_10mw'?"),
        ("validate colocation_10nw", "did you mean 'colocation_10mw'?"),
        ("profiles import plain x.csv --workload x --out lib", "option '--nodes'"),
        ("run colocation_10mw --engine quantum", "'quantum' is not one of 'simpy'"),
        ("run colocation_10mw --seed x", "must be a whole number, found 'x'"),
        ("run colocation_10mw --at-most x", "must be a number, found 'x'"),
        ("studio --port -1", "must be at least 0, found '-1'"),
        ("run colocation_10mw --fast", "No such option: --fast"),
        ("profiles import excel x.xls --out lib", "No such command 'excel'"),
        ("simulate colocation_10mw", "No such command 'simulate'"),
    ],
)
def test_bad_command_line_is_one_line_and_ends_with_2(line: str, words: str) -> None:
    assert words in refused(call(*line.split()))


def test_existing_out_is_refused_and_kept(
    tmp_path: Path, scenario_file: Path, library_folder: Path
) -> None:
    library = ("--profiles", library_folder, "--engine", "compiled", "-q")
    place = tmp_path / "run"
    arguments = ("run", scenario_file, *library, "--out", place)
    assert call(*arguments).code == 0
    before = contents(place)
    assert "exists already; choose another --out" in refused(call(*arguments))
    assert contents(place) == before

    failing = write_scenario(
        tmp_path / "bad.yaml", {"streams.training.classes.0.workload": "x"}
    )
    broken = call("run", failing, *library, "--force", "--out", place)
    assert "no profile of workload 'x'" in refused(broken)
    assert contents(place) == before

    assert call(*arguments, "--force", "--seed", 3).code == 0
    assert contents(place)["jobs.parquet"] != before["jobs.parquet"]


def test_force_over_what_is_no_run_is_refused(
    tmp_path: Path, scenario_file: Path
) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes.txt").write_text("mine", "utf-8")
    for place in (tmp_path / "precious", scenario_file):
        problem = refused(call("run", scenario_file, "--out", place, "--force", "-q"))
        assert problem.startswith(
            f"{place}: exists and is not a run folder (no manifest.json)"
        )
    assert (tmp_path / "precious" / "notes.txt").read_text("utf-8") == "mine"


def test_out_below_a_file_is_refused(scenario_file: Path, library_folder: Path) -> None:
    place = scenario_file / "run"
    arguments = ("--profiles", library_folder, "--out", place, "-q")
    ended = call("run", scenario_file, *arguments)
    assert ended.code == EXIT_BAD_INPUT
    assert ended.problem.startswith(
        f"{place}: can't be written ({scenario_file} is a file, not a"
    )


@pytest.mark.parametrize("line", ["run tiny.yaml -q", "profiles show tune-4n-1"])
def test_no_permission_fails_with_1(
    line: str,
    tmp_path: Path,
    scenario_file: Path,
    library_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refuse)
    options = ("--profiles", library_folder, "--out", "closed/x.png")
    ended = call(*line.split(), *options)
    assert ended.code == EXIT_FAILED
    assert ended.problem.startswith("closed/x.png: can't be written (Permission den")
    assert not (tmp_path / "closed").exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "out of memory; simulate fewer nodes or a shorter duration"),
        (OSError(errno.ENOSPC, "No space"), "standard output: the disk is full"),
        (ZeroDivisionError("x"), "internal error: ZeroDivisionError: x; please report"),
    ],
)
def test_failure_of_any_kind_is_one_line_without_traceback(
    error: Exception, words: str, scenario_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("diploee.scenario.loading.load_scenario", fail)
    ended = call("validate", scenario_file)
    assert ended.code == EXIT_FAILED
    assert ended.problem.startswith(words)


def test_unknown_profile_is_refused_with_the_nearest(library_folder: Path) -> None:
    shown = call("profiles", "show", "tune-4n-2", "--profiles", library_folder)
    problem = refused(shown)
    assert problem.startswith("no profile 'tune-4n-2' among the 4 of the library")
    assert "did you mean 'tune-" in problem
