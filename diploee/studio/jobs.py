"""Child process of the studio for one job at a time: start, progress and stop."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from diploee.base.errors import DiploeeError
from diploee.base.files import remove_leftovers

Message = dict[str, Any]

STOPS_S = 5.0
"""Time from a stop request to the kill of a job [s]."""
BEAT_S = 0.5
"""Interval of messages to a waiting page, which reveal a closed connection [s]."""
MAX_LINE_B = 1 << 22


class Jobs:
    """Queue of jobs for a child process that stays alive between jobs."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.child: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def warm(self) -> None:
        """Start the child, so that the first job need not wait for it."""
        async with self._turn:
            await self._started()

    async def do(self, job: Message, writes: Path) -> AsyncGenerator[Message, None]:
        """Yield what is said of a job.

        Leaving the loop stops it, whatever it was doing. `writes` is the folder where
        one that had to be killed may leave what was unfinished.
        """
        while self._turn.locked():
            is_ready = self.child is not None
            yield {"waiting": "another run goes first" if is_ready else "getting ready"}
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    async with self._turn:
                        pass
        async with self._turn:
            await self._stopped()
            is_begun = is_done = False
            try:
                child = await self._started()
                is_begun = True
                assert child.stdin is not None
                child.stdin.write(json.dumps(job).encode() + b"\n")
                await child.stdin.drain()
                async with aclosing(self._said(child)) as said:
                    async for message in said:
                        if "gone" in message:
                            await self._cleared(writes)
                        is_done = "end" in message
                        yield message
            finally:
                # Nothing can be awaited where a page has gone
                if is_begun and not is_done:
                    self._stopping = asyncio.create_task(self._stop(writes))

    async def close(self) -> None:
        """End the child, after the job that is being stopped."""
        await self._stopped()
        if self._starting is not None:
            with suppress(DiploeeError):
                self.child = await self._starting
        await self._cleared(None)

    async def _stopped(self) -> None:
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            self._stopping = None

    async def _started(self) -> asyncio.subprocess.Process:
        """Return the child; a page that goes away does not stop its start."""
        if self.child is None or self.child.returncode is not None:
            self._starting = starting = self._starting or asyncio.create_task(
                self._start()
            )
            try:
                self.child = await asyncio.shield(starting)
            finally:
                self._starting = None if starting.done() else starting
        return self.child

    async def _start(self) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "diploee.studio.work",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_LINE_B,
            start_new_session=True,  # Ctrl-C in the terminal is for the studio
        )
        if not await self._line(child):
            raise DiploeeError("the process for runs can't be started")
        return child

    async def _said(
        self, child: asyncio.subprocess.Process
    ) -> AsyncGenerator[Message, None]:
        """Yield what the child says to the end of its job, and beats in silence."""
        while True:
            try:
                async with asyncio.timeout(BEAT_S):
                    message = await self._line(child)
            except TimeoutError:
                yield {}
                continue
            gone = {
                "end": True,
                "gone": True,
                "problems": ["the run ended unexpectedly"],
            }
            yield message or gone
            if not message or "end" in message:
                return

    async def _line(self, child: asyncio.subprocess.Process) -> Message:
        assert child.stdout is not None
        text = await child.stdout.readline()
        message: Message = json.loads(text) if text else {}
        return message

    async def _stop(self, writes: Path) -> None:
        """Stop the job in hand, by force if need be, and remove what it left."""
        child = self.child
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOPS_S):
                while message := await self._line(child):
                    if "end" in message:
                        return
        except TimeoutError:
            pass
        await self._cleared(writes)

    async def _cleared(self, writes: Path | None) -> None:
        """End the child at once, and remove what it left."""
        child, self.child = self.child, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if writes is not None and writes.is_dir():
            await asyncio.to_thread(remove_leftovers, writes, 0.0)
