"""Scenarios and sites: loading, changes of keys, and preparation for runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import InstanceOf

from diploee.base.arguments import UNCHECKED, allowed, as_list, checked_arguments
from diploee.base.errors import ScenarioError, python_words
from diploee.base.files.paths import ShippedKind, shipped
from diploee.grid.limits.file import AnyLimits, load_limits, load_scenario_limits
from diploee.grid.limits.watch import WatchedLimits
from diploee.importers.input_reader import load_inputs
from diploee.loads.inputs import Inputs
from diploee.loads.jobs import Utilization
from diploee.profiles.library import ProfileLibrary
from diploee.runs.reader import RunFolder
from diploee.scenario import loading
from diploee.scenario.loading import (
    place_of,
    scenario_from_dict,
    with_overrides,
    with_set_keys,
    with_value,
)
from diploee.scenario.models import Scenario
from diploee.scenario.starter import SiteAnswers, starter_text
from diploee.scenario.yaml_lines import (
    dotted_key,
    load_yaml_with_lines,
    read_text,
)
from diploee.simulation import steps
from diploee.simulation.prepared import (
    AS_USUAL,
    NO_WATCH,
    PreparedSite,
    RunOptions,
    at_needed_step,
    prepare,
    size_site,
)

AnyScenario: TypeAlias = Annotated[
    InstanceOf[Scenario] | Mapping[str, Any] | Path | str,
    allowed("a scenario, its name or file, or its content as a dict"),
]
AnyProfiles: TypeAlias = Annotated[
    InstanceOf[ProfileLibrary] | Path | str | Sequence[Path | str],
    allowed("a ProfileLibrary, a folder of profiles, or a list of folders"),
]
Values: TypeAlias = Annotated[
    Mapping[str, Any] | str | Sequence[str],
    allowed("a dict of values by dotted key, or texts such as 'seed=1'"),
]


@checked_arguments
def scenarios(kind: ShippedKind = "scenario") -> dict[str, str]:
    """Return the shipped scenarios, as a mapping of names to descriptions.

    Parameters
    ----------
    kind : {"scenario", "sweep", "limits"}
        Kind of shipped files to list; "limits" are presets.
    """
    return {name: _description(path, kind) for name, path in shipped(kind).items()}


def _description(path: Path, kind: ShippedKind) -> str:
    """Return a shipped file's description, name, or first comment."""
    content, _ = load_yaml_with_lines(path, "keys")
    first = path.read_text("utf-8").partition("\n")[0].removeprefix("#").strip()
    return str(content.get("name" if kind == "limits" else "description") or first)


def open_library(profiles: AnyProfiles | None = None) -> ProfileLibrary:
    """Open profiles: a library, one or several folders, or the shipped ones."""
    if isinstance(profiles, ProfileLibrary):
        return profiles
    return ProfileLibrary.open(*as_list(profiles or ()))


@checked_arguments
def load_scenario(scenario: AnyScenario, values: Values = ()) -> Scenario:
    """Load and check a scenario.

    Parameters
    ----------
    scenario : Scenario, mapping, path or str
        A scenario, its content as a dict, its YAML file, or the name of a shipped one
        such as ``"colocation_10mw"``.
    values : mapping or sequence of str, optional
        Values by dotted key, such as ``{"duration": "8 weeks"}``, or texts
        ``"key=value"`` as on the command line.

    Returns
    -------
    Scenario
        The checked scenario.

    Raises
    ------
    ScenarioError
        If the scenario is invalid. The text has a line for each problem: file, line,
        key, expected value, and value found.
    """
    return with_values(scenario, values)


def site_of(
    scenario: Scenario,
    profiles: AnyProfiles | None = None,
    options: RunOptions = AS_USUAL,
    inputs: Inputs | None = None,
    limits: AnyLimits = (),
) -> PreparedSite:
    """Prepare the site of a scenario for a run: read its inputs, and add limits."""
    all_limits = (*load_scenario_limits(scenario), *map(load_limits, as_list(limits)))
    watch = WatchedLimits(all_limits) if all_limits else NO_WATCH
    scenario = at_needed_step(scenario, options.stages, watch)
    inputs = inputs or load_inputs(scenario, open_library(profiles))
    return prepare(scenario, inputs, options, watch)


