"""`diploee profiles record`: the command runs, its exit code is passed on, nothing is lost."""

import signal
import subprocess
import sys
import time

import pytest
from command_line import call, wait_until

from diploee.errors import InputError
from diploee.profiles import read_profile
from diploee.profiles.record import Reading, Sampler, run_recorded
from diploee.profiles.record.sensors import Sensors


class Steady:
    """A sensor of 120 W since it was made."""

    device, label = "gpu-0", "Steady GPU"
    averaging_window_s, counter_range_j = 0.0, float("inf")

    def read(self):
        return Reading(120.0, 120.0 * time.monotonic())


@pytest.fixture
def sensors(monkeypatch):
    found = Sensors((Steady(),), ("CPUs: none",))
    monkeypatch.setattr("diploee.profiles.record.find_sensors", lambda *_, **__: found)
    return found


def python(code):
    return (sys.executable, "-c", code)


def record(out, *command, options=()):
    return call("profiles", "record", "--out", out, "--workload", "w", "--interval-s", 0.01,
                *options, "--", *command)  # fmt: skip


def test_command_is_recorded_into_a_profile(sensors, tmp_path):
    ended = record(tmp_path / "lib", *python("import time; time.sleep(0.25)"))
    assert (ended.code, ended.out) == (0, "")
    assert ended.problems[:2] == ["recording gpu-0", "without CPUs: none"]
    profile = read_profile(tmp_path / "lib" / "w-1n.parquet")
    assert (profile.workload, profile.n_nodes, profile.dt_ms) == ("w", 1, 10)
    assert profile.duration_ms >= 250
    assert profile.mean_power_w == pytest.approx(120, rel=1e-4)
    origin = profile.provenance
    assert origin.kind == "measured"
    assert origin.source == "1 x Steady GPU"
    assert "ended with 0" in origin.notes
    assert len(origin.source_sha256) == 64
    assert any(
        problem.startswith(f"{tmp_path / 'lib' / 'w-1n.parquet'}: ") for problem in ended.problems
    )


def test_exit_code_is_passed_on_and_the_profile_kept(sensors, tmp_path):
    ended = record(tmp_path, *python("import time; time.sleep(0.25); raise SystemExit(7)"))
    assert ended.code == 7
    assert "ended with 7" in read_profile(tmp_path / "w-1n.parquet").provenance.notes
    killed = record(
        tmp_path,
        *python("import os, signal, time; time.sleep(0.25); os.kill(os.getpid(), 9)"),
        options=("--id", "killed"),
    )
    assert killed.code == 128 + signal.SIGKILL


def test_options_behind_the_dashes_belong_to_the_command(sensors, tmp_path):
    seen = str(tmp_path / "seen")
    code = f"import sys, time; time.sleep(0.25); open({seen!r}, 'w').write(repr(sys.argv[1:]))"
    assert record(tmp_path, *python(code), "--out", "x", "-h", "--", "y").code == 0
    assert (tmp_path / "seen").read_text() == "['--out', 'x', '-h', '--', 'y']"


def test_without_a_sensor_one_line_says_so_and_nothing_runs(tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    ended = record(tmp_path / "lib", *python(code), options=("--gpus", "none", "--no-cpus"))
    assert ended.code == 2
    assert ended.problem == (
        "no readable power sensor (GPUs: not asked for; CPUs: not asked for), "
        "so the command was not run"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interval-s", "0"), "--interval-s is 0, expected 0.005 to 60 s"),
        (("--nodes", "0"), "--nodes: must be a whole number of 1 or more and at most 1,000,000"),
        (("--nodes", "1" + "0" * 30), "--nodes: must be a whole number of 1 or more and at most"),
        (("--workload", "a\nb"), "--workload: must be a name of 1 to 200 characters"),
        (("--gpus", "a,b"), "--gpus is 'a,b', expected numbers such as '0,1', or 'none'"),
        (("--id", "../x"), "use letters, digits"),
    ],
)
def test_bad_options_are_refused_before_the_command_runs(sensors, tmp_path, options, words):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    ended = record(tmp_path / "lib", *python(code), options=options)
    assert ended.code == 2
    assert words in ended.problem
    assert list(tmp_path.iterdir()) == []


