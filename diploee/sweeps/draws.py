"""Probability distributions for the random parameters of an ensemble."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from diploee.base.errors import InputError, shown
from diploee.base.metric import is_plain_number
from diploee.base.model import Kinds, Model, Share, check_probabilities, default, unset
from diploee.base.tables import Float64Array

Positive = PositiveFloat

PROBABILITY_DIGITS = 12
"""Digits to which drawn probabilities are rounded; the last one closes the sum to 1."""


class Draw(Model):
    """Base class of random draws for a key of a sweep's scenarios."""

    distribution: str

    @property
    def is_relative(self) -> bool:
        """True if the drawn value depends on the base value."""
        return False

    @abstractmethod
    def draw(self, rng: np.random.Generator, base: Any) -> tuple[Any, dict[str, float]]:
        """Draw a new value of a key, given its base value.

        Returns the new value, and the sampled numbers by item of the value. The name is
        empty for a single number, or a number that applies to all items.
        """


class _ContinuousDraw(Draw):
    """Continuous distribution, sampled by its inverse cumulative function."""

    apply: Literal["set", "factor", "add"] = default(
        "set",
        "Use of the sampled number: it replaces the value, multiplies it or is added "
        "to it.",
    )
    each: bool = default(
        False, "Whether every element of a list gets a separate sample."
    )

    @property
    def is_relative(self) -> bool:
        """True if the drawn value depends on the base value."""
        return self.apply != "set"

    @abstractmethod
    def _scipy_distribution(self, stats: Any) -> Any:
        """Return the distribution as a frozen distribution of `scipy.stats`."""

    @property
    def _bounds(self) -> tuple[float | None, float | None]:
        return getattr(self, "low", None), getattr(self, "high", None)

    @model_validator(mode="after")
    def _check_order(self) -> _ContinuousDraw:
        low, high = self._bounds
        if low is not None and high is not None and low >= high:
            raise ValueError(f"low must be less than high, found {low:g} and {high:g}")
        return self

    def numbers(self, rng: np.random.Generator, count: int) -> Float64Array:
        """Return random numbers, shape (count,).

        Numbers of a truncated distribution lie within its bounds.
        """
        from scipy import stats

        distribution = self._scipy_distribution(stats)
        low, high = self._bounds
        first = 0.0 if low is None else float(distribution.cdf(low))
        last = 1.0 if high is None else float(distribution.cdf(high))
        sampled: Float64Array = distribution.ppf(
            first + (last - first) * rng.random(count)
        )
        return sampled

    def draw(self, rng: np.random.Generator, base: Any) -> tuple[Any, dict[str, float]]:
        """Return the new value and the sampled numbers by item, as in `Draw.draw`.

        Without `each`, one number applies to all items of a list.
        """
        if isinstance(base, list) and (self.each or self.apply != "set"):
            numbers = self.numbers(rng, len(base) if self.each else 1)
            changed = [
                self._apply(value, float(numbers[k if self.each else 0]))
                for k, value in enumerate(base)
            ]
            names = [str(k) for k in range(len(base))] if self.each else [""]
            return changed, dict(zip(names, numbers.tolist(), strict=True))
        if self.each:
            raise InputError(
                f"'each' needs a list in the base scenario, found {shown(base)}"
            )
        number = float(self.numbers(rng, 1)[0])
        return self._new_number(base, number), {"": number}

    def _new_number(self, base: Any, number: float) -> float | int:
        """Return the new value of a single number.

        An integer, such as a number of nodes, stays an integer.
        """
        applied = self._apply(base, number)
        return (
            round(applied)
            if isinstance(base, int) and not isinstance(base, bool)
            else applied
        )

    def _apply(self, base: Any, number: float) -> float:
        if self.apply == "set":
            return number
        if not is_plain_number(base):
            raise InputError(
                f"apply: {self.apply} needs a number in the base scenario, found "
                f"{shown(base)}"
            )
        return number * base if self.apply == "factor" else number + base


class Normal(_ContinuousDraw):
    """Normal distribution, truncated if bounds are specified."""

    distribution: Literal["normal"] = default("normal", "The normal distribution.")
    mean: float = Field(description="Mean, before truncation.")
    std: Positive = Field(description="Standard deviation, before truncation.")
    low: float | None = unset("Lower bound.")
    high: float | None = unset("Upper bound.")

    def _scipy_distribution(self, stats: Any) -> Any:
        return stats.norm(self.mean, self.std)


