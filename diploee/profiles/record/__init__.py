"""Record the power of a command's GPUs and CPUs into a profile.

`sensors` says what a sensor is, `nvml` and `rapl` read real ones, `sampler` reads all of them on a
steady clock, `command` runs the command meanwhile, `recording` makes the profile of the samples.
"""

from diploee.profiles.record.command import Ended, run_recorded
from diploee.profiles.record.recording import recorded_profile
from diploee.profiles.record.sampler import Sampler, Samples
from diploee.profiles.record.sensors import Reading, Sensor, find_sensors

__all__ = [
    "Ended",
    "Reading",
    "Sampler",
    "Samples",
    "Sensor",
    "find_sensors",
    "recorded_profile",
    "run_recorded",
]
