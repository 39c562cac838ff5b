"""Names and manifests of OpenG2G's spec folders, ``data/specs/<hash>/``, as it looks them up.

References
----------
.. [1] https://github.com/gpu2grid/openg2g, 0.2.0: ``datacenter/config.py`` (the hash of a spec),
   ``datacenter/workloads/inference.py`` (the manifest)
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from diploee.errors import InputError
from diploee.neighbours.openg2g.spec import InferenceModelSpec

SCHEMA_VERSION = 3
DEFAULTS = {"precision": "bfloat16", "tensor_parallel": 1, "expert_parallel": 1}
"""What OpenG2G takes for fields that a spec leaves out."""

_HASHED = (
    "model_id", "gpu_model", "task", "precision", "gpus_per_replica", "tensor_parallel",
    "expert_parallel", "batch_sizes", "fit_exclude_batch_sizes",
)  # fmt: skip


def openg2g_folder(data_dir: Path | str, spec: InferenceModelSpec) -> Path:
    """Return the folder in which OpenG2G keeps the data of a spec."""
    return Path(data_dir) / _hash(spec)


def manifest_of(spec: InferenceModelSpec) -> bytes:
    """Return OpenG2G's manifest of a spec's folder."""
    if spec.itl_deadline_s is None:
        raise InputError(
            f"'{spec.model_label}' has no itl_deadline_s, which a spec of OpenG2G must have; add it"
        )
    fields = _fields(spec) | {"feasible_batch_sizes": list(spec.feasible)}
    manifest = {"schema_version": SCHEMA_VERSION, "spec_hash": _hash(spec), "spec": fields}
    return f"{json.dumps(manifest, indent=2, sort_keys=True)}\n".encode()


def _fields(spec: InferenceModelSpec) -> dict[str, Any]:
    given = {k: v for k, v in spec.model_dump(mode="json").items() if v is not None}
    return DEFAULTS | given


def _hash(spec: InferenceModelSpec) -> str:
    fields = _fields(spec)
    hashed = {name: fields[name] for name in _HASHED}
    hashed |= {name: sorted(v) for name, v in hashed.items() if isinstance(v, list)}
    # OpenG2G hashes json.dumps with its default separators.
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]