class Lognormal(_ContinuousDraw):
    """Lognormal distribution, truncated if bounds are specified."""

    distribution: Literal["lognormal"] = default(
        "lognormal", "The lognormal distribution."
    )
    median: Positive = Field(description="Median, before truncation.")
    sigma: Positive = Field(description="Standard deviation of the natural logarithm.")
    low: float | None = unset("Lower bound.")
    high: float | None = unset("Upper bound.")

    def _scipy_distribution(self, stats: Any) -> Any:
        return stats.lognorm(self.sigma, scale=self.median)


class Uniform(_ContinuousDraw):
    """Uniform distribution."""

    distribution: Literal["uniform"] = default("uniform", "The uniform distribution.")
    low: float = Field(description="Lower bound.")
    high: float = Field(description="Upper bound.")

    def _scipy_distribution(self, stats: Any) -> Any:
        return stats.uniform(self.low, self.high - self.low)


class Triangular(_ContinuousDraw):
    """Triangular distribution."""

    distribution: Literal["triangular"] = default(
        "triangular", "The triangular distribution."
    )
    low: float = Field(description="Lower bound.")
    mode: float = Field(description="Most likely value.")
    high: float = Field(description="Upper bound.")

    @model_validator(mode="after")
    def _mode_between(self) -> Triangular:
        if not self.low <= self.mode <= self.high:
            raise ValueError(
                f"mode must lie from {self.low:g} to {self.high:g}, not {self.mode:g}"
            )
        return self

    def _scipy_distribution(self, stats: Any) -> Any:
        width = self.high - self.low
        return stats.triang((self.mode - self.low) / width, self.low, width)


class Choice(Draw):
    """Random choice between several values of any type."""

    distribution: Literal["choice"] = default("choice", "One value of a list.")
    values: list[Any] = Field(min_length=1, description="The values.")
    probabilities: list[Share] | None = unset(
        "Probabilities of the values; equal if absent."
    )

    @model_validator(mode="after")
    def _fits(self) -> Choice:
        if self.probabilities is not None:
            if len(self.probabilities) != len(self.values):
                raise ValueError(
                    f"expected {len(self.values)} probabilities, found "
                    f"{len(self.probabilities)}"
                )
            check_probabilities(self.probabilities, "values")
        return self

    # One signature for all
    def draw(self, rng: np.random.Generator, base: Any) -> tuple[Any, dict[str, float]]:  # noqa: ARG002
        """Return the drawn value, and its index as the drawn number."""
        index = int(rng.choice(len(self.values), p=self.probabilities))
        return self.values[index], {"": float(index)}


class Dirichlet(Draw):
    """Dirichlet distribution of probabilities; the base values are its mean."""

    distribution: Literal["dirichlet"] = default(
        "dirichlet", "The Dirichlet distribution."
    )
    concentration: Positive = Field(
        description=(
            "Concentration: a probability p of the base scenario has the variance p (1 "
            "- p) / (concentration + 1)."
        )
    )

    @property
    def is_relative(self) -> bool:
        """True if the drawn value depends on the base value."""
        return True

    def draw(self, rng: np.random.Generator, base: Any) -> tuple[Any, dict[str, float]]:
        """Return the drawn probabilities by name."""
        if not isinstance(base, dict) or not base:
            raise InputError(
                "dirichlet needs probabilities by name in the base scenario, such as "
                f"streams.training.mix.workload, found {shown(base)}"
            )
        names = [name for name, probability in base.items() if probability > 0]
        alpha = self.concentration * np.array([base[name] for name in names])
        sampled = np.round(rng.dirichlet(alpha), PROBABILITY_DIGITS)
        sampled[-1] = max(0.0, 1.0 - sampled[:-1].sum())
        numbers = dict(zip(names, sampled.tolist(), strict=True))
        return {**base, **numbers}, {
            str(name): value for name, value in numbers.items()
        }


DRAWS: Kinds[Draw] = Kinds("distribution", Draw, __name__, "distribution")  # type: ignore[type-abstract]
"""Distributions by name: those of this module, and those registered from outside."""
