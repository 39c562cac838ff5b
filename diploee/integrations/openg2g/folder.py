"""Data folders of OpenG2G, ``<data_dir>/<spec.cache_hash()>/``, by spec.

A folder has the files `trace.csv` (``batch_size,relative_time_s,power_total_W``),
`itl_fit.json` and `logistic_fit.json`, and the spec in `_manifest.json`. Fits made by
diploee also have `details`. In traces made by diploee a row is a mean over a step,
whose length is in `itl_fit.json`; in those of OpenG2G a row is a reading.

References
----------
.. [1] https://github.com/gpu2grid/openg2g, 0.2.0: ``datacenter/config.py`` (the hash
   of a spec), ``datacenter/workloads/inference.py`` (the manifest)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
from pydantic import ConfigDict, Field

from diploee.base.errors import InputError, LogFormatError
from diploee.base.files import whole_file
from diploee.base.tables import Float64Array
from diploee.base.validation import Record, checked, parse_json
from diploee.base.version import full_version
from diploee.importers.text.delimited_tables import parse_header_table
from diploee.importers.text.file_bytes import read_bytes
from diploee.importers.text.numbers_and_labels import Number, numbers
from diploee.integrations.openg2g.inference_model_spec import InferenceModelSpec
from diploee.integrations.openg2g.itl_mixture import ITLMixtureModel
from diploee.integrations.openg2g.logistic import LogisticModel

MANIFEST = "_manifest.json"
TRACE_FILE, ITL_FILE, FIT_FILE = "trace.csv", "itl_fit.json", "logistic_fit.json"
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
FITS = {"power": "power", "latency": "itl", "throughput": "throughput"}
"""Fields of `ServingFits` by their names in ``logistic_fit.json``.

OpenG2G fits the mean latency, the package's sources have the median."""


class _SpecManifest(Record):
    spec: dict[str, Any]


class _Fits(Record):
    model_config = ConfigDict(strict=False)  # the models are strict themselves
    details: dict[str, Any] = Field(default_factory=dict)

    def content(self) -> bytes:
        """Return the fits as the bytes of a JSON file."""
        return _as_json(self.model_dump(mode="json", by_alias=True))


class LatencyFits(_Fits):
    """Content of ``itl_fit.json``: latency mixtures by batch size."""

    per_batch: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], ITLMixtureModel]


class LogisticFits(_Fits):
    """Content of ``logistic_fit.json``: logistic fits by name, each optional."""

    power: LogisticModel | None = None
    latency: LogisticModel | None = None
    throughput: LogisticModel | None = None


def spec_folder(data_dir: Path | str, spec: InferenceModelSpec) -> Path:
    """Return the folder of a spec: a subfolder, or `data_dir` itself if it is one."""
    data_dir = Path(data_dir)
    is_spec_folder = (data_dir / MANIFEST).is_file()
    return data_dir if is_spec_folder else data_dir / spec.cache_hash()


def specs_of(folder: Path | str) -> dict[Path, InferenceModelSpec]:
    """Return the specs of the finished folders (those with a manifest), by path.

    Parameters
    ----------
    folder : pathlib.Path or str
        OpenG2G's ``data/specs``, or the folder of one spec.
    """
    folder = Path(folder)
    manifests = [folder / MANIFEST]
    if not manifests[0].is_file():
        manifests = sorted(folder.glob(f"*/{MANIFEST}"))
    if not manifests:
        raise InputError(
            f"{folder}: no finished spec folder of OpenG2G (none holds {MANIFEST}); "
            "give its data/specs"
        )
    return {path.parent: _spec(path) for path in manifests}


def _spec(manifest: Path) -> InferenceModelSpec:
    fields = read(manifest, _SpecManifest).spec
    return checked(
        {
            name: v
            for name, v in fields.items()
            if name in InferenceModelSpec.model_fields
        },
        InferenceModelSpec,
        lambda place: f"{manifest}: {'.'.join(('spec', *map(str, place)))}",
        lambda problems: LogFormatError(problems[0]),
    )


def read(path: Path, kind: type[Any]) -> Any:
    """Return the content of a JSON file."""
    return parse_json(read_bytes(path), str(path), kind, LogFormatError)


def read_trace_rows(path: Path) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Read batch size, time [s] and power [W] of the rows of a `trace.csv`."""
    table = parse_header_table(path, read_bytes(path), "a trace").read(
        TRACE_COLUMNS, "a trace"
    )
    batch, t_s = (
        numbers(table, name, Number(may_be_missing=False)) for name in TRACE_COLUMNS[:2]
    )
    number = Number(may_be_missing=False, at_least=0)
    return batch, t_s, numbers(table, TRACE_COLUMNS[2], number)


def read_details(folder: Path, details: dict[str, Any]) -> dict[str, Any]:
    """Return the stored details, by default source and hash for OpenG2G's own data."""
    if details:
        return details
    digest = hashlib.sha256()
    for name in (TRACE_FILE, ITL_FILE, FIT_FILE):
        if (folder / name).exists():
            content = read_bytes(folder / name)
            digest.update(name.encode() + hashlib.sha256(content).digest())
    return {
        "source": f"OpenG2G spec {folder.name}",
        "licence": "unknown",
        "source_sha256": digest.hexdigest(),
    }


def write(folder: Path, spec: InferenceModelSpec, files: Mapping[str, bytes]) -> None:
    """Write the data files of a spec and its manifest into a folder."""
    manifest = {
        "schema_version": 3,
        "spec": spec.model_dump(mode="json", exclude_none=True),
        "spec_hash": spec.cache_hash(),
        "diploee_version": full_version(),
    }
    for name, content in {**files, MANIFEST: _as_json(manifest)}.items():
        with whole_file(folder / name, force=True, option="--data-dir") as path:
            path.write_bytes(content)


def _as_json(content: dict[str, Any]) -> bytes:
    """Return content as the bytes of an indented JSON file."""
    return f"{json.dumps(content, indent=2, allow_nan=False)}\n".encode()


def format_columns(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return columns as CSV bytes with a header, with numbers in full precision."""
    buffer = BytesIO()
    buffer.write(f"{','.join(columns)}\n".encode())
    options = pa_csv.WriteOptions(include_header=False)
    pa_csv.write_csv(pa.table(dict(columns)), buffer, options)
    return buffer.getvalue()
