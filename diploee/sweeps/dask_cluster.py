"""Sweep runs on a Dask cluster, whose workers must reach the sweep's folder."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from diploee.base.errors import DiploeeError, InputError
from diploee.sweeps.folder import read_file, write_file
from diploee.sweeps.task import Outcome, RunTask, check_importable, run_task

CONNECT_TIMEOUT_S = 5
GATHER_TIMEOUT_S = 60
RETRIES = 2
_LOGGERS = (  # each has a level of its own, or gets one from distributed
    *("distributed", "distributed.client", "distributed.core"),
    *("tornado", "tornado.application", "asyncio"),
)
TOKEN_FILE = ".dask-probe"  # no password: a file that workers must see


def run_on_dask(tasks: Sequence[RunTask], address: Any) -> Iterator[Outcome]:
    """Execute runs on the workers of a Dask cluster.

    A run whose worker dies is repeated by another worker; Dask gives up after three
    attempts.

    Parameters
    ----------
    tasks : sequence of RunTask
        The runs, all of which are passed to the scheduler at once.
    address : str or distributed.Client
        Address of the scheduler, such as ``tcp://10.0.0.1:8786``, or a client of it.

    Returns
    -------
    iterator of Outcome
        Outcomes in the order of completion. When the iterator is closed, runs that have
        not begun are cancelled.

    Raises
    ------
    InputError
        Before any run, if `distributed` is not installed, the address does not respond,
        there is no worker, or a worker does not see the sweep's folder or can't import
        your own code.
    DiploeeError
        If the connection to the scheduler is lost.
    """
    check_importable(tasks)
    scheduler = getattr(address, "scheduler", None)  # of a client
    outcomes = _run_on_dask(tasks, scheduler.address if scheduler else str(address))
    # Connects and checks now, not at the first outcome that is asked for
    next(outcomes)
    return outcomes


def _run_on_dask(tasks: Sequence[RunTask], address: str) -> Iterator[Any]:
    client = _connect(address)
    try:
        _wait_for_workers(client, address)
        check_workers(client, address, tasks)
        yield None
        yield from _outcomes(client, address, tasks)
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may not answer any more
            # Releases the futures; Dask drops what has not begun
            client.close(timeout=5)


def _connect(address: str) -> Any:
    """Return a client of a scheduler, or raise `InputError`."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            f"--dask {address}: the package 'distributed' is missing; "
            "pip install 'diploee[dask]' here and on the workers"
        ) from error
    for name in _LOGGERS:  # what goes wrong is said by one line of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        # A client that was made and did not connect complains when Python ends.
        with ThreadPoolExecutor(1) as thread:  # a notebook's own has a loop already
            thread.submit(lambda: asyncio.run(_shake_hands(address))).result()
        return Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever answers there may send anything
        raise InputError(
            f"--dask {address}: no Dask scheduler answers there within "
            f"{CONNECT_TIMEOUT_S} s; start one with 'dask scheduler' and give its "
            "address, such as tcp://10.0.0.1:8786"
        ) from error


async def _shake_hands(address: str) -> None:
    """Raise an error unless a connection to a Dask scheduler can be opened."""
    from distributed.comm.core import connect

    comm = await connect(address, timeout=CONNECT_TIMEOUT_S)  # type: ignore[no-untyped-call]
    await comm.close()


def _wait_for_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except TimeoutError as error:
        raise InputError(
            f"--dask {address}: the scheduler has no workers; start some with "
            f"'dask worker {address}'"
        ) from error


def check_workers(client: Any, address: str, tasks: Sequence[RunTask]) -> None:
    """Raise `InputError` unless all workers see the sweep's folder."""
    target, token = tasks[0].target, uuid.uuid4().hex
    place = Path(target, TOKEN_FILE)
    write_file(place, token.encode())
    try:
        workers_with_folder = client.run(_worker_sees_folder, target, token)
    except Exception as error:  # whatever goes wrong on a worker comes back as is
        raise InputError(
            f"--dask {address}: a worker can't run diploee ({type(error).__name__}: "
            f"{' '.join(str(error).split()):.200}); install the same version on every "
            "worker"
        ) from error
    finally:
        with suppress(OSError):
            place.unlink()
    blind = [worker for worker, sees in workers_with_folder.items() if not sees]
    if blind:
        raise InputError(
            f"--dask {address}: worker {blind[0]} does not see --out {target}; use a "
            "folder that all machines share"
        )


def _worker_sees_folder(target: str, token: str) -> bool:
    try:
        return read_file(Path(target, TOKEN_FILE)) == token.encode()
    except OSError:
        return False


def _outcomes(client: Any, address: str, tasks: Sequence[RunTask]) -> Iterator[Outcome]:
    from distributed import as_completed

    batch = uuid.uuid4().hex[:8]
    futures = client.map(
        run_task,
        tasks,
        key=[f"diploee-{batch}-{task.run}" for task in tasks],
        pure=False,
        retries=RETRIES,
    )
    runs = {future.key: task.run for future, task in zip(futures, tasks, strict=True)}
    try:
        for future in as_completed(futures, loop=client.loop):  # type: ignore[no-untyped-call]
            outcome = _outcome(future, runs[future.key])
            future.release()
            yield outcome
    except (OSError, CancelledError) as error:
        raise DiploeeError(
            f"--dask {address}: the scheduler went away; finished runs are kept, "
            "start the sweep again to go on"
        ) from error


def _outcome(future: Any, run: str) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result(timeout=GATHER_TIMEOUT_S)
        return outcome
    if future.status == "cancelled":
        raise ConnectionError("the scheduler forgot the run")
    error = " ".join(str(future.exception(timeout=GATHER_TIMEOUT_S)).split())
    return Outcome(run, f"its Dask worker failed: {error:.300}")
