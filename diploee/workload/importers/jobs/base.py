"""What every importer of job logs is: a name, how to recognise its files, how to read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diploee.workload.importers.jobs.options import JobLogOptions
from diploee.workload.importers.jobs.raw_log import RawLog
from diploee.workload.importers.jobs.text_file import TextFile


@dataclass(frozen=True)
class JobLogFormat:
    """A format of job logs.

    Parameters
    ----------
    name : str
        As users write it, such as ``"swf"``.
    title : str
        What it is, for lists and errors.
    recognises : callable
        Whether a file looks like one; cheap, from its first lines.
    read : callable
        Rows of a file, by the options that concern reading; `diploee.workload.importers.jobs.rules`
        does the rest.
    """

    name: str
    title: str
    recognises: Callable[[TextFile], bool]
    read: Callable[[TextFile, JobLogOptions], RawLog]


def header_words(file: TextFile) -> set[str]:
    """Return the words of the first line, between commas, bars, semicolons or tabs, unquoted."""
    line = file.head.partition("\n")[0]
    for delimiter in "|;\t":
        line = line.replace(delimiter, ",")
    return {word.strip().strip('"') for word in line.split(",")}
