"""Command line of diploee, a thin layer over the Python package."""

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
    """Exception raised when a signal ends the run; unknown to typer."""


def main() -> None:
    """Run the command line as a program, with the warnings of libraries hidden."""
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
    """Run the command line; print each user error as one line without a traceback."""
    import typer

    from diploee.base.errors import ON_COMMAND_LINE, DiploeeError, InputError
    from diploee.base.files import reason
    from diploee.base.progress import stop_with
    from diploee.cli.app import application

    for number in _interrupt_signals():
        if signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
            signal.signal(number, _handle_interrupt)
    token = ON_COMMAND_LINE.set(True)
    try:
        _check_utf8(sys.argv[1:])
        completed = _completion_words()
        words = completed or sys.argv[1:]
        called = next((word for word in words if not word.startswith("-")), "")
        # `fit` is completed to `fit-requests`
        command = application(called, alone=not completed)
        sys.exit(command() if completed else command(words, standalone_mode=False))
    except typer.TyperException as error:
        _print_errors(_usage_error_text(error))
        sys.exit(error.exit_code)
    except InputError as error:
        _print_errors(*error.problems)
        sys.exit(EXIT_BAD_INPUT)
    except DiploeeError as error:
        _print_errors(*error.problems)
        sys.exit(EXIT_FAILED)
    except (Interrupted, KeyboardInterrupt, typer.Abort):
        _exit_interrupted()
    except BrokenPipeError:
        # The reader of the pipe has closed it, as in `| head`; exit without messages.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _print_errors(f"{error.filename or 'standard output'}: {reason(error)}")
        sys.exit(EXIT_FAILED)
    except MemoryError:
        _print_errors(
            "out of memory; simulate fewer nodes or a shorter duration; nothing was "
            "kept"
        )
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if any(
            signal.getsignal(number) is _ignore_signal
            for number in _interrupt_signals()
        ):
            # pydantic turns an interrupt inside a validator into its own error
            _exit_interrupted()
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _print_errors(
            f"internal error: {type(error).__name__}: {error}; please report it, with "
            f"the traceback that {DEBUG_VARIABLE}=1 shows"
        )
        sys.exit(EXIT_FAILED)
    finally:
        ON_COMMAND_LINE.reset(token)
        stop_with(None)  # the next command of this process is not the one interrupted


def _exit_interrupted() -> NoReturn:
    _print_errors("interrupted; what was not finished is removed")
    sys.exit(EXIT_INTERRUPTED)


def _completion_words() -> list[str]:
    """Return the words of the command line that a shell wants to complete, if any."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:] if "_DIPLOEE_COMPLETE" in os.environ else []


def _check_utf8(arguments: list[str]) -> None:
    from diploee.base.errors import InputError

    for text in arguments:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(f"'{text}' is not UTF-8 text; rename that file or folder")


def _usage_error_text(error: typer.TyperException) -> str:
    """Return the message of a usage error, without pydantic's wording."""
    from pydantic import ValidationError

    from diploee.base.validation import plain_problems

    if isinstance(error.__cause__, ValidationError):
        problems = plain_problems(error.__cause__, None)
        error.message = ", ".join(text for _, text in problems)
    return error.format_message()


def _print_errors(*problems: str) -> None:
    from diploee.base.errors import one_line

    for line in problems:
        sys.stderr.write(f"diploee: {one_line(line)}\n")


def _interrupt_signals() -> list[signal.Signals]:
    """Return the signals that end a run: Ctrl-C, termination and hang-up."""
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [signal.Signals[name] for name in names if hasattr(signal, name)]


def _handle_interrupt(_number: int, _frame: FrameType | None) -> None:
    # A second signal, such as a hang-up after a termination, must not stop clean-up.
    from diploee.base.progress import stop_with

    for number in _interrupt_signals():
        signal.signal(number, _ignore_signal)
    stop_with(Interrupted())
    raise Interrupted


def _ignore_signal(_number: int, _frame: FrameType | None) -> None:
    pass
