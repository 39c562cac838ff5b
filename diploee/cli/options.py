"""Command-line options shared by several commands, or made from pydantic models."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

if TYPE_CHECKING:
    from diploee.fits.jobs.job_log_fit import JobLogFit
    from diploee.fits.requests.fit import RequestFit

Command = Callable[..., None]
_OPTION_NAMES = {
    "as_json": "--json",
    "dask": "--dask ADDRESS",
    "profiles": "--profiles DIR",
    "quiet": "--quiet -q",
}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
TIME_FORMATS = [
    f"%Y-%m-%d{time}" for time in ("", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f")
]


def path_option(help_text: str, option: str = "--out", metavar: str = "PATH") -> Any:
    """Return an option for a local file or folder to write.

    URLs and empty names are refused.
    """

    def parse_path(text: str | Path) -> Path:
        from diploee.base.files import local_path

        return local_path(text, option)

    return typer.Option(option, parser=parse_path, metavar=metavar, help=help_text)


def print_result(
    content: object,
    lines: Iterable[str] = (),
    *,
    as_json: bool = True,
    quiet: bool = False,
) -> None:
    """Print the result of a command, as JSON or as lines of text."""
    from diploee.base.validation import plain

    if as_json:
        lines = [json.dumps(plain(content), indent=2, default=str)]
    for line in () if quiet and not as_json else lines:
        typer.echo(line)


def print_written(paths: Iterable[Path], as_json: bool, quiet: bool = False) -> None:
    """Print the paths of the files and folders that a command wrote."""
    names = [str(path) for path in paths]
    print_result({"written": names}, names, as_json=as_json, quiet=quiet)


def output_fragment(
    fit: JobLogFit | RequestFit,
    text: str,
    out: Path | None,
    force: bool,
    as_json: bool,
    next_lines: Iterable[str] = (),
) -> None:
    """Write a scenario snippet to `out`, or print it; then print the fit's summary."""
    from diploee.fits.fragment import write_fragment
    from diploee.runs.sections import as_lines

    write_fragment(text, out, force)
    if as_json:
        print_result(fit.as_dict())
    elif out is None:
        typer.echo(text, nl=False)
    else:
        lines = (*as_lines(fit.sections()), f"Written: {out}", *next_lines)
        print_result({}, lines, as_json=False)


def option_name(name: str) -> str:
    """Return the command-line option of a Python argument, such as `--step-s`."""
    return f"--{name.replace('_', '-')}"


def shipped_names(
    *kinds: Literal["scenario", "sweep", "limits"],
) -> Callable[[str], list[str]]:
    """Return a shell completer for the names of shipped files of these kinds.

    The shell completes file names if no shipped name matches.
    """

    def complete(incomplete: str) -> list[str]:
        from diploee.base.files.paths import shipped_folder

        subfolders = {"scenario": ".", "sweep": "sweeps", "limits": "limits"}
        folders = [shipped_folder("scenarios") / subfolders[kind] for kind in kinds]
        names = [
            path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))
        ]
        return [name for name in names if name.startswith(incomplete)]

    return complete


Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help="Folder of power profiles (default 'reference'); may be repeated.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ToLibrary = Annotated[Path, path_option("Library folder to add the profile to.")]
Fragment = Annotated[
    Path | None,
    path_option("YAML file of the stream, or of --scenario; printed by default."),
]


def options(
    parsers: Mapping[str, Any] | None = None, /, **option_names: str
) -> Callable[[Command], Command]:
    """Decorate a command: convert its parameters to typer options.

    A parameter that is a pydantic model becomes one option per field, with the field's
    description as help. A field without its option keeps the model's default, and an
    error names the option. `parsers` convert the text of an option to the value of a
    field, for example by reading a file.
    """

    def decorate(command: Command) -> Command:
        hints = typing.get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        models: dict[str, Any] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            hint = hints[name]
            if hasattr(hint, "model_fields"):
                models[name] = hint
                parameters += _model_options(hint, option_names, parsers or {})
            else:
                parameters.append(parameter.replace(annotation=hint, kind=_KEYWORD))

        def wrapper(**values: Any) -> None:
            for name, model in models.items():
                fields = {field: values.pop(field) for field in model.model_fields}
                values[name] = _build_model(model, fields, option_names)
            command(**values)

        wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
        signature = inspect.Signature(parameters)
        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        wrapper.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return wrapper

    return decorate


