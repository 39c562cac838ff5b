"""`diploee profiles record` beside stand-ins of its recorders, which write recorded
logs."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import Ended, call, wait_until

from diploee.profiles.profile import PowerBoundary
from diploee.profiles.store import read_profile

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="the stand-ins are scripts of a shell"
)

NVML = """\
# 2026-11-23_12:31:53.973314 - WattAMeter run 0
# timestamp                  reading-time[ns] gpu-0[mW] gpu-1[mW]
  2026-11-23_12:31:53.973678 19069 318635 418295
  2026-11-23_12:31:54.073913 46709 316532 419871
  2026-11-23_12:31:54.174345 45668 318255 408481
  2026-11-23_12:31:54.273818 45988 317311 416600
  2026-11-23_12:31:54.375008 31647 301858 414207
  2026-11-23_12:31:54.473808 37075 313959 410145
  2026-11-23_12:31:54.573822 39168 308227 417939
"""
RAPL = """\
# 2026-11-23_12:31:53.973314 - WattAMeter run 0
# timestamp                  reading-time[ns] cpu-0[uJ] cpu-0-core[uJ] cpu-0[W] cpu-0-core[W]
  2026-11-23_12:31:53.973717 34041 45505958 18550312 121.00 50.445
  2026-11-23_12:31:54.073995 58366 57639757 23608899 116.25 48.426
  2026-11-23_12:31:54.174427 63284 69315877 28472471 118.92 49.552
  2026-11-23_12:31:54.273900 61361 81145320 33401572 122.35 50.997
  2026-11-23_12:31:54.375068 48101 93524023 38560926 117.84 49.076
  2026-11-23_12:31:54.473885 65647 105168643 43410456 118.68 49.465
  2026-11-23_12:31:54.573912 87620 117040458 48358392
"""  # noqa: E501
"""Logs of WattAMeter 0.9.3 on two GPUs and one CPU."""
SMI = """\
timestamp, index, name, power.draw [W]
2026/11/23 12:31:53.973, 0, NVIDIA H100 80GB, 318.64 W
2026/11/23 12:31:53.975, 1, NVIDIA H100 80GB, 418.30 W
2026/11/23 12:31:54.074, 0, NVIDIA H100 80GB, 316.53 W
2026/11/23 12:31:54.076, 1, NVIDIA H100 80GB, 419.87 W
2026/11/23 12:31:54.174, 0, NVIDIA H100 80GB, 318.26 W
2026/11/23 12:31:54.176, 1, NVIDIA H100 80GB, 408.48 W
2026/11/23 12:31:54.274, 0, NVIDIA H100 80GB, 317.31 W
2026/11/23 12:31:54.276, 1, NVIDIA H100 80GB, 416.60 W
"""
WAITS = "while [ -z $stop ]; do sleep 0.02; done"
Programs = Callable[..., None]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Put programs on an otherwise empty PATH, whose CPU counter can be read, in a new
    folder."""
    place, powercap = tmp_path / "bin", tmp_path / "powercap"
    for folder in (place, powercap / "intel-rapl:0", tmp_path / "tmp"):
        folder.mkdir(parents=True)
    (powercap / "intel-rapl:0" / "energy_uj").touch()
    for name, tool in (("cat", "/bin/cat"), ("sleep", "/bin/sleep"), ("sh", "/bin/sh")):
        (place / name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(place))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr("diploee.cli.profiles_record.POWERCAP", powercap)
    monkeypatch.setattr(
        "diploee.cli.profiles_record.sys.executable", str(place / "python")
    )
    monkeypatch.setitem(sys.modules, "pynvml", None)

    def add(**scripts: str) -> None:
        for name, script in scripts.items():
            (place / name.replace("_", "-")).write_text(
                f"#!/bin/sh\n{script}\n", "utf-8"
            )
            (place / name.replace("_", "-")).chmod(0o755)

    return add


def writes(**files: str) -> str:
    """Return a script that writes its arguments and files, then waits for its end."""
    parts = [
        f"cat > {name.replace('_log', '.log')} <<'END'\n{text}END"
        for name, text in files.items()
    ]
    return "\n".join(["trap stop=1 TERM", 'echo "$@" > "$0.args"', *parts, WAITS])


