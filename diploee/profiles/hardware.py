"""GPUs of profiles and of nodes: what is known by their name, and profiles played on other ones."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from diploee.errors import ProfileError, plural
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.scenario import NodeType

TDP_W = {
    r"\bH[12]00\b.*\bSXM": 700.0,
    r"\bH100\b.*\bPCIE": 350.0,
    r"\bA100\b.*\bSXM": 400.0,
    r"\bV100\b.*\bSXM": 300.0,
    r"\bB200\b.*\bSXM": 1_000.0,
    r"\bL40S\b": 350.0,
}
"""Thermal design power of one GPU [W] by a pattern of its name, of the makers' data sheets [M]."""


def tdp_of(model: str) -> float | None:
    """Return the thermal design power of a GPU [W]; None where its model is not known."""
    return next((w for name, w in TDP_W.items() if re.search(name, model.upper())), None)


def gpus_shown(n_gpus: int | None, tdp_w: float | None) -> str:
    """Return the GPUs of a node in words, such as ``4 GPUs of 700 W``, as far as they are known."""
    count = "GPUs" if n_gpus is None else plural(n_gpus, "GPU")
    return count if tdp_w is None else f"{count} of {tdp_w:,g} W"


def gpus_of(provenance: Provenance) -> str:
    """Return the GPUs of the nodes that a profile was measured on, in words."""
    return gpus_shown(provenance.gpus_per_node, provenance.gpu_tdp_w)


def is_other_hardware(provenance: Provenance, node: NodeType) -> bool:
    """Return whether a profile is of other GPUs than a node has, as far as they are known."""
    return provenance.gpus_per_node not in (None, node.n_gpus) or provenance.gpu_tdp_w not in (
        None,
        node.gpu_tdp_w,
    )


def scaled_by_tdp(profile: PowerProfile, node: NodeType) -> PowerProfile:
    """Return a profile in proportion to the TDP of a node's GPUs, as long as it is.

    ASSUMPTION [J]: all of a node's power, CPUs and idle power too, goes with the TDP of its GPUs.
    """
    origin = profile.provenance
    n_gpus = node.n_gpus if origin.gpus_per_node is None else origin.gpus_per_node
    tdp_w = node.gpu_tdp_w if origin.gpu_tdp_w is None else origin.gpu_tdp_w
    of_node_w, measured_w = node.n_gpus * node.gpu_tdp_w, n_gpus * tdp_w
    if not (of_node_w > 0 and measured_w > 0):
        raise ProfileError(
            f"profile '{profile.profile_id}' of {gpus_of(origin)} can't be scaled by the TDP to "
            f"{gpus_shown(node.n_gpus, node.gpu_tdp_w)}; use profiles of these nodes (--profiles)"
        )
    factor = of_node_w / measured_w
    note = (
        f"power scaled by {factor:.4g}, the TDP of {gpus_shown(node.n_gpus, node.gpu_tdp_w)} over "
        f"that of {gpus_of(origin)}, run time as it was: not measured on these nodes"
    )
    return replace(
        profile,
        profile_id=f"{profile.profile_id}~tdp-{factor:.6g}",
        power_w=(profile.power_w * factor).astype(np.float32),
        provenance=replace(
            origin,
            kind="reference",
            notes="; ".join(filter(None, [origin.notes, note])),
            gpus_per_node=node.n_gpus,
            gpu_tdp_w=node.gpu_tdp_w,
            gpu_model=None,
            power_factor=factor,
        ),
    )
