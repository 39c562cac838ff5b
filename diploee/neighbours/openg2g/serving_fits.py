"""`ServingFits`: the three logistic curves of one model replica, and the batch sizes they hold for.

Fitted by `LogisticModelStore`, or given as plain coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from diploee.errors import InputError, WorkloadError
from diploee.neighbours.openg2g.logistic import LogisticModel


@dataclass(frozen=True)
class ServingFits:
    """Power, inter-token latency and throughput of one replica against its batch size.

    Parameters
    ----------
    power : LogisticModel
        Mean power of the replica's GPUs [W].
    itl : LogisticModel
        Inter-token latency [s], not falling with the batch size.
    throughput : LogisticModel
        Output tokens per second [1/s], rising with the batch size.
    smallest_batch, largest_batch : float
        Batch sizes within which the curves hold: those that were measured.

    Raises
    ------
    InputError
        If the range of batch sizes is not one, throughput does not rise, latency falls, or one of
        the curves is not positive within the range.
    """

    power: LogisticModel
    itl: LogisticModel
    throughput: LogisticModel
    smallest_batch: float
    largest_batch: float

    def __post_init__(self) -> None:
        if not 0 < self.smallest_batch <= self.largest_batch < np.inf:
            raise InputError(
                f"batch sizes must be positive, the smallest at most the largest; found "
                f"{self.smallest_batch:g} and {self.largest_batch:g}"
            )
        if not self.throughput.is_rising:
            raise InputError(
                f"throughput must rise with the batch size, found L = {self.throughput.span:g}; "
                "check the measurements, or leave sizes out of the fit"
            )
        if self.itl.span < 0:
            raise InputError(
                f"inter-token latency may not fall with the batch size, found L = "
                f"{self.itl.span:g}; check the measurements, or leave sizes out of the fit"
            )
        ends = np.array([self.smallest_batch, self.largest_batch])
        for name in ("power", "itl", "throughput"):
            lowest = float(getattr(self, name).eval(ends).min())
            if lowest <= 0:
                raise InputError(
                    f"{name} falls to {lowest:g} within batch sizes {ends[0]:g} to {ends[1]:g}, "
                    "expected positive values; narrow the range to what was measured"
                )

    def within(self, smallest_batch: float, largest_batch: float) -> Self:
        """Return the same curves over other batch sizes, such as the feasible ones of a spec."""
        return replace(self, smallest_batch=smallest_batch, largest_batch=largest_batch)

    def largest_batch_within(self, itl_deadline_s: float | None = None) -> float:
        """Return the largest batch size that keeps an inter-token latency.

        Parameters
        ----------
        itl_deadline_s : float, optional
            Highest latency [s]; without it the largest batch size is returned.

        Raises
        ------
        WorkloadError
            If even the smallest batch size exceeds it; the text says which latency can be kept.
        """
        if itl_deadline_s is None:
            return self.largest_batch
        lowest_s = float(self.itl.eval(self.smallest_batch))
        if itl_deadline_s < lowest_s:
            raise WorkloadError(
                f"an inter-token latency of {itl_deadline_s:g} s can't be kept: the lowest is "
                f"{lowest_s:.6g} s, at the smallest batch size of {self.smallest_batch:g}; raise "
                "the deadline to that or above"
            )
        if not self.itl.is_rising:
            return self.largest_batch
        kept = float(self.itl.inverse(itl_deadline_s))
        return min(max(kept, self.smallest_batch), self.largest_batch)

    def max_request_rate_rps(
        self, output_tokens: float, itl_deadline_s: float | None = None
    ) -> float:
        """Return the highest request rate of a replica, R_max of Eq. 5 [1/s].

        It is the throughput at the largest batch size that keeps the deadline, over the tokens of a
        request.

        Parameters
        ----------
        output_tokens : float
            Mean output length of a request [tokens].
        itl_deadline_s : float, optional
            Highest inter-token latency [s].

        Raises
        ------
        InputError
            If `output_tokens` is not positive.
        WorkloadError
            If the deadline can't be kept.
        """
        check_tokens(output_tokens)
        batch = self.largest_batch_within(itl_deadline_s)
        return float(self.throughput.eval(batch)) / output_tokens


def check_tokens(output_tokens: float) -> None:
    """Raise `InputError` unless a mean output length is a positive number [tokens]."""
    if not 0 < output_tokens < np.inf:
        raise InputError(
            f"mean output tokens per request must be a number above 0, found {output_tokens:g}"
        )
