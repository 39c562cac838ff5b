"""Power profiles of offline (batch) inference, from files of measurements.

A profile is the power of each node of a job while it processes one batch.

References
----------
.. [1] Section 3.4 of arXiv:2604.07345
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from diploee.base.errors import InputError
from diploee.base.files.paths import shipped_folder
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_S
from diploee.importers.serving.service_curves import (
    CurveFile,
    curve_columns,
    read_curve_file,
    rows_where,
)
from diploee.importers.text.numbers_and_labels import fail_values
from diploee.loads.services.curves import OUTPUT_TOKENS_COLUMN
from diploee.profiles.profile import PUBLISHED_NODE, PowerProfile, Provenance
from diploee.scenario.job_streams import BatchInference, JobStream

MAX_SAMPLES = 1 << 16
"""Maximum samples of a batch's profile; batches of up to 65 s have steps of 1 ms."""

NOTES = (
    "Made by diploee from the mean and peak power of a batch, not measured. "
    "ASSUMPTION: the power starts at the peak and falls by a power law; each node has "
    "a phase of its own."
)


def load_batches(
    specs: Mapping[str, JobStream], folder: Path
) -> dict[tuple[str, str], PowerProfile]:
    """Compute power profiles of offline inference batches from their curve files.

    Parameters
    ----------
    specs : mapping of str to JobStream
        Streams of jobs by name.
    folder : pathlib.Path
        Base folder of relative file names.

    Returns
    -------
    dict of (str, str) to PowerProfile
        Power profile of a batch by stream and class.
    """
    result = {}
    for name, spec in specs.items():
        for index, job_class in enumerate(spec.job_classes()):
            if (batch := job_class.batch_inference) is not None:
                try:
                    profile = _batch_profile(
                        batch, job_class.workload, job_class.n_nodes, folder
                    )
                except InputError as error:
                    where = f"streams.{name}.classes.{index}.batch_inference"
                    raise InputError(f"{where}: {error}") from error
                result[name, job_class.name] = profile
    return result


def _batch_profile(
    spec: BatchInference, workload: str, n_nodes: int, folder: Path
) -> PowerProfile:
    file = read_curve_file(spec.curve, folder)
    elapsed_s, mean_w, peak_w, least_w = _measured_batch(spec, file)
    # Whole milliseconds, so that a job of whole batches has their energy to the last
    # joule.
    dt_ms = math.ceil(elapsed_s * MS_PER_S / MAX_SAMPLES)
    n_samples = max(round(elapsed_s * MS_PER_S / dt_ms), 1)
    course_w = _batch_power_w(n_samples, mean_w, peak_w, least_w)
    profile_id = f"~{spec.curve}-{spec.output_tokens}t-{spec.batch_size}b-{n_nodes}n"
    phase = named_rng(0, "batch_inference", profile_id).integers(0, n_samples, n_nodes)
    phase[0] = 0
    power_w = np.zeros(n_samples)
    for shift, count in zip(*np.unique(phase, return_counts=True), strict=True):
        power_w += count * np.roll(course_w, shift)
    shipped = file.path.is_relative_to(shipped_folder("profiles"))
    file_provenance = Provenance(
        "reference", spec.curve, "unknown", elapsed_s, elapsed_s, 0.0
    )
    provenance = replace(
        PUBLISHED_NODE if shipped else file_provenance,
        source_sha256=file.sha256,
        sampling_interval_s=elapsed_s,
        averaging_window_s=elapsed_s,
        bandwidth_hz=0.5 / elapsed_s,  # nothing is known within a batch
        notes=NOTES,
    )
    return PowerProfile(
        profile_id,
        workload,
        n_nodes,
        dt_ms,
        power_w.astype(np.float32),
        provenance,
        periodic=True,
    )


def _measured_batch(
    spec: BatchInference, file: CurveFile
) -> tuple[float, float, float, float]:
    """Return a batch's time [s], mean power, peak power, and lowest mean power [W]."""
    rows = rows_where(file, OUTPUT_TOKENS_COLUMN, spec.output_tokens)
    columns = ("elapsed_s", "mean_power_w", "peak_power_w")
    size, elapsed_s, mean_w, peak_w = curve_columns(rows, columns, against="batch_size")
    fail_values(rows.table, "peak_power_w", peak_w >= mean_w, "mean_power_w or more")
    if not size[0] <= spec.batch_size <= size[-1]:
        raise InputError(
            f"{file.path}: batch_size must be one of the measured {size[0]:g} to "
            f"{size[-1]:g}, found {spec.batch_size:,}; choose one of these, or give a "
            "curve that reaches it"
        )
    batch_size = spec.batch_size
    return (
        float(np.interp(batch_size, size, elapsed_s)),
        float(np.interp(batch_size, size, mean_w)),
        float(np.interp(batch_size, size, peak_w)),
        float(mean_w.min()),
    )


def _batch_power_w(
    n_samples: int, mean_w: float, peak_w: float, least_w: float
) -> Float64Array:
    """Compute the power of a batch over time [W], shape (n_samples,).

    ``P(u) = P_peak - (P_peak - P_floor) u^k``, where u is the elapsed fraction of the
    batch's time. Power is at its peak P_peak while the batch is full, and falls to
    P_floor as requests finish. The exponent follows from the mean power P_mean: ``k + 1
    = (P_peak - P_floor) / (P_peak - P_mean)``. ASSUMPTION: P_floor is the lowest mean
    power of all batch sizes, or less if k would be below 1.
    """
    if peak_w <= mean_w:
        return np.full(n_samples, mean_w)
    # p(u) = peak - (peak - floor) u^k for u from 0 to 1 has the mean
    # peak - (peak - floor)/(k + 1). ASSUMPTION: the floor is the mean of the smallest
    # batches, as a large batch ends with as few requests; lower where k would be
    # below 1.
    floor_w = max(min(least_w, 2 * mean_w - peak_w), 0.0)
    power = (peak_w - floor_w) / (peak_w - mean_w)  # k + 1
    # The mean over each sample: u^(k + 1) / (k + 1) is the integral of u^k.
    fallen = np.diff(np.linspace(0, 1, n_samples + 1) ** power) * n_samples
    course_w: Float64Array = peak_w - (peak_w - mean_w) * fallen
    return course_w
