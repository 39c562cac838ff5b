"""`TrainingTrace`: synthetic power of a GPU in training, as a file, as a profile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from diploee.errors import InputError, LogFormatError
from diploee.files import whole_file
from diploee.neighbours.openg2g.openg2g_folder import format_columns
from diploee.neighbours.openg2g.training_power import TrainingTraceParams, training_power_w
from diploee.profiles import PowerProfile, Provenance
from diploee.profiles.profile import check_argument
from diploee.profiles.resample import round_keeping_energy, usable_bandwidth_hz
from diploee.scenario.loading import MAX_DEVICES, MAX_NODES
from diploee.tables import Float64Array
from diploee.textio.sheets import read_sheet
from diploee.textio.source import read_bytes
from diploee.textio.values import Number, fail_values, numbers
from diploee.units import whole_ms

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
        ProfileError
            If `n_nodes` or `gpus_per_node` is out of range.
        """
        check_argument("n_nodes", n_nodes, 1, MAX_NODES)
        check_argument("gpus_per_node", gpus_per_node, 1, MAX_DEVICES)
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
            gpus_per_node=gpus_per_node,
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

    def save(self, path: Path | str, force: bool = False) -> None:
        """Write the trace as OpenG2G reads it, ``t_s,power_W`` of one GPU.

        Parameters
        ----------
        path : path
            The file.
        force : bool
            Replace a file that is there.
        """
        with whole_file(path, force) as partial:
            partial.write_bytes(self._csv())

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a trace ``t_s,power_W`` of one GPU, of OpenG2G or another.

        Raises
        ------
        LogFormatError
            If it can't be read, lacks a column or two rows, a power is negative, or the step is
            not an even, whole number of milliseconds.
        """
        what = f"a table of '{','.join(COLUMNS)}'"
        table = read_sheet(Path(path), what).read(COLUMNS, what)
        t_s = numbers(table, COLUMNS[0], Number(may_miss=False))
        power_w = numbers(table, COLUMNS[1], Number(may_miss=False, at_least=0))
        if t_s.size < 2:
            raise LogFormatError(f"{path}: {t_s.size} rows, expected two or more to tell the step")
        dt_s = round((t_s[-1] - t_s[0]) / (t_s.size - 1), 6)
        even = np.abs(t_s - t_s[0] - dt_s * np.arange(t_s.size)) <= 1e-3 * abs(dt_s)
        fail_values(table, COLUMNS[0], even, f"an even step of {dt_s:g} s")
        try:
            whole_ms(dt_s)
        except ValueError as error:
            raise LogFormatError(f"{path}: the step {error}; resample the trace") from error
        return cls(float(dt_s), power_w)

    @classmethod
    def ensure(cls, path: Path | str, params: TrainingTraceParams | None = None) -> Self:
        """Read the trace of a file; generate and save it first where there is none.

        Parameters
        ----------
        path : path
            The file, as OpenG2G keeps it; one that is there is compared with the parameters where
            they are given.
        params : TrainingTraceParams, optional
            The defaults if absent.

        Raises
        ------
        InputError
            If the file is not that of the given parameters.
        OutputError
            If it can't be written.
        """
        path = Path(path)
        if path.exists() and params is None:
            return cls.load(path)
        made = cls.generate(params)
        if not path.exists():
            made.save(path)
        elif read_bytes(path) != made._csv():
            raise InputError(
                f"{path}: is not the trace of the given parameters; remove it to have it made, or "
                "leave the parameters out to read it as it is"
            )
        return made

    def _csv(self) -> bytes:
        return format_columns(dict(zip(COLUMNS, (self.t_s, self.power_w), strict=True)))
