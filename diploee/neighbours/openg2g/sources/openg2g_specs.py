"""OpenG2G's own cache, ``data/specs/<hash>/``: traces, latency mixtures and logistic fits.

Each folder holds ``trace.csv`` (``batch_size,relative_time_s,power_total_W``), ``itl_fit.json``,
usually ``logistic_fit.json``, and ``_manifest.json`` with the spec, which OpenG2G writes last.

References
----------
.. [1] https://github.com/gpu2grid/openg2g
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diploee.errors import InputError, LogFormatError
from diploee.neighbours.openg2g.cache import MANIFEST
from diploee.neighbours.openg2g.itl_mixture import ITLMixtureModel
from diploee.neighbours.openg2g.openg2g_folder import (
    FIT_FILE,
    ITL_FILE,
    TRACE_FILE,
    fits_of,
    mixtures_of,
    traces_of,
)
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns, PowerReadings
from diploee.neighbours.openg2g.selection import MATCHED, Measured, select
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import Record, checked, parse_json
from diploee.textio.source import read_bytes


class _Manifest(Record):
    spec: dict[str, Any]


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
        batch, t_s, power_w = traces_of(folder.path / TRACE_FILE, content[TRACE_FILE])
        mixtures = mixtures_of(folder.path / ITL_FILE, content[ITL_FILE])
        runs, n_dropped = [], 0
        for size in sorted(spec.batch_sizes or folder.spec.batch_sizes):
            rows = batch == size
            if np.count_nonzero(rows) < 2 or size not in mixtures:
                lacking = TRACE_FILE if np.count_nonzero(rows) < 2 else ITL_FILE
                raise LogFormatError(
                    f"{folder.path / lacking}: nothing of batch size {size}, which {MANIFEST} lists"
                )
            readings, dropped = PowerReadings.of_pairs(t_s[rows], power_w[rows])
            n_dropped += dropped
            runs.append(_run(size, readings, mixtures[size]))
        fits = {}
        if FIT_FILE in content:
            fits = fits_of(folder.path / FIT_FILE, content[FIT_FILE])
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
                    **{name: getattr(folder.spec, name) for name in MATCHED},
                    batch_size=size,
                    data=folder,
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
    fields = parse_json(read_bytes(manifest), str(manifest), _Manifest, LogFormatError).spec
    known = {name: v for name, v in fields.items() if name in InferenceModelSpec.model_fields}
    return checked(
        known,
        InferenceModelSpec,
        lambda place: f"{manifest}: {'.'.join(('spec', *map(str, place)))}",
        lambda problems: LogFormatError(problems[0]),
    )


def _contents(folder: Path) -> dict[str, bytes]:
    may_lack = [FIT_FILE] if os.path.lexists(folder / FIT_FILE) else []
    return {name: read_bytes(folder / name) for name in (TRACE_FILE, ITL_FILE, *may_lack)}


def _sha256(content: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(name.encode() + hashlib.sha256(data).digest())
    return digest.hexdigest()


def _run(size: int, readings: PowerReadings, mixture: ITLMixtureModel) -> BenchmarkRun:
    return BenchmarkRun(
        batch_size=size,
        median_itl_s=float(mixture.quantile(0.5)),
        power=(readings,),
        itl_fit=mixture,
    )
