"""OpenG2G's spec folders, ``data/specs/<hash>/``.

Names, manifests, files, and the source of them. `trace.csv`
(``batch_size,relative_time_s,power_total_W``), `itl_fit.json` and usually
`logistic_fit.json` are the files of the cache here, too; `_manifest.json` has the spec,
and OpenG2G writes it last.

References
----------
.. [1] https://github.com/gpu2grid/openg2g, 0.2.0: ``datacenter/config.py`` (the hash of a spec),
   ``datacenter/workloads/inference.py`` (the manifest)
"""  # noqa: E501

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
from pydantic import Field

from diploee.base.errors import InputError, LogFormatError
from diploee.base.plain_data import Record, checked, parse_json
from diploee.base.tables import Float64Array
from diploee.importers.text.source import read_bytes
from diploee.importers.text.tables import sheet_of
from diploee.importers.text.values import Number, numbers
from diploee.integrations.openg2g.itl_mixture import ITLMixtureModel
from diploee.integrations.openg2g.logistic import FittedModel, LogisticModel
from diploee.integrations.openg2g.measurements import (
    MATCHED,
    BenchmarkRun,
    BenchmarkSource,
    Measurement,
    PowerReadings,
    select,
)
from diploee.integrations.openg2g.spec import HASH_DIGITS, InferenceModelSpec

MANIFEST = "_manifest.json"
TRACE_FILE, ITL_FILE, FIT_FILE = "trace.csv", "itl_fit.json", "logistic_fit.json"
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
F = TypeVar("F", bound=FittedModel)
FITS = {"power": "power", "latency": "itl", "throughput": "throughput"}
"""Names in ``logistic_fit.json``, and ours. OpenG2G fits the mean latency, the sources
here give the median."""

DEFAULTS = {"precision": "bfloat16", "tensor_parallel": 1, "expert_parallel": 1}
"""OpenG2G's defaults for fields that a spec leaves out."""

_HASHED = (
    "model_id",
    "gpu_model",
    "task",
    "precision",
    "gpus_per_replica",
    "tensor_parallel",
    "expert_parallel",
    "batch_sizes",
    "fit_exclude_batch_sizes",
)


def openg2g_folder(data_dir: Path | str, spec: InferenceModelSpec) -> Path:
    """Return the folder in which OpenG2G keeps the data of a spec."""
    return Path(data_dir) / _hash(spec)


def _fields(spec: InferenceModelSpec) -> dict[str, Any]:
    given = {k: v for k, v in spec.model_dump(mode="json").items() if v is not None}
    return DEFAULTS | given


def _hash(spec: InferenceModelSpec) -> str:
    fields = _fields(spec)
    hashed = {name: fields[name] for name in _HASHED}
    hashed |= {name: sorted(v) for name, v in hashed.items() if isinstance(v, list)}
    # OpenG2G hashes json.dumps with its default separators.
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[
        :HASH_DIGITS
    ]


class _SourceManifest(Record):
    spec: dict[str, Any]


class _LatencyFits(Record):
    per_batch: dict[Annotated[str, Field(pattern=r"^[0-9]{1,9}$")], dict[str, Any]]