def test_profile_that_is_there_is_kept_and_the_command_does_not_run(sensors, tmp_path):
    assert record(tmp_path, *python("import time; time.sleep(0.25)")).code == 0
    before = (tmp_path / "w-1n.parquet").read_bytes()
    ended = record(tmp_path, *python(f"open({str(tmp_path / 'ran')!r}, 'w')"))
    assert (ended.code, "exists already" in ended.problem) == (2, True)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "w-1n.parquet").read_bytes() == before


def test_command_that_does_not_start_is_named(sensors, tmp_path):
    ended = record(tmp_path / "lib", "no-such-program-anywhere")
    assert ended.code == 2
    assert "no-such-program-anywhere: can't be started (No such file" in ended.problems[-1]
    assert not (tmp_path / "lib").exists()


SLEEPS = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {SLEEPS}"


def interrupt_once_it_runs(marker, monkeypatch):
    """Interrupt the wait for the command when that has made a file; return what makes it.

    The signal comes in this thread, while the handler stands: none may ever hit a test worker.
    """
    wait = subprocess.Popen.wait

    def interrupted(process, timeout=None):
        if timeout is None and not marker.exists():
            wait_until(marker.exists)
            time.sleep(0.25)
            signal.raise_signal(signal.SIGINT)
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    return f"open({str(marker)!r}, 'w').close(); "


@pytest.mark.parametrize("code", [SLEEPS, STUBBORN], ids=["polite", "stubborn"])
def test_interrupt_ends_the_command_and_keeps_nothing(sensors, tmp_path, monkeypatch, code):
    monkeypatch.setattr("diploee.profiles.record.command.PATIENCE_S", (0.1, 0.5, 5.0))
    mark = interrupt_once_it_runs(tmp_path / "marker", monkeypatch)
    ended = record(tmp_path / "lib", *python(code.replace("import time", mark + "import time")))
    assert ended.code == 130
    assert ended.problems[-1] == "interrupted; what was not finished is removed"
    assert not (tmp_path / "lib").exists()


def test_interrupt_keeps_what_was_recorded_where_asked_to(sensors, tmp_path, monkeypatch):
    monkeypatch.setattr("diploee.profiles.record.command.PATIENCE_S", (0.1, 60.0, 60.0))
    mark = interrupt_once_it_runs(tmp_path / "marker", monkeypatch)
    ended = record(tmp_path / "lib", *python(mark + SLEEPS), options=("--keep",))
    assert ended.code == 130  # as Python ends on an interrupt
    profile = read_profile(tmp_path / "lib" / "w-1n.parquet")
    assert "the recording was interrupted" in profile.provenance.notes
    assert 100 <= profile.duration_ms < 600_000


def test_no_process_is_left_when_the_recording_fails(monkeypatch):
    """What goes wrong here, such as a lack of memory, must not leave the command running."""
    started = []
    popen = subprocess.Popen

    def remember(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        started[0].wait = fail_once(started[0].wait)
        return started[0]

    def fail_once(wait):
        calls = []

        def once(*args):
            calls.append(args)
            if len(calls) == 1:
                raise MemoryError
            return wait(*args)

        return once

    monkeypatch.setattr("diploee.profiles.record.command.subprocess.Popen", remember)
    monkeypatch.setattr("diploee.profiles.record.command.PATIENCE_S", (0.05, 5.0, 5.0))
    with pytest.raises(MemoryError):
        run_recorded(python(SLEEPS), Sampler([Steady()], 0.05))
    assert started[0].poll() is not None


def test_empty_recordings_of_failed_commands_pass_their_code_on(sensors, tmp_path, monkeypatch):
    def too_short(*_, **__):
        raise InputError("the command ended before a step")

    monkeypatch.setattr("diploee.profiles.record.recorded_profile", too_short)
    ended = record(tmp_path, *python("raise SystemExit(5)"))
    assert (ended.code, ended.problems[-1]) == (5, "the command ended before a step")
    ended = record(tmp_path, *python("pass"))
    assert (ended.code, ended.problems[-1]) == (2, "the command ended before a step")
