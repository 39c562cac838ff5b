"""The colocation year whose jobs differ beside the paper's."""

from __future__ import annotations

import math
from itertools import product

import pytest

from diploee.scenario import load_scenario

RUN_TIMES_S = {
    "llama2_70b_lora": {2: (5152, 226), 4: (3171, 403), 8: (2090, 170), 16: (1798, 15)},
    "stable_diffusion": {
        2: (12480, 1576),
        4: (5784, 792),
        8: (3202, 421),
        16: (1432, 149),
    },
}
"""Mean and standard deviation by number of nodes, Tables 1 and 2 of arXiv:2604.07345."""  # noqa: E501


def test_varied_jobs_have_the_mix_and_the_run_times_of_the_paper() -> None:
    plain, varied = (
        load_scenario(name).streams["training"]
        for name in ("colocation_10mw", "colocation_10mw_varied")
    )
    assert plain.mix is not None
    assert varied.calendar == plain.calendar
    classes = {(c.workload, c.n_nodes): c for c in varied.classes or ()}
    drawn = {(c.workload, c.n_nodes): c.probability for c in plain.job_classes()}
    assert len(classes) == len(drawn) == 8
    for workload, n_nodes in product(plain.mix.workload, plain.mix.n_nodes):
        of = classes[workload, n_nodes]
        mixed = plain.mix.workload[workload] * plain.mix.n_nodes[n_nodes]
        assert of.probability == pytest.approx(mixed)
        assert drawn[workload, n_nodes] == pytest.approx(mixed)
        assert of.duration is not None
        assert of.duration.lognormal is not None
        (part,) = of.duration.lognormal
        mean_s, std_s = RUN_TIMES_S[workload][n_nodes]
        assert part.median_s * math.exp(part.sigma**2 / 2) == pytest.approx(
            mean_s, rel=1e-3
        )
        assert math.sqrt(math.expm1(part.sigma**2)) == pytest.approx(
            std_s / mean_s, abs=1e-3
        )
