"""A profile that is computed from another one when its power is first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.store import StoredProfile
from diploee.tables import Float64Array


@dataclass(frozen=True, eq=False)
class DerivedProfile(ABC):
    """A profile with the head of another one and power of its own."""

    of: PowerProfile | StoredProfile | DerivedProfile  # the profile that it is computed from

    @abstractmethod
    def power_w(self, base: PowerProfile) -> Float64Array:
        """Return its power [W], shape as of the base's."""

    @property
    def profile(self) -> PowerProfile:
        """The profile itself, computed anew each time: it is looked at once or twice in a run."""
        base = self.of if isinstance(self.of, PowerProfile) else self.of.profile
        return replace(base, power_w=self.power_w(base).astype(np.float32))

    @property
    def profile_id(self) -> str:
        """Its id, that of the base."""
        return self.of.profile_id

    @property
    def workload(self) -> str:
        """Its kind of work."""
        return self.of.workload

    @property
    def n_nodes(self) -> int:
        """Nodes that it runs on."""
        return self.of.n_nodes

    @property
    def dt_ms(self) -> int:
        """Sampling step [ms]."""
        return self.of.dt_ms

    @property
    def duration_ms(self) -> int:
        """Length [ms]."""
        return self.of.duration_ms

    @property
    def sha256(self) -> str:
        """Content hash, as of `PowerProfile`."""
        return self.profile.sha256

    @property
    def provenance(self) -> Provenance:
        """Origin, licence and limits of the base's data."""
        return self.of.provenance
