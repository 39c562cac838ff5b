"""A run that was stopped ends at its next stage or lap."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pydantic import BaseModel, model_serializer

from diploee.base.progress import (
    Progress,
    Stopwatch,
    Update,
    show_progress,
    stage,
    stop_with,
)
from diploee.loads.jobs.rates import bisect
from tests.command_line import call


@pytest.fixture(autouse=True)
def _nothing_stops_other_tests() -> Iterator[None]:
    yield
    stop_with(None)


@pytest.mark.parametrize("part", ["stage", "lap"])
def test_interruption_that_a_callback_swallowed_ends_the_run_at_its_next_part(
    part: str,
) -> None:
    class Stop(BaseException):
        pass

    watch = Stopwatch(Progress())
    with watch.lap("before"):
        pass
    stop_with(Stop())  # as the handler does, whose error is lost
    with pytest.raises(Stop), getattr(watch, part)("after"):
        pytest.fail("went on")
    stop_with(None)
    with getattr(watch, part)("later"):
        pass
    assert "later" in watch.stages


def commands_do(what: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "diploee.cli.app.application", lambda _word, alone: lambda _words, **_: what()
    )


def test_interrupt_that_a_library_makes_an_error_of_ends_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Block(BaseModel):
        @model_serializer
        def interrupted(self) -> None:
            signal.raise_signal(signal.SIGINT)

    commands_do(Block().model_dump, monkeypatch)
    ended = call("run")
    assert (ended.code, ended.problem) == (
        130,
        "interrupted; what was not finished is removed",
    )


def test_interrupted_command_stops_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands_do(lambda: signal.raise_signal(signal.SIGINT), monkeypatch)
    assert call("run").code == 130
    with Stopwatch(Progress()).stage("of another command"):
        pass


def test_bar_of_a_search_for_a_target_moves_forward_alone() -> None:
    fractions: list[float] = []

    class Watch(Progress):
        @contextmanager
        def stage(self, name: str) -> Iterator[Update]:
            yield lambda fraction, _text: fractions.append(fraction)

    with show_progress(Watch()), stage("plan"):
        found, _, steps = bisect(lambda x: x**3, 0.3, 0.0, 1.0, 1e-9)
    assert found == pytest.approx(0.3 ** (1 / 3))
    assert len(fractions) == steps - 1 > 10
    assert (
        fractions == sorted(fractions) and fractions[0] > 0 and 0.9 < fractions[-1] < 1
    )


def test_long_part_within_a_silent_run_shows_no_bar_of_its_own() -> None:
    shown: list[str] = []

    class Watch(Progress):
        @contextmanager
        def stage(self, name: str) -> Iterator[Update]:
            shown.append(name)
            yield lambda *_: None

    with show_progress(Watch()):
        with Stopwatch(Progress()).stage("simulate"), stage("read log"):
            pass
        assert not shown
        with stage("fit"), stage("read log"):
            pass
    assert shown == ["fit"]
