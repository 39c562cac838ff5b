"""OpenG2G's own cache, ``data/specs/<hash>/``: traces, latency mixtures and logistic fits.

Each folder holds ``trace.csv`` (``batch_size,relative_time_s,power_total_W``), ``itl_fit.json``,
usually ``logistic_fit.json``, and ``_manifest.json`` with the spec, which OpenG2G writes last.

References
----------
.. [1] https://github.com/gpu2grid/openg2g
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from diploee.benchmark.csv_columns import parse_columns
from diploee.benchmark.itl_mixture import ITLMixtureModel
from diploee.benchmark.logistic import LogisticModel
from diploee.benchmark.runs import BenchmarkRun, BenchmarkRuns, PowerReadings
from diploee.benchmark.selection import Measured, select
from diploee.benchmark.sources.json_text import get, parse_object, read_bytes
from diploee.benchmark.spec import InferenceModelSpec
from diploee.errors import InputError, LogFormatError

MANIFEST = "_manifest.json"
FILES = ("trace.csv", "itl_fit.json", "logistic_fit.json")
TRACE_COLUMNS = ("batch_size", "relative_time_s", "power_total_W")
FITS = {"power": "power", "latency": "itl", "throughput": "throughput"}
"""Names in ``logistic_fit.json``, and ours. OpenG2G fits the mean latency, the other sources here
give the median."""


@dataclass(frozen=True)
class _Folder:
    """One spec folder: its path and its spec."""

    path: Path
    spec: InferenceModelSpec


class OpenG2GSource:
    """Reads spec folders of OpenG2G.

    Parameters
    ----------
    folder : pathlib.Path or str
        ``data/specs``, or one folder in it.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def specs(self) -> tuple[InferenceModelSpec, ...]:
        """Return the specs of all finished folders, to be taken over as they are.

        Raises
        ------
        InputError
            If there is none.
        """
        return tuple(folder.spec for folder in self._folders())

    def read(
        self,
        spec: InferenceModelSpec,
        *,
        traces: bool = True,  # noqa: ARG002  # everything lies in the same file
    ) -> BenchmarkRuns:
        """Read traces and fits of a spec.

        Raises
        ------
        LogFormatError
            If a file can't be read or is not OpenG2G's.
        InputError
            If there is no such model, task, GPU or batch size.
        """
        folder = self._folder(spec)
        content = _contents(folder.path)
        trace = folder.path / FILES[0]
        batch, t_s, power_w = parse_columns(trace, content[FILES[0]], TRACE_COLUMNS)
        if (power_w < 0).any():
            row = int(np.argmax(power_w < 0))
            raise LogFormatError(
                f"{trace}:{row + 2}: '{TRACE_COLUMNS[2]}' is {power_w[row]:g}, expected 0 or more"
            )
        mixtures = _mixtures(folder.path / FILES[1], content[FILES[1]])
        runs, n_dropped = [], 0
        for size in sorted(spec.batch_sizes):
            rows = batch == size
            if np.count_nonzero(rows) < 2 or size not in mixtures:
                lacking = FILES[0] if np.count_nonzero(rows) < 2 else FILES[1]
                raise LogFormatError(
                    f"{folder.path / lacking}: nothing of batch size {size}, which {MANIFEST} lists"
                )
            readings, dropped = PowerReadings.of_pairs(t_s[rows], power_w[rows])
            n_dropped += dropped
            runs.append(_run(size, readings, mixtures[size]))
        fits = {}
        if FILES[2] in content:
            fits = _fits(folder.path / FILES[2], content[FILES[2]])
        return BenchmarkRuns(
            source=f"OpenG2G spec {folder.path.name}",
            licence="unknown",
            sha256=_sha256(content),
            runs=tuple(runs),
            fits=fits,
            counts={"readings_at_a_repeated_stamp": n_dropped},
        )

    def sha256(self, spec: InferenceModelSpec) -> str:
        """Return the hash over the files of a spec's folder."""
        return _sha256(_contents(self._folder(spec).path))

    def _folders(self) -> list[_Folder]:
        manifests = sorted(self.folder.glob(f"*/{MANIFEST}"))
        if (self.folder / MANIFEST).is_file():
            manifests = [self.folder / MANIFEST]
        if not manifests:
            raise InputError(
                f"{self.folder}: no finished spec folder of OpenG2G (none holds {MANIFEST}); "
                "give its data/specs"
            )
        return [_Folder(path.parent, _spec(path)) for path in manifests]

    def _folder(self, spec: InferenceModelSpec) -> _Folder:
        """Return the folder of a spec, one that leaves the same sizes out of its fits first."""
        folders = self._folders()
        selected = select(
            (
                Measured(
                    folder.spec.model_id,
                    folder.spec.task,
                    folder.spec.gpu_model,
                    folder.spec.gpus_per_replica,
                    folder.spec.tensor_parallel,
                    size,
                    folder,
                )
                for folder in folders
                for size in folder.spec.batch_sizes
            ),
            spec,
            str(self.folder),
        )
        found = {one.data.path: one.data for one in selected}
        whole = [f for f in found.values() if set(spec.batch_sizes) <= set(f.spec.batch_sizes)]
        if not whole:
            raise InputError(
                f"{self.folder}: no single spec folder has all batch sizes of "
                f"'{spec.model_label}'; take them over with OpenG2GSource.specs"
            )
        return min(whole, key=lambda f: f.spec.fit_batch_sizes != spec.fit_batch_sizes)


def _spec(manifest: Path) -> InferenceModelSpec:
    fields = get(parse_object(manifest, read_bytes(manifest)), "spec", str(manifest))
    if not isinstance(fields, dict):
        raise LogFormatError(f"{manifest}: 'spec' must be a group of keys")
    known = {name: v for name, v in fields.items() if name in InferenceModelSpec.model_fields}
    try:
        return InferenceModelSpec.model_validate(known)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        place = ".".join(map(str, detail["loc"]))
        raise LogFormatError(f"{manifest}: 'spec' {place}: {detail['msg']}") from error


def _contents(folder: Path) -> dict[str, bytes]:
    required = {name: read_bytes(folder / name) for name in FILES[:2]}
    if (folder / FILES[2]).is_file():
        required[FILES[2]] = read_bytes(folder / FILES[2])
    return required


def _sha256(content: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(name.encode() + hashlib.sha256(data).digest())
    return digest.hexdigest()


def _mixtures(path: Path, content: bytes) -> dict[int, ITLMixtureModel]:
    per_batch = get(parse_object(path, content), "per_batch", str(path))
    found = {}
    for size, parameters in per_batch.items() if isinstance(per_batch, dict) else ():
        if not size.isdecimal() or not isinstance(parameters, dict):
            raise LogFormatError(f"{path}: per_batch.{size} must be the parameters of a batch size")
        found[int(size)] = _model(ITLMixtureModel, parameters, f"{path}: per_batch.{size}")
    return found


def _fits(path: Path, content: bytes) -> dict[str, LogisticModel]:
    data = parse_object(path, content)
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


def _run(size: int, readings: PowerReadings, mixture: ITLMixtureModel) -> BenchmarkRun:
    return BenchmarkRun(
        batch_size=size,
        median_itl_s=float(mixture.quantile(0.5)),
        power=(readings,),
        itl_fit=mixture,
    )
