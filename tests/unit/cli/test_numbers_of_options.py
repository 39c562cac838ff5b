"""Every number that an option of a command takes: odd ones are refused in words, none
hangs."""

from __future__ import annotations

import time
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import typer
from builders import write_library, write_scenario
from command_line import MAX_S, Ended, call

from diploee.cli.app import application

ODD = (
    *["-1", "0", "0.5", "nan", "inf", "-inf", "1e308", "5e-324", "1e-9"],
    *("1" + "0" * 30, "99999999999999999999", "1" + "0" * 60, "9" * 400, "9" * 5_000),
)
STARTS_PROCESSES = "--workers"
LIBRARY = ("--profiles", "lib")
COLUMNS = [
    f"--column={name}" for name in ("submit=submit", "duration=run_s", "nodes=nodes")
]
SERVED = [
    f"--set={setting}"
    for setting in (
        *("parameters_b=8", "precision=fp8", "gpu=L40S", "other_node_power_w=200"),
        *("prefill_tokens_per_s=9000", "time_per_token_s=0.02"),
    )
]
WORKLOAD = ("--workload", "w", "--out", "out/lib")
COMMANDS: dict[str, tuple[object, ...]] = {
    "run": ("tiny.yaml", *LIBRARY, "--engine", "compiled", "-q", "--out", "out/run"),
    "validate": ("tiny.yaml", *LIBRARY),
    "init": ("--defaults", "--out", "out/site.yaml"),
    "firm": ("tiny.yaml", *LIBRARY, "-q"),
    "package": ("tiny.yaml", *LIBRARY, "-q", "--out", "out/package"),
    "battery": ("run", "--limits", "ercot_nprr1191"),
    "export": ("opendss", "run", "--out", "out/export", "-q"),
    "fit": ("jobs.csv", *COLUMNS, "--workload", "tune", *LIBRARY),
    "fit-requests": ("requests.csv",),
    "sweep": ("sweep.yaml", *LIBRARY, "--out", "out/sweep", "--workers", "0", "-q"),
    "ensemble": ("sweep.yaml", *LIBRARY, "--out", "out/sweep", "--workers", "0", "-q"),
    "serving-trace": ("requests.csv", *SERVED, "--out", "out/lib"),
    "studio": ("--no-browser", "--folder", ".", "-q"),
    "profiles check": ("lib",),
    "profiles import plain": ("p.csv", *WORKLOAD, "--nodes", "2"),
    "profiles import nvidia-smi": ("p.csv", *WORKLOAD),
    "profiles import mlperf-power": ("lib", "--out", "out/lib"),
    "profiles import wattameter": ("p.csv", *WORKLOAD),
}
"""A command line of each command that takes numbers; files are those of `folder`."""


def numbers(of: typer.Typer, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every command with every option of it that takes a number."""
    for command in of.registered_commands:
        assert command.callback is not None
        name = f"{prefix} {command.name or command.callback.__name__}".strip()
        for argument, hint in typing.get_type_hints(
            command.callback, include_extras=True
        ).items():
            kinds = typing.get_args(hint)
            if not kinds or not isinstance(kinds[-1], typer.models.OptionInfo):
                continue
            if {int, float} & {kinds[0], *typing.get_args(kinds[0])}:
                declared = (kinds[-1].default, *(kinds[-1].param_decls or ()))
                given = [text for text in declared if str(text).startswith("--")]
                yield (
                    name,
                    str(given[0]) if given else f"--{argument.replace('_', '-')}",
                )
    for group in of.registered_groups:
        assert group.typer_instance is not None
        yield from numbers(group.typer_instance, f"{prefix} {group.name}".strip())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("options")
    write_library(place / "lib")
    write_scenario(place / "tiny.yaml")
    (place / "sweep.yaml").write_text("base: tiny.yaml\nseeds: 2\n", "utf-8")

    def put(name: str, head: str, rows: Iterable[str]) -> None:
        (place / name).write_text("\n".join([head, *rows, ""]), "utf-8")

    put("p.csv", "t_s,power_w", (f"{s},{1000 + s % 7}" for s in range(60)))
    jobs = (
        f"2024-03-{1 + k % 28:02}T{k % 24:02}:10:00,{100 + k},2" for k in range(200)
    )
    put("jobs.csv", "submit,run_s,nodes", jobs)
    asked = (f"2023-11-16 00:{k // 60:02}:{k % 60:02}.0,10,20" for k in range(600))
    put("requests.csv", "TIMESTAMP,ContextTokens,GeneratedTokens", asked)
    options = ("--profiles", place / "lib", "--engine", "compiled", "-q")
    assert call("run", place / "tiny.yaml", *options, "--out", place / "run").code == 0
    return place


def check(ended: Ended, seconds: float, tried: str) -> None:
    assert ended.code in (0, 1, 2), tried
    assert "internal error" not in ended.err, (tried, ended.err)
    assert "Warning" not in ended.err, (tried, ended.err)
    assert seconds < MAX_S, tried
    assert all(
        len(problem) < 500 and problem.isprintable() for problem in ended.problems
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "option"),
    sorted({each for each in numbers(application()) if each[1] != STARTS_PROCESSES}),
)
def test_odd_number_of_an_option_ends_in_plain_words(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    option: str,
) -> None:
    for source in folder.iterdir():
        (tmp_path / source.name).symlink_to(source)
    monkeypatch.chdir(tmp_path)
    if name == "studio":  # it would answer until it is stopped
        monkeypatch.setattr("uvicorn.Server.run", lambda _, sockets: sockets[0].close())
    arguments = list(COMMANDS[name])
    if option in arguments:
        del arguments[arguments.index(option) : arguments.index(option) + 2]
    for number, text in enumerate(ODD):
        arguments_here = [str(a).replace("out/", f"out-{number}/") for a in arguments]
        started = time.process_time()
        ended = call(*name.split(), f"{option}={text}", *arguments_here)
        check(ended, time.process_time() - started, f"{name} {option}={text:.40}")


@pytest.mark.parametrize(
    "setting",
    [
        *(f"gpus_per_replica={text}" for text in ("!!int x", "9" * 5_000, "[" * 900)),
        *(f"parameters_b={value}" for value in ODD[::2]),
        *("parameters_b=[1]", 'time_per_token_s="0.1"', "=1", "x"),
    ],
)
def test_odd_key_of_a_power_law_ends_in_plain_words(
    folder: Path, tmp_path: Path, setting: str
) -> None:
    started = time.process_time()
    given = ("--set", setting, "--out", tmp_path / "lib")
    ended = call("serving-trace", folder / "requests.csv", *SERVED, *given)
    check(ended, time.process_time() - started, setting)
    if ended.code:
        assert ended.problem.startswith("--set")
