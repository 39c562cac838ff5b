"""Ride-through of a block: closed forms, and a stepped oracle."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isinf

import numpy as np
import pytest

from diploee.base.errors import InputError
from diploee.grid.dynamics.block_ride_through import (
    BlockRideThrough,
    Response,
    Voltage,
    simulate_response,
)
from diploee.grid.dynamics.events import EVENTS
from diploee.scenario.ride_through import RideThrough, shortest_dip_s

PERC1 = RideThrough(preset="perc1")
OEM = RideThrough(preset="oem_like")
FOUR = RideThrough(preset="four_stages")
STAGE = ["voltage_pu", "time_s", "fraction", "side"]


def dips(*of: tuple[float, float, float]) -> Voltage:
    """Return dips of (start, length, residual) from 1 pu."""
    stamps = [(-1.0, 1.0)]
    for start, length, residual in of:
        stamps += [(start, residual), (start + length, 1.0)]
    times, volts = zip(*stamps, strict=True)
    return Voltage(times, volts)


def settings(*stages: tuple, back: tuple = (0.95, 1.0, 4.0), **more) -> RideThrough:
    recovery = dict(zip(("voltage_pu", "time_s", "ramp_s"), back, strict=True))
    rows = [dict(zip(STAGE, row, strict=False)) for row in stages]
    return RideThrough(**({"stages": rows, "recovery": recovery} | more))


def on_at(found: Response, time_s: float) -> float:
    t, on = np.array([point for point in found.points if np.isfinite(point[0])]).T
    return float(np.interp(time_s, t, on, left=1.0))


def ceases(found: Response) -> list[float]:
    return [change.time_s for change in found.changes if change.kind == "transfer"]


def full(found: Response) -> float:
    assert found.points[-1][1] == pytest.approx(1, abs=1e-12)
    return found.points[-1][0]


class TestClosedForms:
    """Times of trips computed apart, to the last digit."""

    @pytest.mark.parametrize(
        ("chosen", "stage", "dip", "shortest_ms", "ceases_ms", "ramps_ms"),
        [
            (PERC1, (0.5, 0.01), (0, 1, 0.4), 44.479, 45.835, None),
            (PERC1, (0.5, 0.01), (0, 0.0446, 0.4), 44.479, 45.835, 100.434),
            (PERC1, (0.5, 0.01), (0, 0.0293, 0.25), 29.160, 31.972, 86.617),
            (PERC1, (0.5, 0.01), (0, 0.1, 0.25), 29.160, 31.972, 162.437),
            (OEM, (0.7, 0.03), (0, 0.042, 0.4), 34.028, 43.863, None),
            (FOUR, (0.9, 0.25), (0, 0.3, 0.85), 263.86, 271.972, 5_321.972),
        ],
    )
    def test_a_stage_trips_at_its_time_and_rides_a_shorter_dip(
        self, chosen, stage, dip, shortest_ms, ceases_ms, ramps_ms
    ):
        """Also where the trip comes after the end of the dip."""
        start, _, residual = dip
        shortest_s = shortest_dip_s(*stage, residual, 0.02)
        assert shortest_s * 1e3 == pytest.approx(shortest_ms, abs=5e-3)
        shorter = dips((start, shortest_s - 1e-5, residual))
        assert simulate_response(chosen, shorter, 150).changes == []
        found = simulate_response(chosen, dips(dip), 150)
        assert round(ceases(found)[0] * 1e3, 3) == ceases_ms
        if ramps_ms is not None:
            assert round(found.ramps[0] * 1e3, 3) == ramps_ms

    @pytest.mark.parametrize(
        ("length_ms", "residual"),
        [(42, 0.3850), (50, 0.4263), (58, 0.4520), (59, 0.4545), (66, 0.4684)],
    )
    def test_residual_at_which_a_dip_just_rides(self, length_ms, residual):
        low, high = 0.0, 0.4999
        for _ in range(60):
            middle = (low + high) / 2
            trips = shortest_dip_s(0.5, 0.01, middle, 0.02) <= length_ms / 1e3
            low, high = (middle, high) if trips else (low, middle)
        assert round(low, 4) == residual
        assert simulate_response(PERC1, dips((0, length_ms / 1e3, low - 1e-6))).changes
        assert not simulate_response(
            PERC1, dips((0, length_ms / 1e3, low + 1e-6))
        ).changes

    def test_without_a_filter_times_are_those_of_the_settings(self):
        found = simulate_response(
            RideThrough(preset="perc1", filter_s=0), dips((0, 0.042, 0.4))
        )
        assert ceases(found) == [pytest.approx(0.010, abs=1e-12)]
        assert found.ramps == [pytest.approx(0.092, abs=1e-12)]

    def test_ramp_after_a_deep_dip(self):
        voltage = dips((0, 0.1, 0.25))
        found = simulate_response(PERC1, voltage)
        (below,) = dips((0, 9, 0.4)).excursions(0.5, "under", 0.02)
        assert round(below.start * 1e3, 3) == 35.835
        assert round(voltage.excursions(0.6, "under", 0.02)[0].end * 1e3, 3) == 112.437
        assert round(on_at(found, 0.5), 5) == 0.33756
        assert round(on_at(found, 1.0), 5) == 0.83756
        assert round(found.ramps[0] + 0.9 - 0.1, 4) == 0.9624
        assert on_at(found, found.ramps[0] + 0.9) == pytest.approx(0.9)

    def test_time_below_a_level_is_longer_than_the_dip(self):
        (span,) = dips((0, 0.05, 0.4)).excursions(0.9, "under", 0.02)
        assert round((span.end - span.start) * 1e3, 1) == 80.5

    def test_second_dip_cuts_the_ramp_of_the_first(self):
        found = simulate_response(PERC1, dips((0, 0.1, 0.25), (0.8, 0.1, 0.25)))
        assert [round(t, 5) for t in ceases(found)] == [0.03197, 0.83197]
        assert round(found.changes[-2].before, 5) == 0.66954
        assert [round(t, 5) for t in found.ramps] == [0.16244, 0.96244]
        assert round(full(found), 5) == 1.96244

    def test_stages_in_parts(self):
        two = settings((0.90, 0.1, 0.4), (0.60, 0.04, 1.0))
        found = simulate_response(two, dips((0, 0.2, 0.75)))
        assert round(ceases(found)[0], 5) == 0.11022
        assert found.changes[0].after == pytest.approx(0.6)
        assert round(found.ramps[0], 5) == 1.23219
        assert round(full(found), 5) == 5.23219
        assert round(on_at(found, 2.0), 5) == 0.67678

    def test_deep_stage_goes_first_and_the_shallow_one_changes_nothing(self):
        two = settings((0.90, 0.1, 0.4), (0.60, 0.04, 1.0))
        found = simulate_response(two, dips((0, 0.2, 0.5)))
        assert [round(t, 5) for t in ceases(found)] == [0.07219]
        assert found.changes[0].after == 0
        assert round(found.ramps[0], 5) == 1.24605
        assert round(on_at(found, 3.0), 5) == 0.43849

    def test_four_stages_return_at_a_slope_in_mw(self):
        found = simulate_response(FOUR, dips((0, 0.3, 0.85)), 150)
        assert round(full(found), 6) == 185.321972


COUNTER = {"n": 3, "window_s": 60.0, "voltage_pu": 0.9}


class TestSixDips:
    """The dips of 2024-07-10, computed apart."""

    @pytest.mark.parametrize(
        ("change", "tau_s", "latch_s"),
        [
            ({}, 0.0, 15.860),
            ({}, 0.02, 15.863646),
            ({"merge_s": 1.0}, 0.0, 21.279),
            ({"merge_s": 6.0}, 0.0, None),
            ({"hold_s": 0.05}, 0.0, 21.329),
            ({"hold_s": 0.051}, 0.0, None),
            ({"hold_s": 0.05}, 0.02, 15.913646),
            ({"window_s": 15.5}, 0.02, None),
            ({"window_s": 10.0}, 0.02, None),
            ({"n": 4}, 0.0, 21.279),
            ({"n": 5}, 0.0, None),
            ({"n": 5, "window_s": 82.0}, 0.0, 76.249),
            ({"voltage_pu": 0.25}, 0.02, None),
        ],
    )
    def test_counting_rules_latch_when_the_sheet_says(self, change, tau_s, latch_s):
        rule = RideThrough(counter=COUNTER | change, filter_s=tau_s)
        found = simulate_response(rule, EVENTS["nerc_2024_07_10"].voltage(0.40), 1260)
        if latch_s is None:
            assert found.changes == []
            assert found.latched_s is None
        else:
            assert [round(t, 6) for t in (found.latched_s, *ceases(found))] == [
                latch_s
            ] * 2
            assert found.points[-1][1] == 0

    def test_with_the_counter_off_nothing_leaves(self):
        deep = RideThrough(stages=({"voltage_pu": 0.25, "time_s": 0.0},), filter_s=0.0)
        for residual in (0.40, 0.25):
            found = simulate_response(
                deep, EVENTS["nerc_2024_07_10"].voltage(residual), 1260
            )
            assert (found.changes, found.latched_s) == ([], None)
        counts = RideThrough(stages=deep.stages, counter=COUNTER, filter_s=0.0)
        assert (
            simulate_response(
                counts, EVENTS["nerc_2024_07_10"].voltage(0.40), 1260
            ).latched_s
            == 15.860
        )

    def test_default_stage_rides_the_first_dip_and_comes_back_from_the_others(self):
        found = simulate_response(PERC1, EVENTS["nerc_2024_07_10"].voltage(0.40))
        at = [0.5778, 15.9058, 21.3248, 76.2948, 81.7108]
        assert [round(t, 4) for t in ceases(found)] == at
        back = [0.6554, 15.9750, 21.3854, 76.3724, 81.7810]
        assert [round(t, 4) for t in found.ramps] == back
        assert {c.after for c in found.changes if c.kind == "return"} == {1.0}

    def test_default_stage_ceases_at_all_six_deeper_dips(self):
        found = simulate_response(PERC1, EVENTS["nerc_2024_07_10"].voltage(0.25))
        assert len(ceases(found)) == 6
        assert [round(t, 4) for t in found.ramps[:2]] == [0.1020, 0.6598]
        cut = next(change for change in found.changes if change.kind == "return")
        assert (round(cut.time_s, 4), round(cut.after, 4)) == (0.5640, 0.4620)

    def test_slow_return_is_cut_by_the_next_dips(self):
        found = simulate_response(OEM, EVENTS["nerc_2024_07_10"].voltage(0.40))
        at = [0.0439, 15.9039, 21.3229, 76.2929, 81.7089]
        assert [round(t, 4) for t in ceases(found)] == at
        back = [5.6331, 20.9527, 26.3631, 81.3501, 86.7588]
        assert [round(t, 4) for t in found.ramps] == back
        ends = [round(c.time_s, 4) for c in found.changes if c.kind == "return"]
        assert ends == [15.6331, 21.3229, 36.3631, 81.7089, 96.7588]


class Stepped:
    """A state machine on a grid of time, for one block; an oracle that shares
    no code.

    Within a step the filtered voltage is taken as a line, which says when it crosses a
    level.
    """

    def __init__(self, of: RideThrough, step_s: float) -> None:
        self.of, self.h = of, step_s

    def run(
        self, voltage: Voltage, until_s: float
    ) -> Iterator[tuple[float, str, float]]:
        of, h, rule, back = self.of, self.h, self.of.counter, self.of.recovery
        times = (
            voltage.time_s[0] + np.arange(round((until_s - voltage.time_s[0]) / h)) * h
        )
        held = np.asarray(voltage.pu)[
            np.searchsorted(voltage.time_s, times + h / 2, "right") - 1
        ]
        filtered, keep = held[0], np.exp(-h / of.filter_s) if of.filter_s else 0.0
        since, fired = [inf] * len(of.stages), [False] * len(of.stages)
        on, committed, most, due = 1.0, 0.0, 1.0, list[float]()
        ceased_s, well_s, ramp, strikes = inf, -inf, None, list[float]()
        latched, below_s, ended, counted = False, inf, -inf, False

        def ramped(at: float) -> float:
            start, low, goal = ramp
            part = (at - start) / back.ramp_s if back.ramp_s else 1.0
            return low + min(part, 1.0) * (goal - low)

        for now, value in zip(times, held, strict=True):
            before, filtered = filtered, value + (filtered - value) * keep
            at, commits, picked, left_s = (
                now + h,
                list[tuple[float, float]](),
                False,
                -inf,
            )
            end = at

            def crossed(level: float, before=before, after=filtered, now=now) -> float:
                return now + h * (before - level) / (before - after)

            for k, stage in enumerate(of.stages):
                sign = 1 if stage.side == "under" else -1
                beyond = sign * (stage.voltage_pu - filtered) > 0
                picked |= beyond
                if beyond and since[k] == inf:
                    since[k], fired[k] = crossed(stage.voltage_pu), False
                end = at
                if not beyond and since[k] < inf:
                    left_s = end = max(left_s, crossed(stage.voltage_pu))
                if since[k] + stage.time_s <= end and not fired[k]:
                    fired[k] = True
                    commits.append((since[k] + stage.time_s, stage.fraction))
                if not beyond:
                    since[k] = inf
            if rule is not None:
                if filtered < rule.voltage_pu and below_s == inf:
                    below_s = crossed(rule.voltage_pu)
                    counted = below_s - ended < rule.merge_s
                if below_s < inf:
                    end = at if filtered < rule.voltage_pu else crossed(rule.voltage_pu)
                if below_s + rule.hold_s <= end and not counted:
                    counted, strike = True, below_s + rule.hold_s
                    strikes = [t for t in strikes if t >= strike - rule.window_s] + [
                        strike
                    ]
                    if len(strikes) >= rule.n and not latched:
                        latched = True
                        commits.append((strike, 1.0))
                if filtered >= rule.voltage_pu and below_s < inf:
                    below_s, ended = inf, end
            for time_s, fraction in sorted(commits):
                committed = max(committed, fraction)
                if ramp is not None:
                    on, ramp = ramped(time_s), None
                due.append(time_s + of.delay_s)
            while due and due[0] <= at:
                ceased_s = due.pop(0)
                if on > 1 - committed:
                    on = 1 - committed
                    yield ceased_s, "transfer", on
            well = back is not None and filtered >= back.voltage_pu and not picked
            if not well:
                well_s = inf
            elif well_s == inf:
                low = back.voltage_pu
                well_s = max(left_s, crossed(low) if before < low else -inf)
            starts = max(ceased_s, well_s) + (0 if back is None else back.time_s)
            if not latched and not due and ramp is None and starts <= at:
                ramp = (
                    starts,
                    on,
                    min(most, 1 - committed + back.fraction * committed),
                )
                yield starts, "ramp", on
            if ramp is not None and at >= ramp[0] + back.ramp_s:
                on, most = ramp[2], ramp[2]
                yield ramp[0] + back.ramp_s, "full", on
                ramp, ceased_s, committed = None, inf, 0.0


def random_case(rng: np.random.Generator) -> tuple[RideThrough, Voltage]:
    levels = np.sort(rng.uniform(0.3, 0.92, rng.integers(1, 4)))
    stages = [
        {"voltage_pu": v, "time_s": t, "fraction": f}
        for v, t, f in zip(
            levels,
            np.sort(rng.uniform(0.005, 0.4, levels.size)),
            rng.choice([0.3, 0.6, 1.0], levels.size),
            strict=True,
        )
    ]
    if rng.random() < 0.3:
        stages.append(
            {"voltage_pu": 1.08, "time_s": rng.uniform(0.01, 0.2), "side": "over"}
        )
    counter = None
    if rng.random() < 0.5:
        counter = {
            "n": int(rng.integers(2, 5)),
            "window_s": rng.uniform(1, 6),
            "voltage_pu": 0.9,
            "hold_s": rng.uniform(0, 0.1),
            "merge_s": rng.choice([0, rng.uniform(0, 0.5)]),
        }
    recovery = {
        "voltage_pu": rng.uniform(levels[-1], 0.97),
        "time_s": rng.uniform(0.01, 0.5),
        "ramp_s": rng.uniform(0.05, 2),
        "fraction": rng.choice([1.0, 0.8]),
    }
    chosen = RideThrough(
        stages=stages,
        recovery=recovery,
        counter=counter,
        delay_s=rng.choice([0, rng.uniform(0, 0.1)]),
        filter_s=rng.choice([0.005, 0.02, 0.05]),
    )
    times, at, volts = [-0.5], 0.0, [1.0]
    for _ in range(rng.integers(1, 7)):
        times += [at, at + rng.uniform(0.01, 0.5)]
        volts += [
            float(rng.choice([rng.uniform(0, 0.95), 1.15])),
            float(rng.uniform(0.97, 1.03)),
        ]
        at = times[-1] + rng.uniform(0.02, 1.5)
    grid = [round(t, 3) for t in times]
    return chosen, Voltage(tuple(grid), tuple(volts))


STEP_S = 0.0005


def compared(seed: int) -> str:
    """Return whether the stepped and the exact answer agree within a step, or why not."""  # noqa: E501
    chosen, voltage = random_case(np.random.default_rng(seed))
    until_s = voltage.time_s[-1] + 4.0
    exact = simulate_response(chosen, voltage)
    rows = list(Stepped(chosen, STEP_S).run(voltage, until_s))
    found = [t for t, what, _ in rows if what == "transfer"]
    wanted = [t for t in ceases(exact) if t < until_s - 0.01]
    ramps = [t for t, what, _ in rows if what == "ramp"]
    wanted_ramps = [t for t in exact.ramps if t < until_s - 0.01]
    same = len(found) == len(wanted) and len(ramps) == len(wanted_ramps)
    near = STEP_S
    if same and np.allclose(
        [*found, *ramps], [*wanted, *wanted_ramps], rtol=0, atol=near
    ):
        return "same"
    together = np.diff(wanted).min(initial=1.0) < near  # which one step holds both
    return "close" if together or has_close_call(chosen, voltage, near) else "different"


def has_close_call(chosen: RideThrough, voltage: Voltage, margin_s: float) -> bool:
    """Return whether a setting moved by the margin gives other transfers."""

    def counts(shift: float, v: float) -> tuple[int, int]:
        moved = chosen.model_dump(exclude_none=True)
        for stage in moved["stages"]:
            stage["time_s"] = max(stage["time_s"] + shift, 0)
            stage["voltage_pu"] += v
        moved["recovery"]["time_s"] = max(moved["recovery"]["time_s"] + shift, 0)
        moved["recovery"]["voltage_pu"] += v if v > 0 else 0
        if "counter" in moved:
            moved["counter"]["hold_s"] = max(moved["counter"]["hold_s"] + shift, 0)
            moved["counter"]["merge_s"] = max(moved["counter"]["merge_s"] + shift, 0)
            moved["counter"]["window_s"] = max(moved["counter"]["window_s"] - shift, 0)
        found = simulate_response(RideThrough(**moved), voltage)
        return len(ceases(found)), len(found.ramps)

    shifts = np.linspace(-margin_s, margin_s, 9)
    return len({counts(s, v) for s in shifts for v in (-2e-3, 0.0, 2e-3)}) > 1


def check_against_steps(seeds: range) -> None:
    found = [compared(seed) for seed in seeds]
    assert found.count("different") == 0, [
        s for s, f in zip(seeds, found, strict=True) if f == "different"
    ]
    assert found.count("close") <= max(1, 0.005 * len(found))
    assert found.count("same") >= 0.9 * len(found)


def test_stepped_and_exact_answers_agree_on_random_settings():
    check_against_steps(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.fuzz)])
def test_stepped_and_exact_answers_agree_on_hundreds_of_random_settings(n):
    check_against_steps(range(n))


def test_steps_of_any_length_give_the_answer_to_the_whole_series():
    def moves(found: Response) -> list[tuple]:
        times = [(c.time_s, c.kind, c.cause, c.after) for c in found.changes]
        return [
            *((round(t, 8), *of, round(on, 8)) for t, *of, on in times),
            *(round(t, 8) for t in found.ramps),
        ]

    n_moves = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chosen, voltage = random_case(rng)
        if seed % 4 == 0:
            chosen = chosen.model_copy(update={"filter_s": 0.0})
        machine = BlockRideThrough(chosen, 1.0, voltage.time_s[0], voltage.pu[0])
        for start, end, pu in voltage.intervals():
            end = min(end, start + 30)
            for at in np.sort(rng.uniform(start, end, rng.integers(0, 40))):
                machine.advance(float(at), pu)
            machine.advance(end, pu)
        assert moves(machine.response) == moves(simulate_response(chosen, voltage))
        n_moves += len(machine.response.changes)
        assert machine.fraction == pytest.approx(
            machine.response.points[-1][1], abs=1e-12
        )
    assert n_moves > 60


def test_a_stage_whose_level_is_not_reached_never_trips():
    assert isinf(shortest_dip_s(0.5, 0.01, 0.5, 0.02))
    assert simulate_response(PERC1, dips((0, 100, 0.5))).changes == []


@pytest.mark.parametrize(("times", "pu"), [
    ((0, 1, 1), (1, 0.4, 1)), ((0, 1), (1, float("nan"))), ((0, inf), (1, 0.4)), ((), ()),  # noqa: E501
])  # fmt: skip
def test_a_voltage_that_can_not_be_is_refused(times, pu):
    with pytest.raises(InputError, match="stamps that rise"):
        Voltage(times, pu)


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ({"voltage_pu": 1.05, "time_s": 1}, "under 1.05 pu is beyond it at 1 pu"),
        ({"voltage_pu": 0.9, "time_s": 1, "side": "over"}, "give 1 or more, or the"),
    ],
)
def test_a_stage_that_trips_at_nominal_voltage_is_refused(stage, text):
    with pytest.raises(ValueError, match=text):
        RideThrough(stages=[stage])


def test_manual_reset_lets_a_latched_block_return():
    rule = RideThrough(
        counter=COUNTER,
        recovery={"voltage_pu": 0.9, "time_s": 5, "ramp_s": 10},
        manual_reset_s=3600,
    )
    found = simulate_response(rule, EVENTS["nerc_2024_07_10"].voltage(0.40))
    assert found.ramps == [pytest.approx(found.latched_s + 3605)]
    assert full(found) == pytest.approx(found.latched_s + 3615)


def test_a_delay_holds_the_ramp_and_is_not_cancelled_by_recovery():
    slow = RideThrough(preset="perc1", delay_s=0.3)
    found = simulate_response(slow, dips((0, 0.1, 0.25), (0.8, 0.1, 0.25)))
    assert [round(t, 5) for t in ceases(found)] == [0.33197, 1.13197]
    held = on_at(found, 0.84)
    assert on_at(found, 1.13) == held > 0
