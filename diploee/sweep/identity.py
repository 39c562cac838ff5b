"""The name of a run: a hash of all that its results depend on."""

from __future__ import annotations

import hashlib
import json

from diploee import __version__
from diploee.inference.curve_files import read_curve_file
from diploee.outputs.manifest import SCHEMA_VERSION
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario, input_hashes
from diploee.workload import open_classes

NAME_DIGITS = 16
"""Hexadecimal digits of the hash that name a run's folder (64 bits)."""


def run_hash(scenario: Scenario, library: ProfileLibrary) -> str:
    """Return the hash of a run: its scenario, the content of its profiles, and the version.

    The engine is no part of it, as both give the same start times.

    Parameters
    ----------
    scenario : Scenario
        As resolved for the run.
    library : ProfileLibrary
        Where its profiles come from.

    Returns
    -------
    str
        SHA-256, hexadecimal.

    Raises
    ------
    InputError
        If the library lacks a profile of the scenario, or a curve file is missing.
    """
    classes, library = open_classes(scenario, library)
    used = sorted({index for c in classes for index in c.profile_ids})
    content = {
        "diploee_version": __version__,
        "schema_version": SCHEMA_VERSION,
        "scenario": scenario.sha256(),
        "profiles": {library.ids[index]: library.entries[index].sha256 for index in used},
        "curves": _curve_hashes(scenario),
        "files": input_hashes(scenario),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _curve_hashes(scenario: Scenario) -> dict[str, str]:
    names = {
        name
        for stream in scenario.request_streams.values()
        for service in stream.services.values()
        for name in (service.power_curve, service.latency_curve)
        if name is not None
    }
    return {name: read_curve_file(name, scenario.folder).sha256 for name in sorted(names)}
