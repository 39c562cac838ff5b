"""Options of commands: those that several share, and those made from models of what they set."""  # noqa: E501

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
_SPELT = {
    "as_json": "--json",
    "dask": "--dask ADDRESS",
    "profiles": "--profiles DIR",
    "quiet": "--quiet -q",
}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
MOMENTS = [f"%Y-%m-%d{time}" for time in ("", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f")]


def place_option(words: str, option: str = "--out", metavar: str = "PATH") -> Any:
    """Return an option of a local file or folder to write.

    URLs and empty names are refused.
    """

    def place(text: str | Path) -> Path:
        from diploee.base.files import local_path

        return local_path(text, option)

    return typer.Option(option, parser=place, metavar=metavar, help=words)


def print_result(
    content: object,
    lines: Iterable[str] = (),
    *,
    as_json: bool = True,
    quiet: bool = False,
) -> None:
    """Print the result of a command.

    As JSON, alone on standard output, or in lines of words.
    """
    from diploee.base.plain_data import plain

    if as_json:
        lines = [json.dumps(plain(content), indent=2, default=str)]
    for line in () if quiet and not as_json else lines:
        typer.echo(line)


def print_written(paths: Iterable[Path], as_json: bool, quiet: bool = False) -> None:
    """Print the files and folders that a command wrote."""
    places = [str(path) for path in paths]
    print_result({"written": places}, places, as_json=as_json, quiet=quiet)


def give_fragment(
    fit: JobLogFit | RequestFit,
    text: str,
    out: Path | None,
    force: bool,
    as_json: bool,
    following: Iterable[str] = (),
) -> None:
    """Write a fragment of a scenario where it was asked for; print the rest."""
    from diploee.fits.fragment import write_fragment
    from diploee.runs.sections import as_lines

    write_fragment(text, out, force)
    if as_json:
        print_result(fit.as_dict())
    elif out is None:
        typer.echo(text, nl=False)
    else:
        lines = (*as_lines(fit.sections()), f"Written: {out}", *following)
        print_result({}, lines, as_json=False)


def as_option(name: str) -> str:
    """Return how the command line calls an argument of Python."""
    return f"--{name.replace('_', '-')}"


def shipped_names(
    *kinds: Literal["scenario", "sweep", "limits"],
) -> Callable[[str], list[str]]:
    """Return what completes the names of what ships.

    Files are completed where none fits.
    """

    def names(incomplete: str) -> list[str]:
        from diploee.base.files.paths import shipped_folder

        places = {"scenario": ".", "sweep": "sweeps", "limits": "limits"}
        folders = [shipped_folder("scenarios") / places[kind] for kind in kinds]
        result = [
            path.stem for folder in folders for path in sorted(folder.glob("*.yaml"))
        ]
        return [name for name in result if name.startswith(incomplete)]

    return names


Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles",
        metavar="DIR",
        help=(
            "Folder of power profiles instead of the shipped 'reference'; may be "
            "repeated."
        ),
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is already there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ToLibrary = Annotated[
    Path, place_option("Folder of the library to add the profile to.")
]
Fragment = Annotated[
    Path | None,
    place_option(
        "YAML file of the stream, or of --scenario with it; else it is printed."
    ),
]


def options(
    reads: Mapping[str, Any] | None = None, /, **spelt: str
) -> Callable[[Command], Command]:
    """Make typer options of what a command takes.

    A parameter that is a pydantic model becomes one option per field, with the field's
    description as help; a field that is not given keeps the model's default, and an
    error goes under the option's name. `reads` has what makes the value of a field of a
    text, such as reading a file.
    """

    def decorate(command: Command) -> Command:
        hints = typing.get_type_hints(command, include_extras=True)
        shown: list[inspect.Parameter] = []
        models: dict[str, Any] = {}
        for name, parameter in inspect.signature(command).parameters.items():
            hint = hints[name]
            if hasattr(hint, "model_fields"):
                models[name] = hint
                shown += _of_model(hint, spelt, reads or {})
            else:
                shown.append(parameter.replace(annotation=hint, kind=_KEYWORD))

        def called(**values: Any) -> None:
            for name, model in models.items():
                fields = {field: values.pop(field) for field in model.model_fields}
                values[name] = _checked(model, fields, spelt)
            command(**values)

        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        called.__annotations__ = {
            parameter.name: parameter.annotation for parameter in shown
        }
        return called

    return decorate


def _of_model(
    model: Any, spelt: Mapping[str, str], reads: Mapping[str, Any]
) -> Iterator[inspect.Parameter]:
    for name, field in model.model_fields.items():
        kind, flags = _kind(field.annotation), _flags(name, spelt)
        default, is_needed = field.get_default(), field.is_required()
        is_switch = kind is bool and default is False
        if kind is bool and not is_switch:
            flags = [f"{flags[0]}/--no-{flags[0].removeprefix('--')}"]
        info = typer.Option(
            *flags,
            help=field.description,
            metavar=_metavar(name, spelt),
            show_default=str(default)
            if default is not False and _is_shown(default)
            else False,
            formats=MOMENTS if kind is datetime else None,
            parser=reads.get(name),
        )
        if not is_switch and not is_needed:
            kind, default = kind | None, None
        default = inspect.Parameter.empty if is_needed else default
        hint: Any = Annotated[kind, info]
        yield inspect.Parameter(name, _KEYWORD, default=default, annotation=hint)


def _is_shown(default: object) -> bool:
    return isinstance(default, str | int | float) and default != ""


def _words(name: str, spelt: Mapping[str, str]) -> list[str]:
    return spelt.get(name, _SPELT.get(name, as_option(name))).split()


def _flags(name: str, spelt: Mapping[str, str]) -> list[str]:
    return [word for word in _words(name, spelt) if word.startswith("-")]


def _metavar(name: str, spelt: Mapping[str, str]) -> str | None:
    return next(
        (word for word in _words(name, spelt) if not word.startswith("-")), None
    )


def _plain_type(annotation: Any) -> Any:
    """Return an annotation without limits and None."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    kinds = [a for a in get_args(annotation) if a is not NoneType]
    return _plain_type(kinds[0]) if NoneType in get_args(annotation) else annotation


def _kind(annotation: Any) -> Any:
    """Return what typer makes an option of.

    A plain type, a literal, or a list for what repeats.
    """
    plain = _plain_type(annotation)
    if get_origin(plain) in (tuple, list):
        of = _plain_type(get_args(plain)[0])
        words = get_args(of)  # of a literal, which typer knows alone, not in lists
        return list[StrEnum("Choice", zip(words, words, strict=True)) if words else of]  # type: ignore[misc]
    return list[str] if get_origin(plain) is dict else plain


def _checked(model: Any, fields: Mapping[str, Any], spelt: Mapping[str, str]) -> Any:
    """Return the model of what was given; an error names the option."""
    from pydantic import ValidationError

    from diploee.base.errors import InputError
    from diploee.base.plain_data import checked, plain_problems

    given = {name: value for name, value in fields.items() if value not in (None, [])}
    for name, value in given.items():
        if get_origin(_plain_type(model.model_fields[name].annotation)) is dict:
            given[name] = dict(_pair(text, _flags(name, spelt)[0]) for text in value)

    def where(place: tuple[str | int, ...]) -> str:
        return " or ".join(_flags(str(place[0]), spelt)) if place else "the options"

    try:
        return checked(
            given, model, where, lambda problems: InputError("; ".join(problems))
        )
    except InputError as error:  # a model that names its own fields, as in Python
        if not isinstance(error.__cause__, ValidationError):
            raise
        problems = plain_problems(error.__cause__, given)
        raise InputError(
            "; ".join(f"{where(at)}: {why}" for at, why in problems)
        ) from error


def _pair(text: str, option: str) -> tuple[str, str]:
    from diploee.base.errors import InputError

    key, equals, value = text.partition("=")
    if not (key and equals):
        raise InputError(f"{option}: expected MEANING=NAME, found '{text}'")
    return key, value


@contextmanager
def naming_options(**options: str) -> Iterator[None]:
    """Name options, not arguments of Python, in what an argument's error says."""
    from diploee.base.errors import ProfileError, WorkloadError

    try:
        yield
    except (ProfileError, WorkloadError) as error:
        words = "|".join(map(re.escape, options))
        text = re.sub(rf"\b({words})\b", lambda found: options[found[1]], str(error))
        raise type(error)(text) from error
