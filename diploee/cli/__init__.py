"""The command line: a thin layer over the package."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

DEBUG_VARIABLE = "DIPLOEE_DEBUG"
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """A signal ended the run; typer, whose versions differ there, does not know it."""


def main() -> None:
    """Run the command line; errors of the user become one line each, without a traceback."""
    from diploee.cli.app import app
    from diploee.errors import DiploeeError, InputError
    from diploee.files import reason

    for number in _interrupts():
        if signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
            signal.signal(number, _interrupt)
    try:
        app()
    except InputError as error:
        _complain(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except DiploeeError as error:
        _complain(str(error))
        sys.exit(EXIT_FAILED)
    except (Interrupted, KeyboardInterrupt):
        _complain("interrupted; what was not finished is removed")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader went away, as in `| head`; nothing may complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _complain(f"{error.filename or 'standard output'}: {reason(error)}")
        sys.exit(EXIT_FAILED)
    except MemoryError:
        _complain("out of memory; simulate fewer nodes or a shorter duration; nothing was kept")
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}; please report it, with the "
            f"traceback that {DEBUG_VARIABLE}=1 shows"
        )
        sys.exit(EXIT_FAILED)


def _complain(text: str) -> None:
    for line in text.splitlines():
        sys.stderr.write(f"diploee: {line}\n")


def _interrupts() -> list[signal.Signals]:
    """Return the signals that end a run: Ctrl-C, termination, a terminal that hangs up."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [signal.Signals[name] for name in names if hasattr(signal, name)]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second signal, such as a hang-up with the termination, must not stop the clean-up.
    for number in _interrupts():
        signal.signal(number, _ignore)
    raise Interrupted


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass
