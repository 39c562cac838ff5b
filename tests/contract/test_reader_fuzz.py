"""Changed files: every reader of foreign text reads them or refuses them in one line."""  # noqa: E501

from __future__ import annotations

import gzip
import re
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import tiny_library
from command_line import MAX_S
from job_log_writers import check_log
from text_readers import READERS, TextReader

from diploee.base.errors import InputError
from diploee.fits.jobs.job_log_fit import fit_job_log
from diploee.fits.jobs.scenario_entry import job_stream, stream_comments
from diploee.fits.requests import scenario_entry
from diploee.fits.requests.fit import fit_requests
from diploee.loads.jobs.job_log import JobLog
from diploee.loads.services.request_trace import RequestTrace
from diploee.scenario import ClassRule

N_ALWAYS, N_SLOW = 20, 2_000
ODD = (
    *re.findall(
        r"\S+",
        """
        - -1 -7 0 1e300 -1e300 1e-300 nan -nan inf -inf 1_0 0x1f 99999999999
        4294967296 1.5 1,5 +3 ٣ Unknown None NULL \\N 0000-01-01T00:00:00 20230306
        1970-01-01T00:00:00 2023-03-06T25:00:00 06.03.2023 315360000 é 🙂 " "" a"b
        ' | ; , \\ # null true [] {} [[[[ CANCELLED 2K [N/A] W
        """,
    ),
    *("", " ", "\t", "\x00", "\x1b[31m", "\u2028", "\ufeff", "9" * 25, "9" * 400),
    *(f"{day} 00:00:00" for day in ("0000-00-00", "1000-01-01", "2023-02-30")),
    *(f"{year}-03-06 00:00:00" for year in (1985, 2005)),
    *("2023-03-06 00:00:00+99:99", "2023-03-06 00:00:00 UTC", "2023-03-06 00:00:60"),
    *("9999-12-31 23:59:59", "a" * 200_000),
)
_FIELD = re.compile(r"[^,;|\s:\"]+")


def changed(text: str, rng: np.random.Generator) -> bytes:
    """Return a good file with fields, lines, columns or bytes changed."""

    def chosen(items: Any) -> Any:
        return items[int(rng.integers(len(items)))]

    lines = text.split("\n")
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(lines)))
        match chosen(
            ("field", "field", "field", "line", "swap", "cut", "column", "many")
        ):
            case "field" if found := list(_FIELD.finditer(lines[at])):
                field = chosen(found)
                lines[at] = (
                    lines[at][: field.start()] + chosen(ODD) + lines[at][field.end() :]
                )
            case "line":
                lines.insert(at, chosen((*lines, "", "   ", chosen(ODD))))
            case "swap":
                other = int(rng.integers(len(lines)))
                lines[at], lines[other] = lines[other], lines[at]
            case "cut":
                lines = lines[: max(at, 1)]
            case "column":
                delimiter, place = chosen(",;|\t "), int(rng.integers(12))
                lines = [
                    delimiter.join(
                        p for i, p in enumerate(line.split(delimiter)) if i != place
                    )
                    for line in lines
                ]
            case "many":
                lines[at:at] = [lines[at]] * int(rng.integers(30))
    data = (
        chosen(("\n", "\n", "\r\n", "\r")).join(lines).encode("utf-8", "surrogatepass")
    )
    if rng.random() < 0.3:
        data = gzip.compress(data, compresslevel=1)
    for _ in range(rng.integers(0, 3)):
        at = int(rng.integers(len(data) + 1))
        data = (
            data[:at]
            + rng.bytes(int(rng.integers(4)))
            + data[at + int(rng.integers(4)) :]
        )
    return data


def told(result: Any) -> str:
    """Return what a command would say of a result."""
    if isinstance(result, JobLog):
        check_log(result)
        fit = fit_job_log(result, [ClassRule(workload="tune")], tiny_library())
        return "\n".join([*stream_comments(fit), str(job_stream(fit, "main"))])
    if isinstance(result, RequestTrace):
        counts = result.counts
        assert counts.n_rows == counts.n_kept + sum(counts.dropped.values())
        assert np.isfinite(result.n_requests).all() and (result.n_requests >= 0).all()
        of = fit_requests(result)
        stream = scenario_entry.request_stream(of, pool="main")
        return "\n".join([*scenario_entry.stream_comments(of), str(stream)])
    return ""


def check(reader: TextReader, folder: Path, number: int) -> None:
    rng = np.random.default_rng((zlib.crc32(reader.name.encode()), number))
    path = folder / reader.file
    path.write_bytes(changed(reader.text, rng))
    started = time.process_time()
    try:
        text = told(reader.read(path))
    except InputError as error:
        text = str(error)
        assert text.isprintable() and len(text) < len(str(path)) + 500, (number, text)
        # What was found may be that word
        text = re.sub(r"'.*'|: nan\b| is nan\b", "", text)
    assert not re.search(r"\bnan\b", text), (number, text)
    assert time.process_time() - started < MAX_S, number


@pytest.mark.parametrize(
    "numbers",
    [
        range(N_ALWAYS),
        pytest.param(range(N_ALWAYS, N_SLOW), marks=pytest.mark.fuzz),
    ],
    ids=len,
)
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_changed_files_are_read_or_refused_in_one_line(
    tmp_path: Path, reader: TextReader, numbers: range
) -> None:
    for number in numbers:
        check(reader, tmp_path, number)