SMI_SCRIPT = writes().replace(WAITS, f"cat > nvidia-smi.csv <<'END'\n{SMI}END\n{WAITS}")
WATTAMETER = writes(nvml_01_wattameter_log=NVML, rapl_01_wattameter_log=RAPL)


def record(out: Path, *command: str, options: tuple[str, ...] = ()) -> Ended:
    return call(
        "profiles", "record", "--out", out, "--workload", "w", *options, "--", *command
    )


def test_wattameter_records_gpus_and_cpus_where_both_can_be_read(
    programs: Programs, tmp_path: Path
) -> None:
    programs(nvidia_smi=SMI_SCRIPT, wattameter=WATTAMETER)
    ended = record(tmp_path / "lib", "sh", "-c", "exit 7", options=("--licence", "CC0"))
    assert (ended.code, ended.out) == (7, ""), ended.err
    assert (
        tmp_path / "bin" / "wattameter.args"
    ).read_text() == "--tracker 0.1,nvml-power,rapl\n"
    profile = read_profile(tmp_path / "lib" / "w-1n.parquet")
    assert (profile.workload, profile.n_nodes, profile.dt_ms) == ("w", 1, 100)
    # Both GPUs of the log, and the counter's 84.2 J in 0.7 s.
    assert profile.mean_power_w == pytest.approx(317 + 414 + 84.2 / 0.7, rel=0.01)
    assert profile.provenance.power_boundary == PowerBoundary.DEVICES
    assert profile.provenance.licence == "CC0"
    assert profile.provenance.notes.endswith("sh ended with 7")
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("refresh_s", "field"), [(0.01, "nvml-energy"), (0.09, "nvml-power")]
)
def test_energy_counters_are_recorded_where_they_are_refreshed_often_enough(
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refresh_s: float,
    field: str,
) -> None:
    now_s = itertools.count(step=0.001)  # each look at the clock takes a millisecond
    read_s = [0.0]

    def clock() -> float:
        read_s[0] = next(now_s)
        return read_s[0]

    nvml: Any = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: (
            10**9 + int(read_s[0] / refresh_s)
        ),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(
        "diploee.cli.profiles_record.time",
        SimpleNamespace(monotonic=clock, sleep=time.sleep),
    )
    programs(nvidia_smi=SMI_SCRIPT, wattameter=WATTAMETER)
    assert record(tmp_path / "lib", "sh", "-c", "exit 0").code == 0
    assert (
        tmp_path / "bin" / "wattameter.args"
    ).read_text() == f"--tracker 0.1,{field},rapl\n"


def test_nvidia_smi_records_gpus_where_the_cpus_cannot_be_read(
    programs: Programs, tmp_path: Path
) -> None:
    programs(nvidia_smi=SMI_SCRIPT)
    ended = record(tmp_path / "lib", "sh", "-c", "exit 0", options=("--nodes", "2"))
    assert ended.code == 0
    assert "no CPUs (for these: pip install 'diploee[record]')" in ended.problems[0]
    asked = (tmp_path / "bin" / "nvidia-smi.args").read_text()
    assert "--query-gpu=timestamp,index,name,power.draw --format=csv" in asked
    assert "-lms 100" in asked
    profile = read_profile(tmp_path / "lib" / "w-2n.parquet")
    assert profile.n_nodes == 2
    assert profile.mean_power_w == pytest.approx(317.5 + 415.5, rel=0.01)
    assert profile.provenance.power_boundary == PowerBoundary.GPUS
    meter = profile.provenance.meter
    assert (meter.gpu, meter.field, meter.window_s) == (
        "NVIDIA H100 80GB",
        "power.draw",
        1.01,
    )


