"""A picture of one power profile: the whole run, and two minutes of it at full resolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from diploee.profiles.profile import PowerProfile
from diploee.tables import Float32Array, Float64Array
from diploee.units import MS_PER_H, MS_PER_MIN, MS_PER_S, W_PER_KW

ZOOM_MS = 2 * MS_PER_MIN
MEAN_MS = 10 * MS_PER_S
LONG_RUN_MS = 2 * MS_PER_H
LONG_RUN_MEAN_MS = MS_PER_MIN
_J_PER_KWH = 3.6e6
_ENVELOPE_COLOUR, _MEAN_COLOUR, _ZOOM_COLOUR = "#8fb4d9", "#12395f", "#c4572b"


def plot_profile(profile: PowerProfile, path: Path) -> None:
    """Draw a profile as a PNG.

    The upper panel shows the whole run: the range of the samples and their 10 s mean (60 s over two
    hours) [kW]. The lower one shows two minutes that move more than most of the run, sample by
    sample; they are marked in the upper one.

    Parameters
    ----------
    profile : PowerProfile
        What to draw.
    path : pathlib.Path
        The PNG file; replaced if it exists.
    """
    figure = Figure(figsize=(10, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    whole, zoom = figure.subplots(2, 1)
    start = zoom_start(profile)
    stop = min(start + max(2, ZOOM_MS // profile.dt_ms), profile.power_w.size)
    figure.suptitle(title_of(profile), fontsize=11)
    _draw_whole(whole, profile, start, stop)
    _draw_zoom(zoom, profile, start, stop)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=110)


def title_of(profile: PowerProfile) -> str:
    """Return the two title lines: id and kind; nodes, mean power, duration, energy."""
    kind = "reference (synthesised)" if profile.provenance.kind == "reference" else "measured"
    nodes = "1 node" if profile.n_nodes == 1 else f"{profile.n_nodes} nodes"
    return (
        f"{profile.profile_id}: {kind}\n"
        f"{nodes}, mean {profile.mean_power_w / W_PER_KW:.4g} kW, "
        f"{profile.duration_ms / MS_PER_MIN:.1f} min, {profile.energy_j / _J_PER_KWH:.4g} kWh"
    )


def zoom_start(profile: PowerProfile) -> int:
    """Return the first sample of the two minutes to show.

    Of all such windows, half overlapping, it is the one that moves more than five in six others,
    by the way up and down of its one-second means: the fast part of a run, but not its rarest.
    """
    step_s = max(1, MS_PER_S // profile.dt_ms)
    n_seconds = profile.power_w.size // step_s
    n_zoom = max(2, ZOOM_MS // max(MS_PER_S, profile.dt_ms))
    if n_seconds <= n_zoom:
        return 0
    means_w = profile.power_w[: n_seconds * step_s].reshape(n_seconds, step_s).mean(axis=1)
    way_w = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(means_w)), dtype=np.float64)])
    starts = np.arange(0, n_seconds - n_zoom, max(1, n_zoom // 2))
    order = np.argsort(way_w[starts + n_zoom] - way_w[starts], kind="stable")
    return int(starts[order[5 * (starts.size - 1) // 6]]) * step_s


def _draw_whole(axes: Axes, profile: PowerProfile, start: int, stop: int) -> None:
    """Draw the range and the 10 s mean of the whole run, and where the lower panel lies."""
    power_w, step_min = profile.power_w, profile.dt_ms / MS_PER_MIN
    size = max(1, MEAN_MS // profile.dt_ms)
    blocks = np.arange(0, power_w.size, size)
    lowest_w = np.minimum.reduceat(power_w, blocks)
    highest_w = np.maximum.reduceat(power_w, blocks)
    axes.fill_between(
        np.append(blocks, power_w.size) * step_min,
        np.append(lowest_w, lowest_w[-1]) / W_PER_KW,
        np.append(highest_w, highest_w[-1]) / W_PER_KW,
        color=_ENVELOPE_COLOUR,
        linewidth=0.5,
        step="post",
        label=f"range of the {profile.dt_ms / MS_PER_S:g} s samples",
    )
    mean_ms = LONG_RUN_MEAN_MS if profile.duration_ms > LONG_RUN_MS else MEAN_MS
    at_min, mean_w = _block_means(power_w, max(1, mean_ms // profile.dt_ms), step_min)
    mean_label = f"{mean_ms // MS_PER_S} s mean"
    axes.plot(at_min, mean_w / W_PER_KW, color=_MEAN_COLOUR, linewidth=1.0, label=mean_label)
    axes.axvspan(
        start * step_min, stop * step_min, color=_ZOOM_COLOUR, alpha=0.35, label="lower panel"
    )
    axes.set(xlabel="time [min]", ylabel="job power [kW]")
    axes.set_xlim(0, power_w.size * step_min)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=8, frameon=False, borderpad=0
    )


def _block_means(
    power_w: Float32Array, size: int, step_min: float
) -> tuple[Float64Array, Float64Array]:
    """Return the middles [min] and means [W] of blocks of `size` samples, the last one shorter."""
    edges = np.append(np.arange(0, power_w.size, size), power_w.size)
    sums_j = np.add.reduceat(power_w.astype(np.float64), edges[:-1])
    return (edges[:-1] + edges[1:]) / 2 * step_min, sums_j / np.diff(edges)


def _draw_zoom(axes: Axes, profile: PowerProfile, start: int, stop: int) -> None:
    """Draw two minutes sample by sample."""
    time_s = np.arange(start, stop) * (profile.dt_ms / MS_PER_S)
    axes.plot(
        time_s - time_s[0],
        profile.power_w[start:stop] / W_PER_KW,
        color=_ZOOM_COLOUR,
        linewidth=0.9,
    )
    axes.set(
        xlabel=f"time since {time_s[0] / 60:.1f} min [s]",
        ylabel="job power [kW]",
    )
    axes.set_xlim(0, (stop - start) * profile.dt_ms / MS_PER_S)
    axes.grid(alpha=0.3)