def _model_options(
    model: Any, option_names: Mapping[str, str], parsers: Mapping[str, Any]
) -> Iterator[inspect.Parameter]:
    """Yield a command's parameter for each field of a model."""
    for name, field in model.model_fields.items():
        kind, flags = _option_type(field.annotation), _flags(name, option_names)
        default, is_needed = field.get_default(), field.is_required()
        is_switch = kind is bool and default is False
        if kind is bool and not is_switch:
            flags = [f"{flags[0]}/--no-{flags[0].removeprefix('--')}"]
        info = typer.Option(
            *flags,
            help=field.description,
            metavar=_metavar(name, option_names),
            show_default=str(default)
            if default is not False and _has_shown_default(default)
            else False,
            formats=TIME_FORMATS if kind is datetime else None,
            parser=parsers.get(name),
        )
        if not is_switch and not is_needed:
            kind, default = kind | None, None
        default = inspect.Parameter.empty if is_needed else default
        hint: Any = Annotated[kind, info]
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=hint)


def _has_shown_default(default: object) -> bool:
    return isinstance(default, str | int | float) and default != ""


def _words(name: str, option_names: Mapping[str, str]) -> list[str]:
    return option_names.get(name, _OPTION_NAMES.get(name, option_name(name))).split()


def _flags(name: str, option_names: Mapping[str, str]) -> list[str]:
    return [word for word in _words(name, option_names) if word.startswith("-")]


def _metavar(name: str, option_names: Mapping[str, str]) -> str | None:
    return next(
        (word for word in _words(name, option_names) if not word.startswith("-")), None
    )


def _plain_type(annotation: Any) -> Any:
    """Return a type annotation without its constraints and None."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    kinds = [a for a in get_args(annotation) if a is not NoneType]
    return _plain_type(kinds[0]) if NoneType in get_args(annotation) else annotation


def _option_type(annotation: Any) -> Any:
    """Return the type of an option: a plain type, a literal, or a list to repeat."""
    plain = _plain_type(annotation)
    if get_origin(plain) in (tuple, list):
        item = _plain_type(get_args(plain)[0])
        names = get_args(item)  # of a literal, which typer does not support in lists
        if not names:
            return list[item]  # type: ignore[valid-type]
        return list[StrEnum("Choice", zip(names, names, strict=True))]  # type: ignore[misc]
    return list[str] if get_origin(plain) is dict else plain


def _build_model(
    model: Any, fields: Mapping[str, Any], option_names: Mapping[str, str]
) -> Any:
    """Build a model from the values of its options; errors name the option."""
    from pydantic import ValidationError

    from diploee.base.errors import InputError
    from diploee.base.validation import checked, plain_problems

    values = {name: value for name, value in fields.items() if value not in (None, [])}
    for name, value in values.items():
        if get_origin(_plain_type(model.model_fields[name].annotation)) is dict:
            values[name] = dict(
                _split_pair(text, _flags(name, option_names)[0]) for text in value
            )

    def where(place: tuple[str | int, ...]) -> str:
        return (
            " or ".join(_flags(str(place[0]), option_names)) if place else "the options"
        )

    try:
        return checked(
            values, model, where, lambda problems: InputError("; ".join(problems))
        )
    except InputError as error:  # of a model whose validator names Python fields
        if not isinstance(error.__cause__, ValidationError):
            raise
        problems = plain_problems(error.__cause__, values)
        raise InputError(
            "; ".join(f"{where(at)}: {why}" for at, why in problems)
        ) from error


def _split_pair(text: str, option: str) -> tuple[str, str]:
    from diploee.base.errors import InputError

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InputError(f"{option}: expected MEANING=NAME, found '{text}'")
    return key, value


@contextmanager
def rename_arguments(**options: str) -> Iterator[None]:
    """Replace Python arguments by options in the message of an error."""
    from diploee.base.errors import ProfileError, WorkloadError

    try:
        yield
    except (ProfileError, WorkloadError) as error:
        names = "|".join(map(re.escape, options))
        text = re.sub(rf"\b({names})\b", lambda match: options[match[1]], str(error))
        raise type(error)(text) from error
