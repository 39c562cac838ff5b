"""Choices by name: what all of them have in common, whatever they choose."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from command_line import call
from jsonschema import Draft202012Validator

from diploee.base import model
from diploee.base.errors import InputError
from diploee.base.model import Kinds, Model, entry_point_objects
from diploee.facility import STAGES, StageSpec
from diploee.facility.loss_curves import MEASURED, SUPPLIES
from diploee.facility.node_power import AC_POWER
from diploee.grid.export import FORMATS
from diploee.importers import JOB_LOG_FORMATS
from diploee.importers.request_traces import TRACE_FORMATS
from diploee.scenario import SCHEDULERS, SchedulerSpec
from diploee.scenario.recurring import BATCH_SIZE_OPTIMIZERS, POWER_LIMIT_OPTIMIZERS
from diploee.sweeps.draws import DRAWS

ALL: list[Kinds[Any]] = [
    AC_POWER,
    MEASURED,
    SUPPLIES,
    STAGES,
    SCHEDULERS,
    DRAWS,
    BATCH_SIZE_OPTIMIZERS,
    POWER_LIMIT_OPTIMIZERS,
]


class Site(Model):
    """A group with two choices."""

    stage: Annotated[StageSpec, STAGES]
    scheduler: Annotated[SchedulerSpec, SCHEDULERS]


EITHER = {
    "battery": "a battery has one mode",
    "cooling_table": "give either points or path",
    "ramp_limit": "give up_mw_per_min, down_mw_per_min or both",
}


@pytest.mark.parametrize("kinds", ALL, ids=lambda kinds: kinds.what)
def test_each_name_is_listed_once_and_leads_to_its_spec(kinds: Kinds[Any]) -> None:
    names = list(kinds)
    assert len(names) == len(set(names)) > 0
    for name, spec in kinds.by_name.items():
        needed = [
            key for key, field in spec.model_fields.items() if field.is_required()
        ]
        if name in EITHER:  # one of several keys
            with pytest.raises(ValueError, match=EITHER[name]):
                kinds.read(name)
        elif needed:
            with pytest.raises(ValueError, match=f"{needed[0]}\n *Field required"):
                kinds.read(name)
        else:
            assert type(kinds.read(name)) is spec
        assert spec.__doc__


@pytest.mark.parametrize("kinds", ALL, ids=lambda kinds: kinds.what)
def test_an_unknown_kind_is_refused_with_the_names_and_a_taken_name_too(
    kinds: Kinds[Any],
) -> None:
    for given in (5, None, ["x"], {}, {"kind": 5}, {"kind": "no such"}, "no such"):
        with pytest.raises(ValueError, match=r"must be an? .* \('") as caught:
            kinds.read(given)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 500
    name, first = next(iter(kinds.by_name.items()))
    with pytest.raises(InputError, match=f"kind '{name}' is taken by {first.__name__}"):
        kinds.register(type("Other", (first,), {"__module__": __name__}))
    assert kinds.register(first) is first


def test_what_is_no_spec_or_has_no_name_or_can_not_be_opened_is_refused() -> None:
    class Nameless(SchedulerSpec):
        """Says no kind."""

    class Silent(SchedulerSpec):
        kind: Literal["silent"] = "silent"

    with pytest.raises(InputError, match="stage kinds are derived from StageSpec, "):
        STAGES.register(int)  # type: ignore[type-var]
    with pytest.raises(InputError, match="Nameless: give 'kind' a default, the kind's"):
        SCHEDULERS.register(Nameless)
    with pytest.raises(InputError, match=r"^kind 'silent': Silent has no method open"):
        Silent().open()


OWN = """
from typing import Literal
from diploee.grid.export import Format
from diploee.scenario import SchedulerSpec
class Last(SchedulerSpec):
    kind: Literal["last"] = "last"
    depth: int = 3
PIPES = Format(name="pipes", summary="", write=print)
"""


def test_own_kinds_and_formats_go_by_their_import_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_queue.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(SCHEDULERS, "added", {})
    given = {"kind": "own_queue:Last", "depth": 5}
    spec = SCHEDULERS.read(given)
    assert (type(spec).__name__, spec.depth, spec.model_dump()) == ("Last", 5, given)
    SCHEDULERS.added.clear()  # as in another process
    assert SCHEDULERS.read(spec.model_dump()) == spec
    assert FORMATS.named("export", "own_queue:PIPES").name == "pipes"


def test_path_without_a_kind_is_refused_in_one_line() -> None:
    for path in ("own_nowhere:Last", "diploee.scenario:Nope"):
        with pytest.raises(ValueError, match=f"^can't import '{path}'"):
            SCHEDULERS.read(path)
    with pytest.raises(ValueError, match=r"^scheduler kinds are derived from Sched"):
        SCHEDULERS.read("pathlib:Path")
    with pytest.raises(InputError, match=r"^export: can't import 'own_nowhere:x'"):
        FORMATS.named("export", "own_nowhere:x")
    with pytest.raises(InputError, match=r"^export: 'os:sep' is '/', no export format"):
        FORMATS.named("export", "os:sep")


def test_the_schema_takes_names_and_groups_of_keys_and_nothing_else() -> None:
    schema = Draft202012Validator(Site.model_json_schema())
    load = {"kind": "auxiliary_load", "power_kw": 5}
    for scheduler in ("fifo", {"kind": "fifo"}):
        assert schema.is_valid({"stage": load, "scheduler": scheduler})
    for wrong in ("lifo", {"kind": "lifo"}, {"kind": "fifo", "x": 1}, 5):
        assert not schema.is_valid({"stage": load, "scheduler": wrong})
    for wrong in ("constant_loss", {"power_kw": 5}, {"kind": "constant_loss"}):
        assert not schema.is_valid({"stage": wrong, "scheduler": "fifo"})


def test_the_help_of_a_command_lists_every_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    lists: dict[str, Iterable[str]] = {
        "export": FORMATS,
        "fit": JOB_LOG_FORMATS,
        "fit-requests": TRACE_FORMATS,
    }
    for command, names in lists.items():
        told = call(command, "--help").out
        assert [name for name in names if f"'{name}'" not in told] == []


def test_entry_points_that_are_absent_or_do_not_load_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry_point_objects.cache_clear()
    broken = EntryPoint("weather", "no_such_module:read", "diploee.readers")
    monkeypatch.setattr(model, "entry_points", lambda group: [broken][: group == "b"])
    with pytest.raises(InputError, match="no entry point gives 'weather'"):
        entry_point_objects("a")["weather"]
    with pytest.raises(InputError, match=r"does not load [(]No module named 'no_such_"):
        entry_point_objects("b")
    entry_point_objects.cache_clear()


def test_kinds_of_another_distribution_are_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from diploee.base.model import default\nfrom diploee.facility import *\n"
    spec = (
        'class RingMain(StageSpec):\n    kind: str = default("ring_main", "A ring.")\n'
    )
    spec += "    def open(self, site):\n        return None\n"
    (tmp_path / "rings_of_others.py").write_text(head + spec)
    about = tmp_path / "rings_of_others-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: rings-of-others\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[diploee.parts]\nring_main = rings_of_others:RingMain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry_point_objects.cache_clear()
    stages = Kinds("stage", StageSpec, "diploee.facility")
    assert stages.by_name["ring_main"].__module__ == "rings_of_others"
    assert "ring_main" not in Kinds(
        "scheduler", SchedulerSpec, "diploee.schedule.policies"
    )
    entry_point_objects.cache_clear()
