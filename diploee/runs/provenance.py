"""The report section on the origin of a run's numbers: profiles, inputs, versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from diploee.runs.formatting import interval
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, Statistic

_KINDS = {
    "reference": "reference (synthesised from published facts)",
    "measured": "measured",
}


def provenance(run: RunFolder, in_brief: bool = False) -> Section:
    """Return the section on profiles, inputs, assumptions and versions of a run.

    With `in_brief`, assumptions are listed by component only.
    """
    manifest, scenario = run.manifest, run.scenario
    facility = scenario.facility
    profiles = (manifest.get("profiles") or {}).values()
    origins = [entry.get("provenance") or {} for entry in profiles]
    kinds = {kind: sum(o.get("kind") == kind for o in origins) for kind in _KINDS}
    bases = "; ".join(
        f"{count} {_KINDS[kind]}" for kind, count in kinds.items() if count
    )
    if n_scaled := sum(origin.get("power_factor", 1) != 1 for origin in origins):
        bases += (
            f"; {n_scaled} of other GPUs, scaled by the TDP (not measured on these "
            "nodes)"
        )
    samples = manifest.get("serving_samples") or {}
    versions = manifest.get("versions") or {}
    texts = {
        "Power boundary": run.boundary(),
        "Power profiles": bases,
        "Their sources": "; ".join(
            dict.fromkeys(str(o.get("source")) for o in origins)
        ),
        "Serving samples": "; ".join(
            filter(
                None,
                (
                    _KINDS.get(str(samples.get("kind")), ""),
                    str(samples.get("source", "")),
                ),
            )
        ),
        "Serving curves": ", ".join(sorted(manifest.get("curves") or {})),
        "Input files": ", ".join(sorted(manifest.get("input_files") or {})),
        "Code of your own": ", ".join(
            f"{part['kind']} {part['name']} ({part['sha256'][:8]})"
            for part in manifest.get("own_parts") or ()
        ),
        "Assumed terms": "; ".join(
            group.partition(":")[0].replace("_", " ") if in_brief else group
            for group in _group_keys(manifest.get("assumed") or (), run)
        ),
        "Nodes": "; ".join(
            f"{p.n_nodes:,} in {name}" for name, p in facility.pools.items()
        ),
        "Start": f"{scenario.start:%Y-%m-%d %H:%M} "
        f"({facility.time_zone or f'UTC{facility.utc_offset}'})",
        "Resolution": f"{interval(scenario.resolution_ms)} means",
        "Run": f"scenario SHA-256 {manifest.get('scenario_sha256')}, seed "
        f"{manifest.get('seed')}, engine {manifest.get('engine')}, diploee "
        f"{manifest.get('diploee_version')}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Run folder": run.folder.absolute().name,
    }
    figures = tuple(Statistic(name, text) for name, text in texts.items() if text)
    return Section("provenance", "Where the numbers come from", figures, folded=True)


def _group_keys(keys: Iterable[str], run: RunFolder) -> Iterator[str]:
    """Yield assumed keys grouped by component of the site, without repetitions."""
    stages = run.scenario.facility.stages
    groups: dict[str, dict[str, None]] = {}
    for key in keys:
        parts = key.removeprefix("facility.").split(".")
        if parts[0] == "stages":
            parts = [stages[int(parts[1])].kind, *parts[2:]]
        elif parts[0] == "node_types":
            parts = [" ".join(parts[1:3]), *parts[3:]]
        parts = [part for part in parts if not part.isdigit()]
        if parts[0] in ("streams", "request_streams"):
            parts = [".".join(parts[1:-1]), parts[-1]]
        groups.setdefault(parts[0], {})[".".join(parts[1:])] = None
    for group, names in groups.items():
        yield f"{group}: {', '.join(names)}"
