"""Chart images: PNG, SVG and HTML files, and images in notebooks, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from diploee.base.arguments import checked_arguments
from diploee.base.errors import Brief, InputError
from diploee.base.files import check_output_file, whole_file
from diploee.reports.drawing.alt_text import alt_text
from diploee.reports.drawing.charts import Chart
from diploee.reports.drawing.engine import run_vl_convert
from diploee.reports.drawing.page import Figures
from diploee.reports.drawing.vega import chart_spec

Kind = Literal["png", "svg"]

SCALE = 1.6
"""Pixels of a PNG per pixel of the specification."""


def write_pictures(
    charts: Mapping[str, Chart],
    folder: Path,
    kind: Kind,
    force: bool = False,
    inputs: Sequence[Path] = (),
) -> list[Path]:
    """Write an image of each chart into a folder; return the files."""
    paths, option = [folder / f"{name}.{kind}" for name in charts], f"--{kind}"
    for place in paths:  # before any work
        check_output_file(place, force, inputs=inputs, option=option)
    images = _draw_images(charts.values(), kind)
    for place, content in zip(paths, images, strict=True):
        with whole_file(place, force, inputs=inputs, option=option) as path:
            path.write_bytes(content)
    return paths


def picture_kind(place: Path) -> str:
    """Return the kind of a picture, png, svg or html, by its name's ending."""
    kind = place.suffix.lower().lstrip(".")
    if kind not in {"png", "svg", "html"}:
        raise InputError(f"{place}: a picture's name ends in .png, .svg or .html")
    return kind


def write_picture(chart: Chart, place: Path, force: bool = False) -> None:
    """Write a chart to a PNG, SVG or HTML file, complete or not at all."""
    kind = picture_kind(place)
    content = (
        Figures().page(chart).encode()
        if kind == "html"
        else _draw_images([chart], kind)[0]
    )
    with whole_file(place, force) as path:
        path.write_bytes(content)


@dataclass(frozen=True)
class Picture(Brief):
    """Chart image for notebooks."""

    chart: Chart  # chart with its data

    def brief(self) -> str:
        """Return the chart's id and title."""
        return f"{self.chart.id}: {self.chart.title}"

    @property
    def spec(self) -> dict[str, Any]:
        """Vega-Lite specification, with data thinned to the image's pixels."""
        return chart_spec(self.chart)

    @checked_arguments
    def save(self, place: Path | str, force: bool = False) -> None:
        """Write the chart to a PNG, SVG or HTML file, chosen by the file's ending."""
        write_picture(self.chart, Path(place), force)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "application/vnd.vegalite.v6+json": self.spec,
            "image/png": self._repr_png_(),
            "text/plain": f"<Picture {self.chart.id}: {alt_text(self.chart)}>",
        }

    def _repr_png_(self) -> bytes:
        return _draw_images([self.chart], "png")[0]


def _draw_images(charts: Iterable[Chart], kind: str) -> list[bytes]:
    """Return the images of charts as PNG or SVG."""
    specs = [chart_spec(chart) for chart in charts]
    if kind == "png":
        return run_vl_convert(
            "vegalite_to_png", [((spec,), {"scale": SCALE}) for spec in specs]
        )
    return [
        _renumber_ids(svg)
        for svg in run_vl_convert("vegalite_to_svg", [((s,), {}) for s in specs])
    ]


def _renumber_ids(content: bytes) -> bytes:
    """Return an SVG with element ids that start at 0, for reproducible files."""
    svg = content.decode()
    ids = dict.fromkeys(re.findall(r'id="((?:clip|gradient_)\d+)"', svg))
    for k, old in enumerate(ids):
        svg = svg.replace(f'id="{old}"', f'id="part{k}"').replace(
            f"url(#{old})", f"url(#part{k})"
        )
    return svg.encode()