def traces_of(
    path: Path, content: bytes
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return batch size, time [s] and power [W] of a `trace.csv`."""
    table = sheet_of(path, content, "a trace").read(TRACE_COLUMNS, "a trace")
    batch, t_s = (
        numbers(table, name, Number(may_miss=False)) for name in TRACE_COLUMNS[:2]
    )
    return (
        batch,
        t_s,
        numbers(table, TRACE_COLUMNS[2], Number(may_miss=False, at_least=0)),
    )


def format_columns(columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return columns as CSV with a header.

    Numbers in full, so that they come back bit by bit.
    """
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


def _model(kind: type[F], parameters: dict[str, Any], where: str) -> F:
    try:
        return kind.from_dict(parameters)
    except InputError as error:
        raise LogFormatError(f"{where}: {error}") from error


@dataclass(frozen=True, eq=False)
class _Folder:
    """One finished spec folder; its files are read once."""

    path: Path
    spec: InferenceModelSpec

    @cached_property
    def content(self) -> dict[str, bytes]:
        """Content of its files by name; the logistic fits may be absent."""
        may_lack = [FIT_FILE] if os.path.lexists(self.path / FIT_FILE) else []
        return {
            name: read_bytes(self.path / name)
            for name in (TRACE_FILE, ITL_FILE, *may_lack)
        }

    @cached_property
    def traces(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Batch size, time [s] and power [W]."""
        return traces_of(self.path / TRACE_FILE, self.content[TRACE_FILE])

    @cached_property
    def mixtures(self) -> dict[int, ITLMixtureModel]:
        """Latency mixtures by batch size."""
        return mixtures_of(self.path / ITL_FILE, self.content[ITL_FILE])


class OpenG2GSource(BenchmarkSource):
    """Reads spec folders of OpenG2G.

    Parameters
    ----------
    folder : pathlib.Path or str
        ``data/specs``, or one folder in it.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def specs(self) -> tuple[InferenceModelSpec, ...]:
        """Return the specs of all finished folders, to be taken over as they are."""
        return tuple(folder.spec for folder in self._folders())

    def _title(self, selected: Sequence[Measurement]) -> str:
        return f"OpenG2G spec {selected[0].data.path.name}"

    def _selected(self, spec: InferenceModelSpec) -> list[Measurement]:
        """Return fits of one folder, without repeated sizes in the first."""
        measured = (
            Measurement(
                {name: getattr(folder.spec, name) for name in MATCHED}, size, folder
            )
            for folder in self._folders()
            for size in folder.spec.batch_sizes
        )
        found = select(measured, spec, str(self.folder))
        whole = [
            one.data
            for one in found
            if set(spec.batch_sizes) <= set(one.data.spec.batch_sizes)
        ]
        if not whole:
            raise InputError(
                f"{self.folder}: no single spec folder has all batch sizes of "
                f"'{spec.model_label}'; take them over with OpenG2GSource.specs"
            )
        best = min(whole, key=lambda f: f.spec.fit_batch_sizes != spec.fit_batch_sizes)
        return [one for one in found if one.data is best]

    def _hash(self, selected: Sequence[Measurement]) -> str:
        digest = hashlib.sha256()
        for name, data in selected[0].data.content.items():
            digest.update(name.encode() + hashlib.sha256(data).digest())
        return digest.hexdigest()

    def _run(
        self, one: Measurement, _: InferenceModelSpec, __: bool, counts: Counter[str]
    ) -> BenchmarkRun:
        folder, size = one.data, one.batch_size
        batch, t_s, power_w = folder.traces
        rows = batch == size
        if np.count_nonzero(rows) < 2 or size not in folder.mixtures:
            lacking = TRACE_FILE if np.count_nonzero(rows) < 2 else ITL_FILE
            raise LogFormatError(
                f"{folder.path / lacking}: nothing of batch size {size}, which "
                f"{MANIFEST} lists"
            )
        readings, n_dropped = PowerReadings.of_pairs(t_s[rows], power_w[rows])
        counts["readings_at_a_repeated_stamp"] += n_dropped
        mixture = folder.mixtures[size]
        median_s = float(mixture.quantile(0.5))
        return BenchmarkRun(
            size, median_itl_s=median_s, power=(readings,), itl_fit=mixture
        )

    def _fits(self, selected: Sequence[Measurement]) -> dict[str, LogisticModel]:
        folder = selected[0].data
        return fits_of(folder.path / FIT_FILE, folder.content.get(FIT_FILE, b"{}"))

    def _folders(self) -> list[_Folder]:
        manifests = sorted(self.folder.glob(f"*/{MANIFEST}"))
        if (self.folder / MANIFEST).is_file():
            manifests = [self.folder / MANIFEST]
        if not manifests:
            raise InputError(
                f"{self.folder}: no finished spec folder of OpenG2G (none holds "
                f"{MANIFEST}); give its data/specs"
            )
        return [_Folder(path.parent, _spec(path)) for path in manifests]


def _spec(manifest: Path) -> InferenceModelSpec:
    fields = parse_json(
        read_bytes(manifest), str(manifest), _SourceManifest, LogFormatError
    ).spec
    known = {
        name: v for name, v in fields.items() if name in InferenceModelSpec.model_fields
    }
    return checked(
        known,
        InferenceModelSpec,
        lambda place: f"{manifest}: {'.'.join(('spec', *map(str, place)))}",
        lambda problems: LogFormatError(problems[0]),
    )