def site_of_run(
    run: RunFolder, library: ProfileLibrary | None = None, **options: Any
) -> PreparedSite:
    """Prepare the site of a run for another simulation.

    `options` are the run's Python objects, such as policies and stages.
    """
    run_options = RunOptions(engine=run.manifest["engine"], **options)
    return prepare(run.scenario, load_inputs(run.scenario, library), run_options)


@checked_arguments
def generate_jobs(
    scenario: InstanceOf[Scenario],
    library: InstanceOf[ProfileLibrary] | None = None,
    simulated_utilization: Annotated[Utilization | None, UNCHECKED] = None,
) -> steps.Workload:
    """Generate the list of jobs of all streams.

    Parameters
    ----------
    scenario : Scenario
        The scenario of the streams.
    library : ProfileLibrary, optional
        Power profiles of the job classes, which give the durations.
    simulated_utilization : callable, optional
        Function for streams with ``match: simulated``: it schedules their jobs and
        returns the mean node occupancy of the pool (0-1). By default the jobs are
        scheduled with the pool's scheduler.

    Returns
    -------
    Workload
        Jobs in the order of submission; jobs submitted at the same time are in the
        order of their streams.

    Raises
    ------
    InputError
        If a job class has no profile, a log can't be read or does not fit its rules, a
        utilization target can't be reached, or the scenario has a `facility.size`,
        which only `diploee.run` resolves.
    """
    return steps.generate_jobs(
        scenario, load_inputs(scenario, library), simulated_utilization
    )


DRAFT_NODES = 1000
"""Nodes of the draft site, whose power gives the node count of the requested site."""


def starter(answers: SiteAnswers, name: str) -> tuple[str, int]:
    """Return the YAML text of a site's first scenario, and the number of its nodes."""
    # The draft's jobs have fixed node counts
    draft = answers.model_copy(update={"largest_job": 0.0})
    data, _ = read_text(starter_text(draft, name, DRAFT_NODES))
    data = with_value(
        data, "facility.size", {"poi_mw": answers.poi_mw}, lambda: "facility.size"
    )
    scenario = scenario_from_dict(data)
    n_nodes = size_site(scenario, load_inputs(scenario))[0].facility.n_nodes
    text = starter_text(answers, name, n_nodes)
    scenario_from_dict(read_text(text)[0])
    return text, n_nodes


@contextmanager
def _groups_named(changes: Mapping[str, Any]) -> Iterator[None]:
    """Add to errors that a dict among the changes replaces a whole group."""
    try:
        yield
    except ScenarioError as error:
        for key, value in changes.items():
            if isinstance(value, Mapping) and value:
                raise ScenarioError(
                    f"{problem}; a dict replaces the whole group '{key}', use dotted "
                    f"keys such as '{key}.{next(iter(value))}' to change a part"
                    for problem in error.problems
                ) from error
        raise


def with_values(
    scenario: AnyScenario,
    values: Values,
    further: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> Scenario:
    """Return a scenario with changed keys; errors call them as in `names`."""
    texts = [] if isinstance(values, Mapping) else as_list(values)
    changes = {**values} if isinstance(values, Mapping) else {}
    by_key = {**changes, **(further or {})}
    names = {**{key: f"--set {key}" for key in changes}, **(names or {})}
    with python_words(bool(changes)), _groups_named(changes):
        if isinstance(scenario, Path | str):
            return loading.load_scenario(scenario, texts, by_key, names)
        if isinstance(scenario, Scenario):
            if not texts and not by_key:
                return scenario
            written, folder = scenario.model_dump(mode="json"), scenario.folder
        else:
            written, folder = {**scenario}, Path()
        data, called = with_overrides(written, texts, by_key, names)
        data = with_set_keys(data, written, called)
        where = place_of(called, lambda key_path: dotted_key(key_path) or "scenario")
        return scenario_from_dict(data, where).with_folder(folder)
