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
        description="Longest time without a good reading that is bridged, in s.",
    ),
]


class Reading(Choices):
    """Options common to all importers of measured power."""

    n_nodes: Nodes | None = unset("Nodes of the job; what its files tell by default.")
    source: str = default("", "Where the measurement comes from.")
    licence: str = default("unknown", "Licence of the measurement.")
    from_s: float | None = unset("Start of what is kept, in s.")
    to_s: float | None = unset("End of what is kept, in s.")
    idle_w: float | None = unset(
        "Leave out ends at or below this power of one node [W]."
    )
    gpu: str | None = unset(
        "GPU whose driver gave the readings, such as A100, which says its meter; what "
        "the files say by default."
    )
    restore: bool = default(
        False,
        "Divide the meter's gain out up to 0.7 Hz: GPUs whose window is known alone.",
    )
    max_gap_s: MaxGap = 3_600.0
    max_lost: Share | None = unset(
        "Fraction of the energy and of the time of a device that repairs may lose, "
        "hold or take twice; 0.01 of the energy and 0.05 of the time by default."
    )


DEVICES = "Devices to take, by their names in the log; all by default."


class NewProfile(Reading):
    """Options common to importers of one job's logs as a new profile."""

    workload: str = Field(description="Workload, as scenarios name it.")
    profile_id: str | None = unset("Id of the profile; <workload>-<nodes>n by default.")

    def of_nodes(self, n_nodes: int) -> tuple[str, str, int]:
        """Return profile id, workload and number of nodes of the profile."""
        return self.profile_id or f"{self.workload}-{n_nodes}n", self.workload, n_nodes


@document_fields
class WattAMeterOptions(NewProfile):
    """Options of `import_wattameter`, the importer of WattAMeter logs."""

    devices: list[str] = default([], DEVICES)
    slurm_id: str | None = unset("Job to take from a folder that holds several.")
    step_ms: Step = default(PROFILE_STEP_MS, "Step of the profile in ms.")
    averaging_window_s: Window | None = unset(
        "Window that the driver averages over, in s; of an unknown GPU 1."
    )
    max_reading_w: Power = default(
        800.0, "Readings of a device above this are back-filled [W]."
    )
    counter_range_j: Annotated[float, Field(ge=1, le=MAX_POWER_W * S_PER_DAY)] = Field(
        default=65_532.610987,  # max_energy_range_uj of the measured EPYC nodes
        description="Energy at which the CPUs' counters wrap [J].",
    )


class _Averaged(NewProfile):
    """Options for facts that files may lack: constant power and averaging window."""

    add_w: Annotated[float, Field(ge=0, le=MAX_POWER_W)] = default(
        0.0, "Constant added per node for what the power lacks [W]."
    )
    averaging_window_s: Window | None = unset(
        "Window that the meter averages over, in s; 0 for none; else the GPU's."
    )


@document_fields
class NvidiaSmiOptions(_Averaged):
    """Options of `import_nvidia_smi`, the importer of nvidia-smi logs."""

    devices: list[str] = default([], DEVICES)
    n_gpus: Nodes | None = unset(
        "GPUs in each file, of all its machines; by their columns, else inferred by "
        "default."
    )
    step_ms: Step = default(PROFILE_STEP_MS, "Step of the profile in ms.")
    max_reading_w: Power = default(
        2_500.0, "Readings of a GPU above this are bridged as failed [W]."
    )


@document_fields
class PlainOptions(_Averaged):
    """Options of `import_plain`, the importer of power tables."""

    n_nodes: Nodes = Field(description="Nodes of the job.")
    power_boundary: Boundary | None = unset(
        "Boundary of the power: devices (GPUs and CPU packages), gpus or cpus alone, "
        "node_ac (at the AC input, supplies and fans included), node_dc; else unknown."
    )
    sampling_interval_s: Annotated[float, Field(ge=1e-6, le=S_PER_DAY)] | None = unset(
        "Interval of the original readings in s; the table's step by default."
    )
    bandwidth_hz: float | None = unset(
        "Highest frequency that the readings support [Hz]; else worked out."
    )
    time_column: str | None = unset("Column of the time; else by name.")
    power_column: list[str] = default(
        [], "Column of power; several are summed. Else by name."
    )
    device_column: list[str] = default(
        [],
        (
            "Column that tells apart devices that are summed; '' where a column found "
            "by its name (gpu, node, sensor) tells none."
        ),
    )
    devices: list[str] = default([], DEVICES)
    power_unit: Literal["W", "kW", "MW", "mW"] | None = unset(
        "Unit of the power; what the column's name tells by default."
    )
    step_ms: Step | None = unset("Step of the profile in ms; the readings' by default.")
    max_gap_s: MaxGap = 60.0


@document_fields
class MLPerfOptions(Reading):
    """Options of `import_mlperf_power`, the importer of MLPerf power logs."""

    side: Literal["auto", "ac", "dc", "all"] = default(
        "auto", "Side of the power supplies; auto takes AC where a run has both."
    )
    boundary: Side | None = unset(
        "Side of submissions whose folder does not tell it by its name."
    )
    gpu_tdp_w: Power | None = unset("TDP of a GPU, in W; that of its model by default.")
    max_gap_s: MaxGap = 60.0
