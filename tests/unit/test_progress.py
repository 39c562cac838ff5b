"""A run that was stopped ends at its next stage or lap."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, model_serializer

from diploee.progress import Progress, Stopwatch, stop_with
from tests.command_line import call


@pytest.fixture(autouse=True)
def _nothing_stops_other_tests() -> Iterator[None]:
    yield
    stop_with(None)


@pytest.mark.parametrize("part", ["stage", "lap"])
def test_interruption_that_a_callback_swallowed_ends_the_run_at_its_next_part(part: str) -> None:
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


def test_interrupt_that_a_library_makes_an_error_of_ends_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Block(BaseModel):
        @model_serializer
        def interrupted(self) -> None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(
        "diploee.cli.app.application", lambda _word, alone: lambda: Block().model_dump()
    )
    ended = call("run")
    assert (ended.code, ended.problem) == (130, "interrupted; what was not finished is removed")


def test_interrupted_command_stops_no_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "diploee.cli.app.application",
        lambda _word, alone: lambda: signal.raise_signal(signal.SIGINT),
    )
    assert call("run").code == 130
    with Stopwatch(Progress()).stage("of another command"):
        pass
