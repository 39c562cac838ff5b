"""Runs, or the blocks of one run, on an existing Dask cluster.

For runs the workers must reach the sweep's folder or URL, for blocks the files of the profiles.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from typing import Any

from diploee.errors import DiploeeError, InputError
from diploee.sweeps.store import open_store
from diploee.sweeps.task import Outcome, RunTask, run_task

CONNECT_TIMEOUT_S = 5
GATHER_TIMEOUT_S = 60
LOOK_S, WORKERLESS_S = 5.0, 60.0
"""Period of the check for workers, and how long a run waits for new ones."""
RETRIES = 2
_LOGGERS = (  # each has a level of its own, or gets one from distributed
    *("distributed", "distributed.client", "distributed.core"),
    *("tornado", "tornado.application", "asyncio"),
)
TOKEN_FILE = ".dask-probe"  # no password: a file that workers must see


def run_on_dask(tasks: Sequence[RunTask], address: str) -> Iterator[Outcome]:
    """Do runs on the workers of a Dask cluster.

    A run whose worker dies is done again by another one; Dask gives it up when that happened
    three times.

    Parameters
    ----------
    tasks : sequence of RunTask
        Handed to the scheduler all at once.
    address : str
        Of the scheduler, such as ``tcp://10.0.0.1:8786``.

    Returns
    -------
    iterator of Outcome
        As they come. When it is closed, what has not begun is taken back.

    Raises
    ------
    InputError
        Before any run: if `distributed` is not installed, the address does not answer, there is
        no worker, or a worker does not see the sweep's folder.
    DiploeeError
        If the scheduler goes away.
    """
    outcomes = _run_on_dask(tasks, address)
    next(outcomes)  # connects and checks now, not at the first outcome that is asked for
    return outcomes


def _run_on_dask(tasks: Sequence[RunTask], address: str) -> Iterator[Any]:
    with _connected(address) as client:
        _check_workers(client, address, tasks)
        yield None
        yield from _outcomes(client, address, tasks)


@contextmanager
def cluster_executor(address: str) -> Iterator[Executor]:
    """Give an executor whose workers are those of a Dask cluster."""
    with _connected(address) as client:
        yield _ClusterExecutor(client, address)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Give a client of a scheduler that has workers; let go of it at the end."""
    client = _connect(address)
    try:
        _wait_for_workers(client, address)
        yield client
    finally:
        with suppress(OSError, TimeoutError):  # the scheduler may not answer any more
            client.close(timeout=5)  # releases the futures; Dask drops what has not begun


class _ClusterExecutor(Executor):
    """Calls on the workers of a Dask cluster, as `concurrent.futures` has them.

    The client's own ``get_executor`` would not do: a future whose result is on its way when the
    scheduler goes away never ends there.
    """

    def __init__(self, client: Any, address: str) -> None:
        self.address = address
        self._client = client

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do a call on a worker and return its future.

        The result is fetched as soon as it is there. It raises what the call raised, or
        `DiploeeError` if the cluster failed.
        """
        with _cluster_errors(self.address):
            on_worker = self._client.submit(fn, *args, pure=False, **kwargs)
        return asyncio.run_coroutine_threadsafe(
            self._result(on_worker), self._client.loop.asyncio_loop
        )

    async def _result(self, on_worker: Any) -> Any:
        with _cluster_errors(self.address, on_worker):
            result = asyncio.ensure_future(self._client.gather(on_worker, asynchronous=True))
            n_without = 0
            while not (await asyncio.wait([result], timeout=LOOK_S))[0]:
                n_without = 0 if await self._client.scheduler.ncores() else n_without + 1
                if n_without * LOOK_S > WORKERLESS_S:
                    result.cancel()
                    raise ConnectionError("no worker is left")
            return result.result()

    def share(self, value: Any) -> Any:
        """Send a value to workers that need it and return its handle for calls.

        It is the result of a task: of one whose last copy went with its worker Dask does the task
        again. Scattered data can't be had again, and Dask's memory manager drops their copies.
        """
        with _cluster_errors(self.address), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is large
            return self._client.submit(_same, value, pure=False)


def _same(value: Any) -> Any:
    return value


@contextmanager
def _cluster_errors(address: str, on_worker: Any = None) -> Iterator[None]:
    """Turn a failure for the cluster's sake, not that of a call on a worker, into our error."""
    from distributed import CancelledError, KilledWorker
    from distributed.client import ClosedClientError

    try:
        yield
    except (ClosedClientError, CancelledError, KilledWorker, OSError) as error:
        if isinstance(error, OSError) and on_worker is not None and on_worker.status == "error":
            raise  # of the call, such as a file that is missing there
        raise DiploeeError(
            f"--dask {address}: the cluster failed ({type(error).__name__}); nothing was kept, "
            "check its scheduler and workers and start the run again"
        ) from error


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
        return Client(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"--dask {address}: no Dask scheduler answers there within {CONNECT_TIMEOUT_S} s; "
            "start one with 'dask scheduler' and give its address, such as tcp://10.0.0.1:8786"
        ) from error


def _wait_for_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_TIMEOUT_S)
    except TimeoutError as error:
        raise InputError(
            f"--dask {address}: the scheduler has no workers; start some with "
            f"'dask worker {address}'"
        ) from error


def _check_workers(client: Any, address: str, tasks: Sequence[RunTask]) -> None:
    """Check that the workers see the sweep's folder or URL."""
    target, token = tasks[0].target, uuid.uuid4().hex
    store = open_store(target)
    store.write(TOKEN_FILE, token.encode())
    try:
        seen = client.run(_sees, target, token)
    except Exception as error:  # whatever goes wrong on a worker comes back as is
        raise InputError(
            f"--dask {address}: a worker can't run diploee ({type(error).__name__}: "
            f"{' '.join(str(error).split()):.200}); install the same version on every worker"
        ) from error
    finally:
        store.remove(TOKEN_FILE)
    blind = [worker for worker, sees in seen.items() if not sees]
    if blind:
        raise InputError(
            f"--dask {address}: worker {blind[0]} does not see --out {target}; use a folder that "
            "all machines share, or a URL such as s3://bucket/sweep"
        )


def _sees(target: str, token: str) -> bool:
    try:
        return open_store(target).read(TOKEN_FILE) == token.encode()
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
    except OSError as error:
        raise DiploeeError(
            f"--dask {address}: the scheduler went away; finished runs are kept, start the "
            "sweep again to go on"
        ) from error


def _outcome(future: Any, run: str) -> Outcome:
    if future.status == "finished":
        outcome: Outcome = future.result(timeout=GATHER_TIMEOUT_S)
        return outcome
    if future.status == "cancelled":
        raise ConnectionError("the scheduler forgot the run")
    error = " ".join(str(future.exception(timeout=GATHER_TIMEOUT_S)).split())
    return Outcome(run, f"its Dask worker failed: {error:.300}")
