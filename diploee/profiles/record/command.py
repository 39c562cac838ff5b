"""Run a command while its machine's sensors are sampled; end it properly when interrupted."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from diploee.errors import InputError
from diploee.files import reason
from diploee.profiles.record.sampler import Sampler

PATIENCE_S = (2.0, 10.0, 5.0)
"""How long a command may take to end by itself, after an interrupt, and after a termination [s]."""


@dataclass(frozen=True)
class Ended:
    """How the command ended.

    Parameters
    ----------
    code : int
        Its exit code; 128 and the signal's number where a signal ended it.
    interrupted : bool
        Whether the recording was interrupted.
    """

    code: int
    interrupted: bool


def run_recorded(
    command: Sequence[str],
    sampler: Sampler,
    *,
    interruptions: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
    keep_interrupted: bool = False,
) -> Ended:
    """Run a command to its end and sample meanwhile.

    The command has this process's input and output. When interrupted, it is ended first: by the
    interrupt that a terminal sends to both, else by one from here, then by a termination, then it
    is killed.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    sampler : Sampler
        Holds the samples afterwards.
    interruptions : tuple of exception types
        What an interruption raises here.
    keep_interrupted : bool
        Return after an interruption rather than raise it on.

    Raises
    ------
    InputError
        If the command can't be started.
    """
    with sampler.running():
        try:
            process = subprocess.Popen(list(command))
        except (OSError, ValueError) as error:
            why = reason(error) if isinstance(error, OSError) else error
            raise InputError(
                f"{command[0]}: can't be started ({why}); give a program and its arguments after "
                "'--'"
            ) from error
        interrupted = False
        try:
            process.wait()
        except interruptions:
            _end(process)
            if not keep_interrupted:
                raise
            interrupted = True
        finally:
            _end(process)
    code = process.returncode
    return Ended(128 - code if code < 0 else code, interrupted)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, ever less gently."""
    for number, patience_s in zip((None, signal.SIGINT, signal.SIGTERM), PATIENCE_S, strict=True):
        if process.poll() is not None:
            return
        if number is not None:
            process.send_signal(number)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.kill()
        process.wait()
