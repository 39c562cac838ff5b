"""Chart image of a power profile: the whole run, and two minutes in full detail."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from diploee.base.errors import plural
from diploee.base.units import MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_KW
from diploee.profiles.profile import PowerProfile
from diploee.reports.aggregate import block_means
from diploee.reports.drawing.charts import (
    PALETTE,
    Area,
    Axis,
    Chart,
    Line,
    Panel,
    repeat_last,
)
from diploee.reports.drawing.pictures import write_picture

ZOOM_MS = 2 * MS_PER_MIN
MEAN_MS = 10 * MS_PER_S
LONG_RUN_MS = 2 * MS_PER_H
LONG_RUN_MEAN_MS = MS_PER_MIN
_J_PER_KWH = 3.6e6


def plot_profile(profile: PowerProfile, path: Path, force: bool = False) -> None:
    """Draw a profile as a PNG.

    The upper panel shows the whole run [kW]: the range of the samples and their 10 s
    mean (60 s for runs over two hours). The lower panel shows each sample of two
    minutes with much variation; they are marked in the upper panel.
    """
    start = zoom_start(profile)
    stop = min(start + max(2, ZOOM_MS // profile.dt_ms), profile.power_w.size)
    panels = (_whole_run_panel(profile, start, stop), _zoom_panel(profile, start, stop))
    write_picture(Chart("profile", profile_title(profile), "", panels), path, force)


def profile_title(profile: PowerProfile) -> str:
    """Return the title: id and kind; then nodes, mean power, duration, energy."""
    kind = (
        "reference (synthesised)"
        if profile.provenance.kind == "reference"
        else "measured"
    )
    return (
        f"{profile.profile_id}: {kind}\n"
        f"{plural(profile.n_nodes, 'node')}, mean "
        f"{profile.mean_power_w / W_PER_KW:.4g} kW, "
        f"{profile.duration_ms / MS_PER_MIN:.1f} min, "
        f"{profile.energy_j / _J_PER_KWH:.4g} kWh"
    )


def zoom_start(profile: PowerProfile) -> int:
    """Return the index of the first sample of the lower panel.

    Windows that overlap by half are ranked by the total variation of their 1 s means.
    The window at the 5/6 quantile is selected, which is variable but not exceptional.
    """
    step_s = max(1, MS_PER_S // profile.dt_ms)
    n_seconds = profile.power_w.size // step_s
    n_zoom = max(2, ZOOM_MS // max(MS_PER_S, profile.dt_ms))
    if n_seconds <= n_zoom:
        return 0
    means_w = (
        profile.power_w[: n_seconds * step_s].reshape(n_seconds, step_s).mean(axis=1)
    )
    variation_w = np.concatenate(
        [[0.0], np.cumsum(np.abs(np.diff(means_w)), dtype=np.float64)]
    )
    starts = np.arange(0, n_seconds - n_zoom, max(1, n_zoom // 2))
    order = np.argsort(
        variation_w[starts + n_zoom] - variation_w[starts], kind="stable"
    )
    return int(starts[order[5 * (starts.size - 1) // 6]]) * step_s


def _whole_run_panel(profile: PowerProfile, start: int, stop: int) -> Panel:
    """Return the panel of the whole run, with the range of the lower panel marked."""
    step_min, kw = profile.dt_ms / MS_PER_MIN, profile.power_w / W_PER_KW
    mean_ms = LONG_RUN_MEAN_MS if profile.duration_ms > LONG_RUN_MS else MEAN_MS
    first = np.arange(0, kw.size, max(1, MEAN_MS // profile.dt_ms))
    low, high = (
        repeat_last(most.reduceat(kw, first)) for most in (np.minimum, np.maximum)
    )
    every = max(1, mean_ms // profile.dt_ms)
    ends = np.append(np.arange(0, kw.size, every), kw.size)  # the last one shorter
    middle, top = (ends[:-1] + ends[1:]) / 2 * step_min, 1.05 * float(high.max()) or 1.0
    samples = f"range of the {profile.dt_ms / MS_PER_S:g} s samples"
    x, marked_min = (
        np.append(first, kw.size) * step_min,
        np.array([start, stop]) * step_min,
    )
    return Panel(
        Axis("time [min]", range=(0, kw.size * step_min)),
        Axis("job power [kW]", range=(0, top)),
        (
            Area(x, low, high, samples, PALETTE[5], 0.7, steps=True),
            Line(
                middle,
                block_means(kw, every),
                f"{mean_ms // MS_PER_S} s mean",
                PALETTE[0],
                width=1.4,
            ),
            Area(
                marked_min,
                np.zeros(2),
                np.full(2, top),
                "lower panel",
                PALETTE[1],
                0.35,
            ),
        ),
        wide=True,
    )


def _zoom_panel(profile: PowerProfile, start: int, stop: int) -> Panel:
    """Return the panel of two minutes of the profile, sample by sample."""
    step_s = profile.dt_ms / MS_PER_S
    time_s, power_kw = (
        np.arange(stop - start) * step_s,
        profile.power_w[start:stop] / W_PER_KW,
    )
    return Panel(
        Axis(
            f"time since {start * step_s / 60:.1f} min [s]",
            range=(0, (stop - start) * step_s),
        ),
        Axis("job power [kW]"),
        (Line(time_s, power_kw, "samples", PALETTE[1], width=1.2, legend=False),),
        wide=True,
    )
