"""OpenG2G's spec folders, ``data/specs/<hash>/``: names and manifests as it looks them up, files.

`trace.csv` (``batch_size,relative_time_s,power_total_W``), `itl_fit.json` and `logistic_fit.json`
are the files of the cache here, too.

References
----------
.. [1] https://github.com/gpu2grid/openg2g, 0.2.0: ``datacenter/config.py`` (the hash of a spec),
   ``datacenter/workloads/inference.py`` (the manifest)
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
from pydantic import Field

from diploee.errors import InputError, LogFormatError
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.logistic import LogisticModel
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import Record, parse_json
from diploee.tables import Float64Array
from diploee.textio.sheets import sheet_of
from diploee.textio.values import Number, numbers

TRACE_FILE, ITL_FILE, FIT_FILE = "trace.csv", "itl_fit.json", "logistic_fit.json"
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
FITS = {"power": "power", "latency": "itl", "throughput": "throughput"}
"""Names in ``logistic_fit.json``, and ours. OpenG2G fits the mean latency, the sources here give
the median."""

SCHEMA_VERSION = 3
DEFAULTS = {"precision": "bfloat16", "tensor_parallel": 1, "expert_parallel": 1}
"""OpenG2G's defaults for fields that a spec leaves out."""

_HASHED = (
    "model_id", "gpu_model", "task", "precision", "gpus_per_replica", "tensor_parallel",
    "expert_parallel", "batch_sizes", "fit_exclude_batch_sizes",
)  # fmt: skip


def openg2g_folder(data_dir: Path | str, spec: InferenceModelSpec) -> Path:
    """Return the folder in which OpenG2G keeps the data of a spec."""
    return Path(data_dir) / _hash(spec)


def manifest_of(spec: InferenceModelSpec) -> bytes:
    """Return OpenG2G's manifest of a spec's folder."""
    if spec.itl_deadline_s is None:
        raise InputError(
            f"'{spec.model_label}' has no itl_deadline_s, which a spec of OpenG2G must have; add it"
        )
    fields = _fields(spec) | {"feasible_batch_sizes": list(spec.feasible)}
    manifest = {"schema_version": SCHEMA_VERSION, "spec_hash": _hash(spec), "spec": fields}
    return f"{json.dumps(manifest, indent=2, sort_keys=True)}\n".encode()


def _fields(spec: InferenceModelSpec) -> dict[str, Any]:
    given = {k: v for k, v in spec.model_dump(mode="json").items() if v is not None}
    return DEFAULTS | given


def _hash(spec: InferenceModelSpec) -> str:
    fields = _fields(spec)
    hashed = {name: fields[name] for name in _HASHED}
    hashed |= {name: sorted(v) for name, v in hashed.items() if isinstance(v, list)}
    # OpenG2G hashes json.dumps with its default separators.
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


class _LatencyFits(Record):
    per_batch: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], dict[str, Any]]


def traces_of(path: Path, content: bytes) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return batch size, time [s] and power [W] of a `trace.csv`."""
    table = sheet_of(path, content, "a trace").read(TRACE_COLUMNS, "a trace")
    batch, t_s = (numbers(table, name, Number(may_miss=False)) for name in TRACE_COLUMNS[:2])
    return batch, t_s, numbers(table, TRACE_COLUMNS[2], Number(may_miss=False, at_least=0))


def format_columns(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return columns as CSV with a header; numbers in full, so that they come back bit by bit."""
    buffer = BytesIO()
    buffer.write(f"{','.join(columns)}\n".encode())
    options = pa_csv.WriteOptions(include_header=False)
    pa_csv.write_csv(pa.table(dict(columns)), buffer, options)
    return buffer.getvalue()


def mixtures_of(path: Path, content: bytes) -> dict[int, ITLMixtureModel]:
    """Return the latency mixtures of an `itl_fit.json` by batch size."""
    per_batch = parse_json(content, str(path), _LatencyFits, LogFormatError).per_batch
    return {
        int(size): _model(ITLMixtureModel, parameters, f"{path}: per_batch.{size}")
        for size, parameters in per_batch.items()
    }


def fits_of(path: Path, content: bytes) -> dict[str, LogisticModel]:
    """Return the fits that a `logistic_fit.json` has, by our names."""
    data = parse_json(content, str(path), dict[str, Any], LogFormatError)
    return {
        ours: _model(LogisticModel, data[name], f"{path}: {name}")
        for name, ours in FITS.items()
        if isinstance(data.get(name), dict)
    }


def _model(kind: Any, parameters: dict[str, Any], where: str) -> Any:
    try:
        return kind.from_dict(parameters)
    except InputError as error:
        raise LogFormatError(f"{where}: {error}") from error
