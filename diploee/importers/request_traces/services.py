"""Names of the services of a trace, numbered as they come or as the user asked for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diploee.errors import InputError, did_you_mean, one_of
from diploee.importers.request_traces.rows import RequestRows
from diploee.tables import Int64Array

MAX_SERVICES = 1_000
ALL_SERVICES = "all"
UNKNOWN_SERVICE = "unknown"


class ServiceNames:
    """Numbers services from 0.

    Parameters
    ----------
    path : pathlib.Path
        The trace, named in errors.
    wanted : sequence of str or None
        Services to keep; where the trace tells none, the one name for all its requests.
    """

    def __init__(self, path: Path, wanted: Sequence[str] | None) -> None:
        self._path = path
        self._wanted = wanted
        self._number: dict[str, int] = {}
        self._seen: set[str] = set()
        for name in wanted or ():
            self._number.setdefault(name, len(self._number))

    @property
    def names(self) -> tuple[str, ...]:
        """The services by number."""
        return tuple(self._number)

    def numbers(self, rows: RequestRows) -> Int64Array:
        """Return the service of each row; -1 where it is not wanted."""
        if rows.service is None:
            self._one_for_all()
            return np.broadcast_to(np.int64(0), len(rows))
        self._seen.update(name or UNKNOWN_SERVICE for name in rows.service_names)
        numbers = np.array(
            [self._number_of(name or UNKNOWN_SERVICE) for name in rows.service_names],
            dtype=np.int64,
        )
        if len(self._number) > MAX_SERVICES:
            rows.fail(
                0,
                f"found more than {MAX_SERVICES:,} services by here; map another column to "
                "'service', or none",
            )
        return numbers[rows.service]

    def check_wanted(self) -> None:
        """Raise an `InputError` if a wanted service did not occur."""
        for name in self._wanted or ():
            if self._seen and name not in self._seen:
                raise InputError(
                    f"{self._path}: no request of service '{name}' "
                    f"(have: {one_of(sorted(self._seen))}){did_you_mean(name, self._seen)}"
                )

    def _number_of(self, name: str) -> int:
        if self._wanted is None:
            return self._number.setdefault(name, len(self._number))
        return self._number.get(name, -1)

    def _one_for_all(self) -> None:
        if self._wanted is None:
            self._number.setdefault(ALL_SERVICES, 0)
        elif len(self._number) != 1:
            raise InputError(
                f"{self._path}: the trace does not name services, so that {one_of(self._number)} "
                "can't be distinguished; give one name for all its requests"
            )
