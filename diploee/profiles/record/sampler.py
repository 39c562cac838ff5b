"""Read all sensors at even times of a steady clock, in a thread beside the command."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from diploee.profiles.record.sensors import Sensor
from diploee.tables import Float64Array, Int64Array

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Samples:
    """What was read: one row per tick, one column per sensor.

    Parameters
    ----------
    t_ns : numpy.ndarray, shape (n, k), int64
        Middle of each reading [ns], from any start.
    power_w, energy_j : numpy.ndarray, shape (n, k), float64
        Readings [W], [J]; NaN where there is none.
    n_missed : int
        Ticks left out because the readings took too long or the machine was busy.
    """

    t_ns: Int64Array
    power_w: Float64Array
    energy_j: Float64Array
    n_missed: int


class Sampler:
    """Reads sensors into memory.

    Parameters
    ----------
    sensors : sequence of Sensor
        At least one.
    interval_s : float
        Time from tick to tick [s].
    clock : callable
        Steady clock [ns].
    """

    def __init__(
        self,
        sensors: Sequence[Sensor],
        interval_s: float,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._sensors = tuple(sensors)
        self._interval_ns = round(interval_s * NS_PER_S)
        self._clock = clock
        self._t_ns = array("q")
        self._values = array("d")
        self._n_missed = 0

    def sample(self) -> None:
        """Read every sensor once."""
        for sensor in self._sensors:
            before = self._clock()
            reading = sensor.read()
            self._t_ns.append((before + self._clock()) // 2)
            self._values.extend(reading)

    def run(self, wait: Callable[[float], bool]) -> None:
        """Sample at every tick until told to stop, then once more.

        A tick that has passed already is left out and counted: the ticks keep their places.

        Parameters
        ----------
        wait : callable
            Waits for a time [s]; returns True to stop, as `threading.Event.wait` does.
        """
        start = self._clock()
        self.sample()
        tick = 1
        while True:
            passed = (self._clock() - start) // self._interval_ns
            if passed >= tick:
                self._n_missed += int(passed - tick + 1)
                tick = int(passed) + 1
            if wait((start + tick * self._interval_ns - self._clock()) / NS_PER_S):
                break
            self.sample()
            tick += 1
        self.sample()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample in a thread while the block lasts; its first sample is taken before."""
        stop, started = threading.Event(), threading.Event()
        failed: list[BaseException] = []

        def wait(seconds: float) -> bool:
            started.set()
            return stop.wait(seconds)

        def work() -> None:
            try:
                self.run(wait)
            except BaseException as error:  # noqa: BLE001  # raised again where it can be seen
                failed.append(error)
            finally:
                started.set()

        thread = threading.Thread(target=work, name="power sampler", daemon=True)
        thread.start()
        started.wait()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]

    @property
    def samples(self) -> Samples:
        """All that was read so far."""
        k = len(self._sensors)
        values = np.array(self._values, dtype=np.float64).reshape(-1, k, 2)
        t_ns = np.array(self._t_ns, dtype=np.int64).reshape(-1, k)
        return Samples(t_ns, values[:, :, 0], values[:, :, 1], self._n_missed)
