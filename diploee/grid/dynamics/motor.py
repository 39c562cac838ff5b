"""Induction motor on line, with slip as its only state.

``Z = Ra + j f (Lp + (Ls - Lp) / (1 + j s f w0 Tpo))`` is the circuit of the load
models' motor in steady state, at a slip s and a frequency f in pu;
``2 H dw/dt = Te - Tm`` with a constant Tm.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from math import ceil, pi

import scipy

LOADING, RA, LS, LP = 0.75, 0.04, 1.8, 0.12
TPO_S, H_S = 0.095, 0.1
"""Motor A of pnnl/LL-risk-assessment's record for a data center: pu of its rating, s."""  # noqa: E501

STEP_S = 0.001
STEADY = 1e-9
"""Imbalance of torque below which its speed is settled [pu]."""


class Motor:
    """Induction motor of constant torque at a nominal grid frequency [Hz]."""

    def __init__(self, nominal_hz: float) -> None:
        self._w0 = 2 * pi * nominal_hz
        slip = scipy.optimize.brentq(
            lambda s: self.drawn(1 - s, 1.0, 1.0).real - LOADING, 0.0, 0.2, xtol=1e-15
        )
        self.nominal_pu = 1 - float(slip)  # speed
        self.nominal = self.drawn(self.nominal_pu, 1.0, 1.0)
        self._torque = self._pulls(self.nominal_pu, 1.0, 1.0)

    def drawn(self, speed_pu: float, pu: float, frequency: float) -> complex:
        """Return P + jQ at a speed, voltage and frequency [pu of its rating]."""
        return pu**2 / self._circuit(speed_pu, frequency).conjugate()

    def turned(
        self, speed_pu: float, length_s: float, pu: float, frequency: float
    ) -> float:
        """Return the speed after a time at a constant voltage and frequency.

        It does not turn backwards.
        """
        n = ceil(length_s / STEP_S)
        for _ in range(n):
            more = self._pulls(speed_pu, pu, frequency) - self._torque
            if abs(more) < STEADY or (speed_pu == 0 and more < 0):
                break
            speed_pu = max(speed_pu + more / (2 * H_S) * length_s / n, 0.0)
        return speed_pu

    def _pulls(self, speed_pu: float, pu: float, frequency: float) -> float:
        circuit = self._circuit(speed_pu, frequency)
        return (circuit.real - RA) * pu**2 / abs(circuit) ** 2 / frequency

    def _circuit(self, speed_pu: float, frequency: float) -> complex:
        slip_f = frequency - speed_pu
        return RA + 1j * frequency * (
            LP + (LS - LP) / (1 + 1j * slip_f * self._w0 * TPO_S)
        )
