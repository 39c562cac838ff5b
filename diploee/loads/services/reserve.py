"""Nodes reserved for each service (Eq. 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diploee.tables import Float64Array, Int64Array


def reserved_node_shares(
    probability: Float64Array, nodes_per_instance: Int64Array, max_rate_rps: Float64Array
) -> Float64Array:
    """Return each service's share of the nodes, by the right form of Eq. 7; they sum to 1.

    The paper prints N_total * (p_i n_i / R_i) * sum_j (R_j / (p_j n_j)), which does not sum to
    N_total; meant is ``(p_i n_i / R_i) / sum_j (p_j n_j / R_j)`` with the share of the requests
    p_i, nodes of one instance n_i and its highest request rate R_i.
    """
    need: Float64Array = probability * nodes_per_instance / max_rate_rps
    total = need.sum()
    return need / total if total > 0 else np.full(need.size, 1 / need.size)


def reserve_nodes(
    n_nodes: int,
    probability: Sequence[float],
    nodes_per_instance: Sequence[int],
    max_rate_rps: Sequence[float],
    least: Int64Array | None = None,
) -> Int64Array:
    """Share out the nodes of a pool in whole instances (Eq. 7, largest remainder), all of them.

    Every service gets the whole instances within its share; what is left goes, an instance at a
    time, to the service furthest below its share among those whose instance still fits. Nodes
    too few for any instance go to the service furthest below its share and stay idle. `least` is
    what each service has already and keeps, together no more than `n_nodes`.
    """
    per_instance = np.asarray(nodes_per_instance, dtype=np.int64)
    asked = np.asarray(probability, dtype=np.float64)
    share = reserved_node_shares(asked, per_instance, np.asarray(max_rate_rps, np.float64))
    exact = n_nodes * share
    # A share that is whole but for rounding counts as whole.
    whole = np.floor(exact / per_instance + 1e-9).astype(np.int64)
    nodes: Int64Array = whole * per_instance
    if least is not None:
        # An instance more than its share, as a remainder gave it, may leave others short.
        kept = np.maximum(nodes, least)
        nodes = kept if kept.sum() <= n_nodes else least.copy()
    wanted = asked > 0 if (asked > 0).any() else np.ones(per_instance.size, dtype=bool)
    left = n_nodes - int(nodes.sum())
    while left > 0:
        fits = wanted & (per_instance <= left)
        short = np.where(fits if fits.any() else wanted, exact - nodes, -np.inf)
        service = int(np.argmax(short))
        given = int(per_instance[service]) if fits.any() else left
        nodes[service] += given
        left -= given
    return nodes
