"""Induction motor connected directly to the grid, with slip as its only state.

At slip s and frequency f [pu] the motor has the impedance of the composite load model's
circuit in steady state, ``Z = Ra + j f (Lp + (Ls - Lp) / (1 + j s f w0 Tpo))``, with
resistance Ra, synchronous and transient inductance Ls and Lp [pu], rotor time constant
Tpo [s] and nominal angular frequency w0 [rad/s]. The speed w follows ``2 H dw/dt = Te -
Tm``, with inertia constant H [s], electrical torque Te and constant load torque Tm, in
pu.

See also: docs/models/ride_through.md
"""

from __future__ import annotations

from math import ceil, pi

import scipy

LOADING, RA, LS, LP = 0.75, 0.04, 1.8, 0.12
TPO_S, H_S = 0.095, 0.1
"""Motor A of a data center in pnnl/LL-risk-assessment [pu of its rating, s]."""

STEP_S = 0.001
STEADY = 1e-9
"""Imbalance of torque below which the speed is constant [pu]."""


class Motor:
    """Induction motor with a constant load torque, at a nominal frequency [Hz]."""

    def __init__(self, nominal_hz: float) -> None:
        self._w0 = 2 * pi * nominal_hz
        slip = scipy.optimize.brentq(
            lambda s: self.power(1 - s, 1.0, 1.0).real - LOADING, 0.0, 0.2, xtol=1e-15
        )
        self.nominal_pu = 1 - float(slip)  # speed
        self.nominal = self.power(self.nominal_pu, 1.0, 1.0)
        self._torque = self._electrical_torque(self.nominal_pu, 1.0, 1.0)

    def power(self, speed_pu: float, pu: float, frequency: float) -> complex:
        """Return P + jQ at a speed, voltage and frequency, all per unit of ratings."""
        return pu**2 / self._impedance(speed_pu, frequency).conjugate()

    def advance_speed(
        self, speed_pu: float, length_s: float, pu: float, frequency: float
    ) -> float:
        """Return the speed [pu] after `length_s` at constant voltage and frequency.

        The motor never turns backwards.
        """
        n = ceil(length_s / STEP_S)
        for _ in range(n):
            excess = self._electrical_torque(speed_pu, pu, frequency) - self._torque
            if abs(excess) < STEADY or (speed_pu == 0 and excess < 0):
                break
            speed_pu = max(speed_pu + excess / (2 * H_S) * length_s / n, 0.0)
        return speed_pu

    def _electrical_torque(self, speed_pu: float, pu: float, frequency: float) -> float:
        """Return the electrical torque [pu] at a speed, voltage and frequency."""
        impedance = self._impedance(speed_pu, frequency)
        return (impedance.real - RA) * pu**2 / abs(impedance) ** 2 / frequency

    def _impedance(self, speed_pu: float, frequency: float) -> complex:
        """Return the circuit's impedance [pu] at a speed and frequency."""
        slip_f = frequency - speed_pu
        return RA + 1j * frequency * (
            LP + (LS - LP) / (1 + 1j * slip_f * self._w0 * TPO_S)
        )
