"""Block bootstrap of a job log: its weeks are replayed in random order.

A year of the run thus has the bursts, nights and rare large jobs of the log. Each
permutation contains every week of the log once. A week that is incomplete at an end of
the log is completed with days of the next week of the permutation, so that all days of
a weekday occur equally often. Each permutation has its own random generator, numbered
since 1970, so that a run has the same jobs as the same dates of a longer run.

The method is a bootstrap of blocks (Künsch 1989; balanced: Davison, Hinkley and
Schechtman 1986). In a log of a year or more, weeks are drawn from those of the same
season. From a log of more than 52 weeks, 52 are drawn per year by systematic sampling
(Madow and Madow 1944): the weeks are sorted by season and, within each of `SEASONS`, by
node time, and every n-th week is taken, from another first week each year. Each year
then has nearly the mean node time of the log, and several years together contain all of
its weeks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import DAYS_PER_WEEK, MS_PER_DAY, MS_PER_H

# Number of weeks drawn per year from a log of a year or more
WEEKS_PER_YEAR = 52
DAYS_PER_YEAR = 365.25

SEASON_WEEKS = 6
"""Maximum distance from the season of weeks that differ from it by chance alone
[weeks]. Assumed (judgement)."""

SEASONS = 8
"""Number of seasons in which weeks are sorted by node time, alternately ascending and
descending; even, so that this is balanced."""

GOLDEN = (5**0.5 - 1) / 2
"""Golden ratio minus 1; the fractional parts of its multiples fill 0 to 1 evenly."""

WHOLE_MS = MS_PER_H
"""Maximum distance from midnight of a log's start or end that does not cut a day [ms].
Assumed (judgement)."""


class ShuffledWeeks:
    """Random assignment of a log's weeks to the weeks of a run.

    `into_ms` are the submissions since the Monday of the log's first week [ms], and
    `node_time` is nodes times run time of each job. `first_week` is the number of that
    first week since 1970-01-05, or None for a log without dates. `random` returns the
    random generator of a permutation.
    """

    def __init__(
        self,
        into_ms: Int64Array,
        node_time: Float64Array,
        first_week: int | None,
        random: Callable[[int], np.random.Generator],
    ) -> None:
        self._into_ms, self._random = into_ms, random
        day = into_ms // MS_PER_DAY
        first, last = int(day.min()), int(day.max())
        if (
            last - first >= 2 * DAYS_PER_WEEK
        ):  # without days cut by the log's start or end
            begin = (int(into_ms.min()) - WHOLE_MS) // MS_PER_DAY + 1
            end = (int(into_ms.max()) + WHOLE_MS) // MS_PER_DAY - 1
            if ((begin <= day) & (day <= end)).any():
                first, last = begin, end
        n_weeks = last // DAYS_PER_WEEK + 1
        has_day = np.zeros((n_weeks, DAYS_PER_WEEK), dtype=bool)
        has_day.ravel()[first : last + 1] = True
        weeks = np.flatnonzero(has_day.any(axis=1))
        self._seasonal = first_week is not None and weeks.size >= WEEKS_PER_YEAR
        if self._seasonal:
            weeks = weeks[
                np.argsort(
                    _year_and_season(weeks + (first_week or 0))[1], kind="stable"
                )
            ]
        season = np.arange(weeks.size) * SEASONS // weeks.size
        week_node_time = np.bincount(day // DAYS_PER_WEEK, node_time, n_weeks + 1)
        level = week_node_time[weeks] / has_day[weeks].sum(axis=1)
        self._weeks_by_level = np.lexsort((np.where(season % 2, level, -level), season))
        self._first_offset = random(0).random()
        self._weeks, self._logged = weeks, has_day
        self._rows = np.argsort(day, kind="stable")
        days = np.arange(int(day.max()) + 2)
        self._ends = np.searchsorted(day[self._rows], days)

    def __len__(self) -> int:
        """Return the number of weeks in the log."""
        return int(self._weeks.size)

    def week(self, number: int) -> tuple[Int64Array, Int64Array]:
        """Return a week's job rows and times into the week [ms].

        Weeks are numbered since 1970-01-05.
        """
        if self._seasonal:
            n, (permutation, position) = (
                WEEKS_PER_YEAR,
                map(int, _year_and_season(number)),
            )
        else:
            n = len(self)
            permutation, position = divmod(number, n)
        rng = self._random(permutation)
        noise = rng.random(n) * SEASON_WEEKS
        order = np.argsort(np.arange(n) + noise if self._seasonal else noise)
        ranks = (
            (np.arange(n) + (self._first_offset + permutation * GOLDEN) % 1)
            * len(self)
            / n
        )
        drawn_weeks = self._weeks[
            np.sort(self._weeks_by_level[ranks.astype(np.int64)])[order]
        ]
        weeks = np.roll(
            drawn_weeks, -position
        )  # the requested week, then the following ones
        rows, times_ms = [], []
        for weekday, source in enumerate(
            weeks[self._logged[weeks].argmax(axis=0)].tolist()
        ):
            day = source * DAYS_PER_WEEK + weekday
            rows.append(self._rows[self._ends[day] : self._ends[day + 1]])
            times_ms.append(self._into_ms[rows[-1]] - (day - weekday) * MS_PER_DAY)
        return np.concatenate(rows), np.concatenate(times_ms)


def _year_and_season(week: Int64Array | int) -> tuple[Int64Array, Int64Array]:
    """Return the year and the position in the year of the middle of each week.

    Weeks are counted from 1970-01-05.
    """
    years, days = np.divmod((np.asarray(week) + 0.5) * DAYS_PER_WEEK, DAYS_PER_YEAR)
    position = np.minimum(days / DAYS_PER_WEEK, WEEKS_PER_YEAR - 1).astype(np.int64)
    return years.astype(np.int64), position
