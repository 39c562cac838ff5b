"""The figure of a site's parts: what stands on it is what the meter draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders import tiny_run

from diploee.base.units import power_unit
from diploee.reports.data import read_run
from diploee.reports.drawing.charts import Line
from diploee.reports.stack_charts import poi_charts

HOLDERS = {
    "none": [],
    "battery": [
        {"kind": "battery", "power_mw": 0.01, "energy_mwh": 0.01, "smoothing_s": 600}
    ],
    "ramp limit": [{"kind": "ramp_limit", "curtails": True, "up_mw_per_min": 0.0001}],
}


@pytest.mark.parametrize("name", HOLDERS)
def test_line_or_top_is_the_power_at_the_point_of_interconnection(
    tmp_path: Path, name: str
) -> None:
    run = tiny_run(
        tmp_path / "run",
        {
            "duration": "12 h",
            "facility.node_types.node.ac_power": "air_hgx",
            "facility.stages": [
                *HOLDERS[name],
                "transformers",
                "point_of_interconnection",
            ],
        },
    )
    unit = power_unit(1e4)
    chart = poi_charts(read_run(run.folder, "run"), unit)[0]
    layers = chart.panels[0].layers
    top = layers[0].parts.sum(axis=0)[:-1]
    drawn = [layer.y[:-1] for layer in layers if isinstance(layer, Line)]
    poi = run.facility(["poi_power_w"])["poi_power_w"].to_numpy("float64") / unit.watts
    means = np.array([part.mean() for part in np.array_split(poi, top.size)])
    (shown,) = drawn or [top]
    assert bool(drawn) == (name != "none")
    np.testing.assert_allclose(shown, means, rtol=1e-5)
    if drawn:
        assert np.abs(top - means).max() > 1e-4 * means.max()
