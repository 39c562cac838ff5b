"""The services of a request trace: their shares and token lengths, and the curve that fits them."""

from __future__ import annotations

from dataclasses import dataclass

from diploee.loads.services.curves import nearest_length
from diploee.loads.services.request_trace import RequestTrace, TokenLengths


@dataclass(frozen=True)
class LengthSummary:
    """Token lengths of one service."""

    n_requests: int  # requests with a length
    # Mean and quantiles [tokens]
    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class ServiceFit:
    """One service of a trace."""

    name: str  # as in the trace
    # Requests, and share of all
    n_requests: float
    share: float
    # Lengths; None where the trace tells none
    input_tokens: LengthSummary | None
    output_tokens: LengthSummary | None
    # The output length at hand that is nearest to the mean answer, by ratio [tokens]
    output_length: int | None


def fit_service(trace: RequestTrace, index: int, lengths: tuple[int, ...]) -> ServiceFit:
    """Return what a trace tells about one of its services, given the output lengths at hand."""
    n_requests = float(trace.n_requests[index].sum())
    inputs = _summary(trace.input_tokens, index)
    outputs = _summary(trace.output_tokens, index)
    return ServiceFit(
        name=trace.services[index],
        n_requests=n_requests,
        share=n_requests / float(trace.n_requests.sum()),
        input_tokens=inputs,
        output_tokens=outputs,
        output_length=None if outputs is None else nearest_length(outputs.mean, lengths),
    )


def _summary(of_services: tuple[TokenLengths, ...], index: int) -> LengthSummary | None:
    if not of_services or not of_services[index].n_requests.any():
        return None
    lengths = of_services[index]
    p50, p90, p99 = lengths.quantile([0.5, 0.9, 0.99]).tolist()
    return LengthSummary(int(lengths.n_requests.sum()), lengths.mean, p50, p90, p99)
