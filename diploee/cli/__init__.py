"""The command line: a thin layer over the package."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import typer

DEBUG_VARIABLE = "DIPLOEE_DEBUG"
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class Interrupted(BaseException):
    """A signal ended the run; typer, whose versions differ there, does not know it."""


def main() -> None:
    """Run the command line as users do: warnings of libraries are not for them."""
    for stream in (sys.stdout, sys.stderr):
        # A console may lack √ or ×, as Windows' cp1252
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    if not sys.warnoptions and not os.environ.get(DEBUG_VARIABLE):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("once", "key '", FutureWarning)
        warnings.formatwarning = lambda message, *_, **__: f"diploee: {message}\n"
    command_line()


def command_line() -> None:
    """Run the command line; errors of the user become one line each, without a traceback."""  # noqa: E501
    import typer

    from diploee.base.errors import DiploeeError, InputError
    from diploee.base.files import reason
    from diploee.base.progress import stop_with
    from diploee.cli.app import application

    for number in _interrupts():
        if signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
            signal.signal(number, _interrupt)
    try:
        _check_text(sys.argv[1:])
        completed = _words_to_complete()
        words = completed or sys.argv[1:]
        called = next((word for word in words if not word.startswith("-")), "")
        # `fit` is completed to `fit-requests`
        command = application(called, alone=not completed)
        sys.exit(command() if completed else command(words, standalone_mode=False))
    except typer.TyperException as error:
        _complain(_in_our_words(error))
        sys.exit(error.exit_code)
    except InputError as error:
        _complain(*error.problems)
        sys.exit(EXIT_BAD_INPUT)
    except DiploeeError as error:
        _complain(*error.problems)
        sys.exit(EXIT_FAILED)
    except (Interrupted, KeyboardInterrupt, typer.Abort):
        _end_interrupted()
    except BrokenPipeError:
        # The reader went away, as in `| head`; nothing may complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _complain(f"{error.filename or 'standard output'}: {reason(error)}")
        sys.exit(EXIT_FAILED)
    except MemoryError:
        _complain(
            "out of memory; simulate fewer nodes or a shorter duration; nothing was "
            "kept"
        )
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if any(signal.getsignal(number) is _ignore for number in _interrupts()):
            # Of which pydantic makes an error of its own where it calls back
            _end_interrupted()
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _complain(
            f"internal error: {type(error).__name__}: {error}; please report it, with "
            f"the traceback that {DEBUG_VARIABLE}=1 shows"
        )
        sys.exit(EXIT_FAILED)
    finally:
        stop_with(None)  # the next command of this process is not the one interrupted


def _end_interrupted() -> NoReturn:
    _complain("interrupted; what was not finished is removed")
    sys.exit(EXIT_INTERRUPTED)


def _words_to_complete() -> list[str]:
    """Return the words behind ``diploee`` that a shell asks to complete.

    None where none does.
    """
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:] if "_DIPLOEE_COMPLETE" in os.environ else []


def _check_text(arguments: list[str]) -> None:
    from diploee.base.errors import InputError

    for text in arguments:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"'{text}' is not UTF-8 text; rename that file or folder")


def _in_our_words(error: typer.TyperException) -> str:
    """Return what is wrong with an option, of which typer quotes pydantic."""
    from pydantic import ValidationError

    from diploee.base.plain_data import plain_problems

    if isinstance(error.__cause__, ValidationError):
        problems = plain_problems(error.__cause__, None)
        error.message = ", ".join(text for _, text in problems)
    return error.format_message()


def _complain(*problems: str) -> None:
    from diploee.base.errors import one_line

    for line in problems:
        sys.stderr.write(f"diploee: {one_line(line)}\n")


def _interrupts() -> list[signal.Signals]:
    """Return the signals that end a run.

    Ctrl-C, termination, a terminal that hangs up.
    """
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [signal.Signals[name] for name in names if hasattr(signal, name)]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second signal, such as a hang-up with the termination, must not stop the
    # clean-up.
    from diploee.base.progress import stop_with

    for number in _interrupts():
        signal.signal(number, _ignore)
    stop_with(Interrupted())
    raise Interrupted


def _ignore(_number: int, _frame: FrameType | None) -> None:
    pass
