"""`TrainingTrace`: synthetic power of a GPU in training, as a file, in the cache, as a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from diploee.benchmark.cache import Artifact, Stamp, find_artifact, load_artifact
from diploee.benchmark.cache_writing import save_artifact
from diploee.benchmark.compiled import artifact_folder
from diploee.benchmark.csv_columns import format_columns, parse_columns
from diploee.benchmark.steady_state import whole_ms
from diploee.benchmark.training_power import TrainingTraceParams, training_power_w
from diploee.errors import InputError, LogFormatError, shown
from diploee.files import whole_file
from diploee.profiles import PowerProfile, Provenance
from diploee.profiles.importers.resample import round_keeping_energy, usable_bandwidth_hz
from diploee.tables import Float64Array

KIND = "training_trace"
SCHEMA_VERSION = 1
FILE = "training_trace.csv"
COLUMNS = ("t_s", "power_W")
GPU_POWER = "GPUs; no CPU packages, memory, network, fans or power supply"


@dataclass(frozen=True, eq=False)
class TrainingTrace:
    """Power of one GPU in training.

    Parameters
    ----------
    dt_s : float
        Step [s], a whole number of milliseconds.
    power_w : numpy.ndarray, shape (n,), float64
        Power over each step [W].
    params : TrainingTraceParams or None
        What it was generated with; None for a trace read from elsewhere.
    """

    dt_s: float
    power_w: Float64Array
    params: TrainingTraceParams | None = None

    @property
    def t_s(self) -> Float64Array:
        """Start of every step [s], shape (n,)."""
        return np.asarray(np.arange(self.power_w.size) * self.dt_s, dtype=np.float64)

    @classmethod
    def generate(cls, params: TrainingTraceParams | None = None) -> Self:
        """Synthesise the trace of parameters; the same parameters give the same trace."""
        params = params or TrainingTraceParams()
        return cls(params.dt_s, training_power_w(params), params)

    def profile(
        self,
        n_nodes: int,
        gpus_per_node: int,
        *,
        profile_id: str | None = None,
        workload: str = "synthetic_training",
    ) -> PowerProfile:
        """Return the power of a training job on several nodes.

        ASSUMPTION: all GPUs follow the one trace at the same time, as OpenG2G scales it; the noise
        and the dips of a real job differ between GPUs, so swings are an upper bound.

        Parameters
        ----------
        n_nodes, gpus_per_node : int
            Nodes of the job, and GPUs of each, 1 or more.
        profile_id : str, optional
            ``<workload>-<n_nodes>n`` by default.
        workload : str
            Kind of work.

        Raises
        ------
        InputError
            If `gpus_per_node` is not positive, or (as `ProfileError`) `n_nodes`.
        """
        if gpus_per_node < 1:
            raise InputError(f"gpus_per_node must be 1 or more, found {gpus_per_node}")
        window_s = self.dt_s if self.params is None else max(self.params.smoothing_s, self.dt_s)
        synthesised = "Synthesised by diploee from the description of OpenG2G, not measured; "
        provenance = Provenance(
            kind="reference",
            source="OpenG2G, synthetic training trace (https://github.com/gpu2grid/openg2g)",
            licence="Apache-2.0 (description); this synthesis BSD-3-Clause",
            sampling_interval_s=self.dt_s,
            averaging_window_s=window_s,
            bandwidth_hz=usable_bandwidth_hz(self.dt_s, window_s),
            power_boundary=GPU_POWER,
            notes=("" if self.params is None else synthesised)
            + f"one GPU's trace times {n_nodes * gpus_per_node} GPUs in step.",
        )
        total_w = self.power_w * (n_nodes * gpus_per_node)
        return PowerProfile(
            profile_id=profile_id or f"{workload}-{n_nodes}n",
            workload=workload,
            n_nodes=n_nodes,
            dt_ms=whole_ms(self.dt_s),
            power_w=round_keeping_energy(total_w),
            provenance=provenance,
        )

    def write_csv(self, path: Path | str) -> None:
        """Write the trace as OpenG2G reads it, ``t_s,power_W`` of one GPU.

        Raises
        ------
        OutputError
            If the file can't be written.
        """
        with whole_file(Path(path)) as partial:
            partial.write_bytes(self._csv())

    @classmethod
    def read_csv(cls, path: Path | str) -> Self:
        """Read a trace ``t_s,power_W`` of one GPU, of OpenG2G or another.

        Raises
        ------
        LogFormatError
            If it can't be read, lacks a column or two rows, a power is negative, or the step is
            not an even, whole number of milliseconds.
        """
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise LogFormatError(
                f"{path}: can't be read ({error.strerror}); give a readable file"
            ) from error
        return cls._parse(path, content)

    def save(self, data_dir: Path | str) -> None:
        """Write the trace to ``<data_dir>/<hash of its parameters>/training_trace/``.

        Raises
        ------
        InputError
            If the trace has no parameters, or one of a newer schema version stands there.
        OutputError
            If it can't be written.
        """
        if self.params is None:
            raise InputError("a trace that was not generated has no place in a cache; write_csv it")
        save_artifact(_place(data_dir, self.params), _stamp(self.params), {FILE: self._csv()})

    @classmethod
    def load(cls, data_dir: Path | str, params: TrainingTraceParams | None = None) -> Self:
        """Read the trace of parameters, as `save` wrote it.

        Raises
        ------
        InputError
            If it is not there, not complete or made by a newer version.
        """
        params = params or TrainingTraceParams()
        return cls._of(load_artifact(_place(data_dir, params), _stamp(params)), params)

    @classmethod
    def ensure(cls, data_dir: Path | str, params: TrainingTraceParams | None = None) -> Self:
        """Read the trace of parameters; generate and save it first where it is not there.

        Other parameters have another folder; an older schema version or a damaged file is
        replaced.

        Raises
        ------
        InputError
            If it was made by a newer version.
        OutputError
            If it can't be written.
        """
        params = params or TrainingTraceParams()
        found = find_artifact(_place(data_dir, params), _stamp(params))
        if isinstance(found, Artifact):
            return cls._of(found, params)
        made = cls.generate(params)
        made.save(data_dir)
        return made

    def _csv(self) -> bytes:
        return format_columns(dict(zip(COLUMNS, (self.t_s, self.power_w), strict=True)))

    @classmethod
    def _of(cls, artifact: Artifact, params: TrainingTraceParams) -> Self:
        content = artifact.files[FILE]
        _, power_w = parse_columns(artifact.place / FILE, content, COLUMNS)
        return cls(params.dt_s, power_w, params)

    @classmethod
    def _parse(cls, path: Path, content: bytes) -> Self:
        t_s, power_w = parse_columns(path, content, COLUMNS)
        if t_s.size < 2:
            raise LogFormatError(f"{path}: {t_s.size} rows, expected two or more to tell the step")
        if (power_w < 0).any():
            row = int(np.argmax(power_w < 0))
            raise LogFormatError(
                f"{path}:{row + 2}: '{COLUMNS[1]}' is {power_w[row]:g} W "
                f"({int((power_w < 0).sum())} such rows), expected 0 or more"
            )
        dt_s = round((t_s[-1] - t_s[0]) / (t_s.size - 1), 6)
        uneven = np.abs(t_s - t_s[0] - dt_s * np.arange(t_s.size)) > 1e-3 * dt_s
        if uneven.any():
            row = int(np.argmax(uneven))
            raise LogFormatError(
                f"{path}:{row + 2}: '{COLUMNS[0]}' is {shown(float(t_s[row]))}, expected an even "
                f"step of {dt_s:g} s; resample the trace"
            )
        try:
            whole_ms(dt_s)
        except ValueError as error:
            raise LogFormatError(f"{path}: the step {error}; resample the trace") from error
        return cls(float(dt_s), power_w)


def _place(data_dir: Path | str, params: TrainingTraceParams) -> Path:
    return artifact_folder(Path(data_dir), params.cache_hash(), KIND)


def _stamp(params: TrainingTraceParams) -> Stamp:
    return Stamp(KIND, SCHEMA_VERSION, params.model_dump(mode="json"))
