"""GPUs through nvidia-ml-py: instantaneous power and the total energy counter.

The power is the field ``NVML_FI_DEV_POWER_INSTANT``, not the driver's 1 s average that
``nvmlDeviceGetPowerUsage`` gives on Ampere (but GA100) and newer. Instantaneous is what the driver
calls it: on A100 and H100 it was found to be the mean over 25 ms of every 100 ms [1]_.

References
----------
.. [1] Z. Yang, K. Adamek, W. Armour: Part-time Power Measurements: nvidia-smi's Lack of Attention,
   SC24, arXiv:2312.02741.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from diploee.errors import InputError
from diploee.profiles.record.sensors import Reading, Sensor

NOT_INSTALLED = "nvidia-ml-py is not installed (pip install 'diploee[record]')"
VISIBLE = "CUDA_VISIBLE_DEVICES"
COUNTER_RANGE_J = 2.0**64 / 1000
"""The counter has 64 bits of mJ: it outlasts every job, but may be reset with the driver [J]."""
_PER_UNIT = 1000.0
_GA100 = re.compile(r"\bA(100|30|800)\b")
_VALUES = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class NvmlSensor:
    """One GPU.

    Parameters
    ----------
    nvml : module
        ``pynvml``, initialised.
    number : int
        The GPU, as ``nvidia-smi`` counts.
    """

    def __init__(self, nvml: Any, number: int) -> None:
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(number)
        self.device = f"gpu-{number}"
        self.name = _text(nvml.nvmlDeviceGetName(self._handle))
        self.label = f"{self.name} (driver {_text(nvml.nvmlSystemGetDriverVersion())})"
        self.counter_range_j = COUNTER_RANGE_J
        self._has_instant = not np.isnan(self._instant_w())
        self.averaging_window_s: float | None = 0.0 if self._has_instant else self._usage_window_s()
        if self.averaging_window_s is None and np.isnan(self._energy_j()):
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)

    def read(self) -> Reading:
        """Read power and counter; NaN for what the driver does not answer just now."""
        power_w = self._instant_w() if self._has_instant else self._usage_w()
        return Reading(power_w, self._energy_j())

    def _instant_w(self) -> float:
        field = getattr(self._nvml, "NVML_FI_DEV_POWER_INSTANT", None)
        if field is None:
            return np.nan
        try:
            (value,) = self._nvml.nvmlDeviceGetFieldValues(self._handle, [field])
        except self._nvml.NVMLError:
            return np.nan
        if value.nvmlReturn != self._nvml.NVML_SUCCESS or value.valueType not in _VALUES:
            return np.nan
        return float(getattr(value.value, _VALUES[value.valueType])) / _PER_UNIT

    def _usage_w(self) -> float:
        try:
            return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) / _PER_UNIT
        except self._nvml.NVMLError:
            return np.nan

    def _energy_j(self) -> float:
        try:
            return float(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)) / _PER_UNIT
        except self._nvml.NVMLError:
            return np.nan

    def _usage_window_s(self) -> float | None:
        """Return what the older call averages over [s], None where it does not answer."""
        if np.isnan(self._usage_w()):
            return None
        try:
            architecture = int(self._nvml.nvmlDeviceGetArchitecture(self._handle))
        except self._nvml.NVMLError:
            return 1.0
        is_older = architecture < self._nvml.NVML_DEVICE_ARCH_AMPERE
        return 0.0 if is_older or _GA100.search(self.name) else 1.0


def find_gpus(
    gpus: Sequence[int] | None = None, nvml: ModuleType | None = None
) -> tuple[list[Sensor], str]:
    """Return a sensor for each GPU that reports power or energy, and why there is none."""
    if gpus is not None and not gpus:
        return [], "not asked for"
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            return [], NOT_INSTALLED
    try:
        nvml.nvmlInit()
        n_gpus = int(nvml.nvmlDeviceGetCount())
    except nvml.NVMLError as error:
        return [], str(error)
    numbers = _visible(nvml, n_gpus) if gpus is None else list(dict.fromkeys(gpus))
    for number in numbers:
        if not 0 <= number < n_gpus:
            raise InputError(f"no GPU {number}, expected 0 to {n_gpus - 1}; see 'nvidia-smi -L'")
    sensors: list[Sensor] = []
    why = f"none visible ({VISIBLE})" if n_gpus else "none in this machine"
    for number in numbers:
        try:
            sensors.append(NvmlSensor(nvml, number))
        except nvml.NVMLError as error:
            why = f"GPU {number}: {error}"
    return sensors, "" if sensors else why


def _visible(nvml: Any, n_gpus: int) -> list[int]:
    """Return the GPUs that a command of this environment sees; all where it does not tell."""
    words = os.environ.get(VISIBLE, "").replace(" ", "").split(",")
    everything = list(range(n_gpus))
    if words == [""]:
        return everything
    uuids = {
        _text(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(i))): i for i in everything
    }
    found = []
    for word in words:
        if word.startswith("GPU-"):
            found += [number for uuid, number in uuids.items() if uuid.startswith(word)]
        elif word.isdecimal():
            found += [int(word)] if int(word) < n_gpus else []
        elif word == "-1":  # CUDA ignores it and all that follows
            break
        else:  # a part of a GPU (MIG): its power is not reported apart
            return everything
    return list(dict.fromkeys(found))


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
