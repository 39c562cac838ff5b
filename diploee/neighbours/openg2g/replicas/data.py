"""The measurements of served models that replicas replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diploee.errors import InputError, did_you_mean, one_line, one_of
from diploee.files.places import shipped_folder
from diploee.neighbours.openg2g import (
    InferenceData,
    InferenceDataParams,
    LogisticModelStore,
    ServingFits,
)
from diploee.neighbours.openg2g.model_data import ModelData
from diploee.neighbours.openg2g.replicas.base import ModelSetting
from diploee.neighbours.openg2g.sources import OpenG2GSource
from diploee.scenario.replica_streams import ReplicaModel, ReplicaStream


@dataclass(frozen=True, eq=False)
class ReplicaData:
    """Data of a served model."""

    measured: ModelData  # templates of a replica's power and latency mixtures by batch size
    setting: ModelSetting  # feasible batch sizes, deadline and fits, as the scenario has them
    # Whether they are the shipped ones, which are synthesised about published facts
    shipped: bool = False

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one replica."""
        return self.measured.spec.gpus_per_replica


Datasets = Mapping[tuple[str, str], ReplicaData]
"""By the names of stream and model."""


def load_replica_data(
    specs: Mapping[str, ReplicaStream], folder: Path
) -> dict[tuple[str, str], ReplicaData]:
    """Read the data of all models of all streams; names of data are relative to a folder.

    Data that are missing, not usable or without the batch sizes of the scenario are an
    `InputError`.
    """
    found = {}
    for stream, spec in specs.items():
        for name, model in spec.models.items():
            where = f"replica_streams.{stream}.models.{name}"
            try:
                found[stream, name] = _load(model, spec.step_s, folder)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
    return found


def find_data(name: str, folder: Path) -> Path:
    """Return the folder of data given by shipped name or by path relative to a folder."""
    if (folder / name).is_dir():
        return folder / name
    shipped = {path.name: path for path in _shipped().glob("*") if path.is_dir()}
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"data: no folder '{one_line(name)}' beside the scenario and no shipped data of that name "
        f"(shipped: {one_of(shipped)}){did_you_mean(name, shipped)}"
    )


def _shipped() -> Path:
    return shipped_folder("profiles") / "serving"


def _load(model: ReplicaModel, step_s: float, folder: Path) -> ReplicaData:
    place = find_data(model.data, folder)
    source = OpenG2GSource(place)
    specs = source.specs()
    if len(specs) > 1:
        labels = one_of(spec.model_label for spec in specs)
        raise InputError(f"data: {model.data} holds several models ({labels}); name one's folder")
    (spec,) = specs
    data = InferenceData.generate(specs, source, InferenceDataParams(dt_s=step_s))
    fits: ServingFits = LogisticModelStore.generate(specs, source)[spec.model_label]
    feasible = tuple(sorted(model.feasible_batch_sizes or spec.feasible))
    _check_sizes("feasible_batch_sizes", feasible, data[spec.model_label].power_w, "the data")
    _check_sizes("batch_size", (model.batch_size,), feasible, "the feasible ones")
    deadline_s = model.itl_deadline_s or spec.itl_deadline_s
    setting = ModelSetting(feasible, model.batch_size, deadline_s, fits)
    return ReplicaData(data[spec.model_label], setting, place.is_relative_to(_shipped()))


def _check_sizes(
    key: str, sizes: tuple[int, ...], have: Mapping[int, object] | tuple[int, ...], whose: str
) -> None:
    unknown = sorted(set(sizes) - set(have))
    if unknown:
        raise InputError(
            f"{key}: {one_of(unknown)} is not among {whose} (have: {one_of(sorted(have))})"
        )
