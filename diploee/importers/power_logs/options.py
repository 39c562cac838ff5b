"""Options of the importers of measured power, for Python and the command line."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from diploee.base.model import (
    MAX_NODES,
    MAX_POWER_W,
    Choices,
    Share,
    default,
    document_fields,
    unset,
)
from diploee.base.units import MS_PER_DAY, PROFILE_STEP_MS, S_PER_DAY
from diploee.profiles.profile import Boundary

Side = Literal["ac", "dc"]
Nodes = Annotated[int, Field(ge=1, le=MAX_NODES)]
Step = Annotated[int, Field(ge=1, le=MS_PER_DAY)]
Power = Annotated[float, Field(ge=1, le=MAX_POWER_W)]
Window = Annotated[float, Field(ge=0, le=S_PER_DAY)]
MaxGap = Annotated[
    float,
    Field(
        ge=0,
        le=366 * S_PER_DAY,
        description="Maximum time without a valid reading that is bridged, in s.",
    ),
]


class ImportOptions(Choices):
    """Options common to all importers of measured power."""

    n_nodes: Nodes | None = unset(
        "Nodes of the job; by default inferred from its files."
    )
    source: str = default("", "Source of the measurement.")
    licence: str = default("unknown", "Licence of the measurement.")
    from_s: float | None = unset("Start of the section to keep, in s.")
    to_s: float | None = unset("End of the section to keep, in s.")
    idle_w: float | None = unset(
        "Power of one node at or below which both ends are cut off [W]."
    )
    gpu: str | None = unset(
        "GPU model of the readings, such as A100, which determines the meter; by "
        "default from the files."
    )
    restore: bool = default(
        False,
        "Correct the meter's gain up to 0.7 Hz, only for GPUs with a known averaging "
        "window.",
    )
    max_gap_s: MaxGap = 3_600.0
    max_lost: Share | None = unset(
        "Maximum fraction of a device's energy and time that repairs may affect; 0.01 "
        "of the energy and 0.05 of the time by default."
    )


DEVICES = "Devices to take, by their names in the log; all by default."


class NewProfileOptions(ImportOptions):
    """Options common to importers of one job's logs as a new profile."""

    workload: str = Field(description="Name of the workload in scenarios.")
    profile_id: str | None = unset("Id of the profile; <workload>-<nodes>n by default.")

    def profile_identity(self, n_nodes: int) -> tuple[str, str, int]:
        """Return profile id, workload and number of nodes of the profile."""
        return self.profile_id or f"{self.workload}-{n_nodes}n", self.workload, n_nodes


@document_fields
class WattAMeterOptions(NewProfileOptions):
    """Options of `import_wattameter`, the importer of WattAMeter logs."""

    devices: list[str] = default([], DEVICES)
    slurm_id: str | None = unset("Job to import from a folder with several jobs.")
    step_ms: Step = default(PROFILE_STEP_MS, "Time step of the profile, in ms.")
    averaging_window_s: Window | None = unset(
        "Averaging window of the driver, in s; 1 for an unknown GPU."
    )
    max_reading_w: Power = default(
        800.0,
        "Power of a device above which readings are replaced by the next valid "
        "one [W].",
    )
    counter_range_j: Annotated[float, Field(ge=1, le=MAX_POWER_W * S_PER_DAY)] = Field(
        default=65_532.610987,  # max_energy_range_uj of the measured EPYC nodes
        description="Energy at which the counters of the CPUs wrap around [J].",
    )


class _AveragedOptions(NewProfileOptions):
    """Options for facts that files may lack: power to add, and averaging window."""

    add_w: Annotated[float, Field(ge=0, le=MAX_POWER_W)] = default(
        0.0, "Constant power per node added for unmeasured components [W]."
    )
    averaging_window_s: Window | None = unset(
        "Averaging window of the meter, in s; 0 for none; by default that of the GPU."
    )


@document_fields
class NvidiaSmiOptions(_AveragedOptions):
    """Options of `import_nvidia_smi`, the importer of nvidia-smi logs."""

    devices: list[str] = default([], DEVICES)
    n_gpus: Nodes | None = unset(
        "Number of GPUs in each file, over all its machines; by default from their "
        "columns, or inferred."
    )
    step_ms: Step = default(PROFILE_STEP_MS, "Time step of the profile, in ms.")
    max_reading_w: Power = default(
        2_500.0,
        "Power of a GPU above which readings are treated as failed and bridged [W].",
    )


@document_fields
class PlainOptions(_AveragedOptions):
    """Options of `import_plain`, the importer of power tables."""

    n_nodes: Nodes = Field(description="Nodes of the job.")
    power_boundary: Boundary | None = unset(
        "Boundary of the power: devices (GPUs and CPU packages), gpus or cpus only, "
        "node_ac (AC input, with power supplies and fans), node_dc; unknown by default."
    )
    sampling_interval_s: Annotated[float, Field(ge=1e-6, le=S_PER_DAY)] | None = unset(
        "Interval of the original readings, in s; by default the table's step."
    )
    bandwidth_hz: float | None = unset(
        "Highest frequency that the readings resolve [Hz]; by default estimated."
    )
    time_column: str | None = unset("Column of the time; by default found by name.")
    power_column: list[str] = default(
        [], "Column of power; several are summed; by default found by name."
    )
    device_column: list[str] = default(
        [],
        (
            "Column that identifies devices, whose power is summed; by default found "
            "by name (gpu, node, sensor); '' for none."
        ),
    )
    devices: list[str] = default([], DEVICES)
    power_unit: Literal["W", "kW", "MW", "mW"] | None = unset(
        "Unit of the power; by default from the column's name."
    )
    step_ms: Step | None = unset(
        "Time step of the profile, in ms; by default that of the readings."
    )
    max_gap_s: MaxGap = 60.0


@document_fields
class MLPerfOptions(ImportOptions):
    """Options of `import_mlperf_power`, the importer of MLPerf power logs."""

    side: Literal["auto", "ac", "dc", "all"] = default(
        "auto", "Side of the power supplies; auto takes AC if a run has both."
    )
    boundary: Side | None = unset(
        "Side for submissions whose folder name does not contain it."
    )
    gpu_tdp_w: Power | None = unset("TDP of a GPU [W]; by default that of its model.")
    max_gap_s: MaxGap = 60.0
