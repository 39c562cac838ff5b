"""The name of a run: a hash of all that its results depend on."""

from __future__ import annotations

import hashlib
import json

from diploee import __version__
from diploee.inputs import Inputs
from diploee.loads.jobs.streams import JobStreams
from diploee.outputs.manifest import SCHEMA_VERSION
from diploee.scenario import Scenario
from diploee.site import settle

NAME_DIGITS = 16
"""Hexadecimal digits of the hash that name a run's folder (64 bits)."""


def run_hash(scenario: Scenario, inputs: Inputs) -> str:
    """Return the SHA-256 of a run: its scenario, the content of its profiles, and the version.

    The engine is no part of it, as both give the same start times.
    """
    streams = JobStreams(settle(scenario, inputs), inputs)
    library = streams.library
    used = sorted({index for c in streams.classes for index in c.profile_ids})
    curve_files = {file.name: file for curves in inputs.curves.values() for file in curves.files}
    content = {
        "diploee_version": __version__,
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario.sha256(),
        "profiles": {library.ids[index]: library.entries[index].sha256 for index in used},
        "curves": {name: file.sha256 for name, file in curve_files.items()},
        "files": dict(inputs.hashes),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
