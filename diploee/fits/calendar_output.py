"""Tables and scenario keys of fitted calendar weights, with confidence limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any

from pydantic_core import to_jsonable_python

from diploee.base.tables import Float64Array
from diploee.base.units import DAYS_PER_WEEK, HOURS_PER_DAY
from diploee.fits.calendar import CalendarFit
from diploee.fits.week_shape import DETAIL_NAMES
from diploee.fits.week_to_week import WeekFit
from diploee.runs.sections import SectionTable, Statistic


def to_plain_data(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a fit as plain data for JSON; infinite and unknown values become None."""
    result: dict[str, Any] = to_jsonable_python(
        summary, inf_nan_mode="null", fallback=lambda values: values.tolist()
    )
    return result


def calendar_dict(
    fit: CalendarFit,
    week: tuple[Float64Array, ...],
    month: tuple[Float64Array | None, ...],
    weeks: WeekFit | None,
) -> dict[str, Any]:
    """Return the fitted weights with limits, and the tests of months and weeks."""
    week_values = None if weeks is None else vars(weeks).copy()
    if week_values is not None:
        del week_values["factor"]
    names = ("weight", "low", "high")
    months = zip(names, (fit.month_weight, *month), strict=True)
    return {
        "hour_of_week": {
            "detail": fit.detail,
            "deviance": fit.shape.deviance,
            **dict(zip(names, (fit.week_weight, *week), strict=True)),
        },
        "month": dict(months) if fit.has_months else None,
        "months": fit.months,
        "week_to_week": week_values,
    }


def make_table(
    title: str, rows: Iterable[Mapping[str, Any]], first: str = "figure"
) -> SectionTable:
    """Return a table from rows of named values.

    The first value of each row is its label; `first` is the heading of the labels.
    """
    cells = []
    for row in rows:
        (_, item), *rest = row.items()
        for name, value in rest:
            cell = ("", "yes")[value] if isinstance(value, bool) else value
            quantity = name.replace("_", " ")
            pattern = "{:,}" if isinstance(value, int) else "{:.4g}"
            cells.append(Statistic(item, cell, quantity=quantity, pattern=pattern))
    return SectionTable(title, tuple(cells), first=first)


def statistic_with_limits(
    item: str, value: float, low: float, high: float, note: str = "", unit: str = ""
) -> Statistic:
    """Return a statistic with its confidence limits as note, if they are finite."""
    limits = f"{low:.4g} to {high:.4g}" if isfinite(high) else ""
    notes = "; ".join(filter(None, (limits, note)))
    return Statistic(item, value, unit, notes, pattern="{:.4g}")


def calendar_figures(fit: CalendarFit, weeks: WeekFit | None) -> Iterator[Statistic]:
    """Yield statistics on the selected weights and on differences between weeks."""
    deviances = (
        f"{DETAIL_NAMES[d]} {value:.4g}" for d, value in fit.shape.deviance.items()
    )
    reason = ", ".join(deviances)
    if reason:
        reason = (
            "the coarsest that predicts what was held out as well as the best; Poisson "
            f"deviance of an hour: {reason}"
        )
    yield Statistic("calendar", DETAIL_NAMES[fit.detail], note=reason)
    if (months := fit.months) is not None:
        yield Statistic(
            "months",
            "kept" if months.is_significant else "left out",
            note=f"F {months.ratio:.3g} with {months.freedom[0]} and "
            f"{months.freedom[1]} degrees of freedom over the {months.within}, p "
            f"{months.p_value:.2g} if by chance; --months and --no-months override it",
        )
    if weeks is not None:
        gaps = f", {weeks.n_dead} without any count left out" if weeks.n_dead else ""
        correlation = (
            weeks.correlation_weeks,
            weeks.correlation_low,
            weeks.correlation_high,
        )
        yield statistic_with_limits(
            "relative standard deviation of weeks",
            weeks.relative_std,
            weeks.low,
            weeks.high,
            f"{weeks.n_weeks} whole ones{gaps}"
            + ("" if weeks.is_significant else "; no more than noise, left out"),
        )
        yield statistic_with_limits(
            "correlation time of weeks", *correlation, unit="weeks"
        )


def round_digits(value: float, digits: int) -> float:
    """Return a number rounded to significant digits."""
    return float(f"{value:.{digits}g}")


def calendar_entry(fit: CalendarFit, weeks: WeekFit | None) -> dict[str, Any]:
    """Return the `calendar` key of a stream; empty for a flat calendar."""

    def weights(values: Float64Array) -> list[float]:
        return [round_digits(value, 5) for value in values.tolist()]

    days = fit.week_weight.reshape(DAYS_PER_WEEK, HOURS_PER_DAY)
    entry: dict[str, Any] = {}
    if fit.detail == "hour_of_week":
        entry["hour_of_week"] = weights(days.ravel())
    elif fit.detail != "uniform":
        entry["hour_of_day"] = weights(days.mean(axis=0))
    if fit.detail == "day_and_hour":
        entry["day_of_week"] = weights(days.mean(axis=1))
    if fit.month_weight is not None:
        entry["month"] = weights(fit.month_weight)
    if weeks is not None and weeks.is_significant:
        entry["week_to_week"] = weeks.entry
    return {"calendar": entry} if entry else {}
