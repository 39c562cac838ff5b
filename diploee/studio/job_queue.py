"""Queue of the jobs that a child process of the studio runs one at a time.

A job runs a simulation, or writes a report page or an export. `worker` is the program
of the child process.
"""

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


class JobQueue:
    """Queue of jobs for a child process that stays alive between jobs."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.child: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._stopping: asyncio.Task[None] | None = None

    async def start_child(self) -> None:
        """Start the child before the first job needs it."""
        async with self._turn:
            await self._running_child()

    async def run(self, job: Message, writes: Path) -> AsyncGenerator[Message, None]:
        """Run a job in the child, and yield its messages.

        If the caller leaves the loop, the job is stopped. `writes` is the folder from
        which unfinished files are removed if the job has to be killed.
        """
        while self._turn.locked():
            is_ready = self.child is not None
            yield {"waiting": "another run goes first" if is_ready else "getting ready"}
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    async with self._turn:
                        pass
        async with self._turn:
            await self._wait_for_stop()
            is_begun = is_done = False
            try:
                child = await self._running_child()
                is_begun = True
                assert child.stdin is not None
                child.stdin.write(json.dumps(job).encode() + b"\n")
                await child.stdin.drain()
                async with aclosing(self._messages(child)) as messages:
                    async for message in messages:
                        if "gone" in message:
                            await self._kill(writes)
                        is_done = "end" in message
                        yield message
            finally:
                # Nothing can be awaited after the page has closed
                if is_begun and not is_done:
                    self._stopping = asyncio.create_task(self._stop(writes))

    async def close(self) -> None:
        """End the child process, once a job that is being stopped has ended."""
        await self._wait_for_stop()
        if self._starting is not None:
            with suppress(DiploeeError):
                self.child = await self._starting
        await self._kill(None)

    async def _wait_for_stop(self) -> None:
        """Wait until the previous job has stopped."""
        if self._stopping is not None:
            await asyncio.shield(self._stopping)
            self._stopping = None

    async def _running_child(self) -> asyncio.subprocess.Process:
        """Return the running child; start it first if needed.

        If a page is closed meanwhile, the start is not cancelled.
        """
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
        """Start a child process, and wait until it is ready."""
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "diploee.studio.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_LINE_B,
            start_new_session=True,  # Ctrl-C in the terminal ends only the studio
        )
        if not await self._read_message(child):
            raise DiploeeError("the process for runs can't be started")
        return child

    async def _messages(
        self, child: asyncio.subprocess.Process
    ) -> AsyncGenerator[Message, None]:
        """Yield the child's messages until its job ends; empty ones in silence."""
        while True:
            try:
                async with asyncio.timeout(BEAT_S):
                    message = await self._read_message(child)
            except TimeoutError:
                yield {}
                continue
            ended = {
                "end": True,
                "gone": True,
                "problems": ["the run ended unexpectedly"],
            }
            yield message or ended
            if not message or "end" in message:
                return

    async def _read_message(self, child: asyncio.subprocess.Process) -> Message:
        """Return the child's next message; empty if the child has ended."""
        assert child.stdout is not None
        text = await child.stdout.readline()
        message: Message = json.loads(text) if text else {}
        return message

    async def _stop(self, writes: Path) -> None:
        """Stop the current job, by force if necessary, and remove unfinished files."""
        child = self.child
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        try:
            async with asyncio.timeout(STOPS_S):
                while message := await self._read_message(child):
                    if "end" in message:
                        return
        except TimeoutError:
            pass
        await self._kill(writes)

    async def _kill(self, writes: Path | None) -> None:
        """Kill the child, and remove its unfinished files."""
        child, self.child = self.child, None
        if child is not None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()
        if writes is not None and writes.is_dir():
            await asyncio.to_thread(remove_leftovers, writes, 0.0)
