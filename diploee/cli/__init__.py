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


def main() -> None:
    """Run the command line; errors of the user become one line each, without a traceback."""
    from diploee.cli.app import app
    from diploee.errors import DiploeeError, InputError

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except InputError as error:
        _complain(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except DiploeeError as error:
        _complain(str(error))
        sys.exit(EXIT_FAILED)
    except KeyboardInterrupt:
        _complain("interrupted; no run folder was written")
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