def test_movement_of_the_energy_counters_is_noted(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A look, then a reading
    counters_mj = iter([1_000, 2_000] * 2 + [51_500, 102_500] * 2)
    nvml: Any = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetTotalEnergyConsumption=lambda _: next(counters_mj),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    programs(nvidia_smi=SMI_SCRIPT)
    assert record(tmp_path / "lib", "sh", "-c", "exit 0").code == 0
    notes = read_profile(tmp_path / "lib" / "w-1n.parquet").provenance.notes
    assert notes.endswith("the GPUs' energy counters moved by 151.0 J meanwhile")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "nvidia-smi is not on PATH, so the command was not run"),
        ("echo 'NVML: no device' >&2; exit 9", "nvidia-smi ended without a reading"),
    ],
)
def test_command_does_not_run_without_a_recorder(
    programs: Programs, tmp_path: Path, script: str | None, problem: str
) -> None:
    programs(**({} if script is None else {"nvidia_smi": script}))
    ended = record(tmp_path / "lib", "sh", "-c", f"echo > {tmp_path / 'ran'}")
    assert ended.code == 2
    assert problem in ended.problems[-1]
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interval-s", "0"), "--interval-s"),
        (
            ("--nodes", "0"),
            "--nodes: must be a whole number of 1 or more and at most 1,000,000",
        ),
        (("--workload", "a\nb"), "--workload: must be a name of 1 to 200 characters"),
        (("--id", "../x"), "use letters, digits"),
    ],
)
def test_bad_options_are_refused_before_the_command_runs(
    programs: Programs, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    programs(nvidia_smi=SMI_SCRIPT)
    ended = record(
        tmp_path / "lib", "sh", "-c", f"echo > {tmp_path / 'ran'}", options=options
    )
    assert ended.code == 2
    assert words in " ".join(ended.err.split())
    assert not (tmp_path / "ran").exists()


def test_profile_that_exists_is_kept_and_the_command_does_not_run(
    programs: Programs, tmp_path: Path
) -> None:
    programs(nvidia_smi=SMI_SCRIPT)
    assert record(tmp_path, "sh", "-c", "exit 0").code == 0
    before = (tmp_path / "w-1n.parquet").read_bytes()
    ended = record(tmp_path, "sh", "-c", f"echo > {tmp_path / 'ran'}")
    assert (ended.code, "exists already" in ended.problem) == (2, True)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "w-1n.parquet").read_bytes() == before


def test_program_that_does_not_exist_is_named(
    programs: Programs, tmp_path: Path
) -> None:
    programs(nvidia_smi=SMI_SCRIPT)
    ended = record(tmp_path / "lib", "no-such-program-anywhere")
    assert (ended.code, ended.problem) == (
        2,
        (
            "no-such-program-anywhere: no such program; give one with its arguments "
            "after '--'"
        ),
    )


def test_logs_that_cannot_be_imported_are_kept_and_named(
    programs: Programs, tmp_path: Path
) -> None:
    programs(nvidia_smi=SMI_SCRIPT, wattameter=writes(nvml_01_wattameter_log=NVML))
    ended = record(tmp_path / "lib", "sh", "-c", "exit 0")
    assert ended.code == 2
    assert "no partner, expected a RAPL log" in ended.err
    (logs,) = (tmp_path / "tmp").iterdir()
    assert f"the logs are in {logs}; import them with" in ended.err
    assert (logs / "nvml_01_wattameter.log").read_text() == NVML


def test_interrupt_ends_command_and_recorder_and_keeps_the_logs(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes in this thread, while the handler is set: none may hit a test
    worker."""
    started, marker, wait = [], tmp_path / "marker", subprocess.Popen.wait

    def interrupted(process: Any, timeout: float | None = None) -> int:
        if process.args[0] == "sh" and not started:
            started.append(process)
            wait_until(marker.exists)
            time.sleep(0.05)
            signal.raise_signal(signal.SIGINT)
        return wait(process, timeout)

    programs(nvidia_smi=SMI_SCRIPT)
    monkeypatch.setattr("diploee.cli.profiles_record.PATIENCE_S", 0.05)
    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    ended = record(tmp_path / "lib", "sh", "-c", f"echo > {marker}; {WAITS}")
    assert ended.code == 130
    assert ended.problems[-1] == "interrupted; what was not finished is removed"
    assert all(process.poll() is not None for process in started)
    (logs,) = (tmp_path / "tmp").iterdir()
    assert (logs / "nvidia-smi.csv").read_text() == SMI
    assert not (tmp_path / "lib").exists()
