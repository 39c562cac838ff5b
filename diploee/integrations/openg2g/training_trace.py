"""`TrainingTrace`: synthetic GPU power of training, as in OpenG2G.

The trace is built from plateaus, noise, moving average, dips, and warm-up ramp, in this
order (OpenG2G 0.2, `TrainingTraceParams`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from diploee.base.errors import Brief, LogFormatError
from diploee.base.files import whole_file
from diploee.base.model import (
    MAX_DEVICES,
    MAX_NODES,
    MAX_POWER_W,
    MAX_SEED,
    Model,
    default,
    document_fields,
)
from diploee.base.rng import named_rng
from diploee.base.tables import BoolArray, Float64Array
from diploee.base.units import whole_ms
from diploee.importers.text.delimited_tables import read_header_table
from diploee.importers.text.numbers_and_labels import Number, fail_values, numbers
from diploee.integrations.openg2g.folder import format_columns
from diploee.integrations.openg2g.inference_model_spec import StepS
from diploee.profiles.meter_response import resolvable_range
from diploee.profiles.profile import PowerProfile, Provenance, check_argument
from diploee.profiles.resample import round_keeping_energy

COLUMNS = ("t_s", "power_W")
GPU_POWER = "GPUs; no CPU packages, memory, network, fans or power supply"
MAX_SAMPLES = 100_000_000

Positive = Annotated[float, Field(gt=0, le=1e9)]
NonNegative = Annotated[float, Field(ge=0, le=MAX_POWER_W)]


def _rising(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError(f"must be [least, greatest], found [{ends[0]:g}, {ends[1]:g}]")
    return ends


Range = Annotated[tuple[NonNegative, NonNegative], AfterValidator(_rising)]


@document_fields
class TrainingTraceParams(Model):
    """Parameters of the synthetic power trace of one GPU, with OpenG2G's defaults.

    Raises
    ------
    pydantic.ValidationError
        If a parameter is unknown, out of range, or inconsistent with another.
    """

    duration_s: Positive = default(1000.0, "Length of the trace [s].")
    dt_s: StepS = default(0.1, "Time step [s], a whole number of milliseconds.")
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = default(
        2, "Seed of all random numbers."
    )
    high_power_w: NonNegative = default(225.0, "Power of high plateaus [W].")
    low_power_w: NonNegative = default(
        175.0, "Power of low plateaus [W]; not above the high."
    )
    high_noise_w: NonNegative = default(
        50.0, "Standard deviation of the noise in high plateaus, before smoothing [W]."
    )
    low_noise_w: NonNegative = default(
        50.0, "Standard deviation of the noise in low plateaus, before smoothing [W]."
    )
    high_plateau_s: Range = default(
        (35.0, 40.0), "Minimum and maximum length of high plateaus [s]."
    )
    low_plateau_s: Range = default(
        (10.0, 15.0), "Minimum and maximum length of low plateaus [s]."
    )
    dips_per_s: NonNegative = default(0.01, "Mean number of dips per second.")
    dip_depth_w: Range = default(
        (120.0, 125.0), "Minimum and maximum depth of a dip [W]."
    )
    dip_duration_s: Range = default(
        (0.06, 0.14), "Minimum and maximum length of a dip [s], rounded to whole steps."
    )
    smoothing_s: NonNegative = default(
        0.3, "Window of the moving average [s]; 0 for none."
    )
    ramp_s: NonNegative = default(
        18.0, "Time from ramp_from_w to high_power_w [s]; 0 for none."
    )
    ramp_from_w: NonNegative = default(50.0, "Power at the start [W].")

    @model_validator(mode="after")
    def _parts_fit(self) -> TrainingTraceParams:
        if self.low_power_w > self.high_power_w:
            raise ValueError(
                f"low_power_w is {self.low_power_w:g}, expected at most high_power_w, "
                f"{self.high_power_w:g}"
            )
        shortest_s = self.high_plateau_s[0] + self.low_plateau_s[0]
        if shortest_s < self.dt_s:
            raise ValueError(
                f"a high and a low plateau may last {shortest_s:g} s together, "
                f"expected at least one step of {self.dt_s:g} s"
            )
        if not 1 <= self.n_samples <= MAX_SAMPLES:
            raise ValueError(
                f"{self.duration_s:g} s in steps of {self.dt_s:g} s are "
                f"{self.n_samples} samples, expected 1 to {MAX_SAMPLES:,}"
            )
        return self

    @property
    def n_samples(self) -> int:
        """Number of samples of the trace."""
        return round(self.duration_s / self.dt_s)


@dataclass(frozen=True, eq=False)
class TrainingTrace(Brief):
    """Power of one GPU in training over time, synthetic or read from a file."""

    dt_s: float  # step [s], a whole number of milliseconds
    power_w: Float64Array  # power over each step [W]
    params: TrainingTraceParams | None = None  # None for a trace read from elsewhere

    @property
    def t_s(self) -> Float64Array:
        """Start of every step [s], shape (n,)."""
        return np.asarray(np.arange(self.power_w.size) * self.dt_s, dtype=np.float64)

    @classmethod
    def generate(cls, params: TrainingTraceParams | None = None) -> Self:
        """Synthesise the trace of parameters, always the same for the same seed."""
        params = params or TrainingTraceParams()
        return cls(params.dt_s, _training_power_w(params), params)

    def profile(
        self,
        n_nodes: int,
        gpus_per_node: int,
        *,
        profile_id: str | None = None,
        workload: str = "synthetic_training",
    ) -> PowerProfile:
        """Return the profile of a training job on several nodes.

        ASSUMPTION: all GPUs follow the same trace at the same time, as in OpenG2G.
        Noise and dips of a real job differ between GPUs, so the power swings are an
        upper bound.

        The default id is ``<workload>-<n_nodes>n``.
        """
        check_argument("n_nodes", n_nodes, 1, MAX_NODES)
        check_argument("gpus_per_node", gpus_per_node, 1, MAX_DEVICES)
        window_s = (
            self.dt_s
            if self.params is None
            else max(self.params.smoothing_s, self.dt_s)
        )
        synthesised = (
            "Synthesised by diploee from the description of OpenG2G, not measured; "
        )
        provenance = Provenance(
            kind="reference",
            source=(
                "OpenG2G, synthetic training trace "
                "(https://github.com/gpu2grid/openg2g)"
            ),
            licence="Apache-2.0 (description); this synthesis BSD-3-Clause",
            sampling_interval_s=self.dt_s,
            averaging_window_s=window_s,
            bandwidth_hz=resolvable_range(window_s, 0.0).flagged_hz,
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
        """Write the trace of one GPU in OpenG2G's format, ``t_s,power_W``."""
        columns = dict(zip(COLUMNS, (self.t_s, self.power_w), strict=True))
        with whole_file(path, force) as partial:
            partial.write_bytes(format_columns(columns))

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a trace ``t_s,power_W`` of one GPU, of OpenG2G or another source.

        `LogFormatError` if the file can't be read, has a column missing or fewer than
        two rows, has negative power, or has a step that is uneven or not a whole number
        of milliseconds.
        """
        what = f"a table of '{','.join(COLUMNS)}'"
        table = read_header_table(Path(path), what).read(COLUMNS, what)
        t_s = numbers(table, COLUMNS[0], Number(may_be_missing=False))
        power_w = numbers(table, COLUMNS[1], Number(may_be_missing=False, at_least=0))
        if t_s.size < 2:
            raise LogFormatError(
                f"{path}: {t_s.size} rows, expected two or more, which give the step"
            )
        dt_s = round((t_s[-1] - t_s[0]) / (t_s.size - 1), 6)
        even = np.abs(t_s - t_s[0] - dt_s * np.arange(t_s.size)) <= 1e-3 * abs(dt_s)
        fail_values(table, COLUMNS[0], even, f"an even step of {dt_s:g} s")
        try:
            whole_ms(dt_s)
        except ValueError as error:
            raise LogFormatError(
                f"{path}: the step {error}; resample the trace"
            ) from error
        return cls(float(dt_s), power_w)

    @classmethod
    def ensure(
        cls, path: Path | str, params: TrainingTraceParams | None = None
    ) -> Self:
        """Read the trace of a file, and first generate and save a missing file."""
        if not Path(path).exists():
            cls.generate(params).save(path)
        return cls.load(path)


def _training_power_w(params: TrainingTraceParams) -> Float64Array:
    """Synthesise the power of one GPU over each step [W], shape (n,)."""
    rng = named_rng(params.seed, "benchmark", "training_trace")
    n = params.n_samples
    is_high = _plateaus(params, rng)
    power_w = np.where(is_high, params.high_power_w, params.low_power_w)
    power_w += np.where(
        is_high, params.high_noise_w, params.low_noise_w
    ) * rng.standard_normal(n)
    power_w = _moving_average(power_w, max(1, round(params.smoothing_s / params.dt_s)))
    power_w -= _dips_w(params, rng)
    n_ramp = min(n, round(params.ramp_s / params.dt_s))
    ramp_w = np.linspace(params.ramp_from_w, params.high_power_w, n_ramp)
    power_w[:n_ramp] = np.minimum(power_w[:n_ramp], ramp_w)
    return np.maximum(power_w, 0.0)


def _plateaus(params: TrainingTraceParams, rng: np.random.Generator) -> BoolArray:
    """Return the mask of samples in high plateaus; high and low ones alternate."""
    shortest_s = params.high_plateau_s[0] + params.low_plateau_s[0]
    n_pairs = int(params.duration_s / shortest_s) + 2
    low, high = np.array([params.high_plateau_s, params.low_plateau_s]).T
    lengths_s = rng.uniform(low, high, (n_pairs, 2)).ravel()
    edges = np.rint(np.cumsum(lengths_s) / params.dt_s)
    plateau = np.searchsorted(edges, np.arange(params.n_samples), side="right")
    return np.asarray(plateau % 2 == 0)


def _moving_average(power_w: Float64Array, width: int) -> Float64Array:
    """Return the moving average of power over `width` samples, or fewer at ends [W]."""
    kernel = np.ones(width)
    sums = np.convolve(power_w, kernel, mode="full")
    counts = np.convolve(np.ones_like(power_w), kernel, mode="full")
    begin = (width - 1) // 2
    return np.asarray((sums / counts)[begin : begin + power_w.size], dtype=np.float64)


def _dips_w(params: TrainingTraceParams, rng: np.random.Generator) -> Float64Array:
    """Return the power reduction by dips at each sample [W]."""
    n_dips = int(rng.poisson(params.dips_per_s * params.duration_s))
    begin = rng.integers(0, params.n_samples, n_dips)
    length = np.rint(rng.uniform(*params.dip_duration_s, n_dips) / params.dt_s).astype(
        np.int64
    )
    depth_w = rng.uniform(*params.dip_depth_w, n_dips)
    steps = np.zeros(params.n_samples + 1)
    np.add.at(steps, begin, depth_w)
    np.add.at(steps, np.minimum(begin + length, params.n_samples), -depth_w)
    lowered: Float64Array = np.cumsum(steps)[:-1]
    return np.maximum(lowered, 0.0)  # sums of opposite steps may leave a rounding
