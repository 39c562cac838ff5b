"""Calls of the front that type checkers must accept; never run."""

from datetime import date, timedelta
from pathlib import Path
from typing import assert_type

import pandas as pd

import diploee
from diploee.grid.limits import LimitReport

run = diploee.run(
    "colocation_10mw",
    Path("runs/week"),
    start=date(2018, 1, 1),
    duration=timedelta(weeks=1),
    limits=["ercot_nprr1191", Path("own.yaml")],
    profiles="own_profiles",
    engine="compiled",
    values={"facility.pools.h100.n_nodes": 100},
)
assert_type(run, diploee.Run)
assert_type(run.facility(), pd.DataFrame)
assert_type(run.statistics("pue", pool="h100"), pd.DataFrame)
assert_type(run.limits("example"), LimitReport)
assert_type(run.limits(["example"]), tuple[LimitReport, ...])
assert_type(diploee.limits("runs/week", "example"), LimitReport)
assert_type(diploee.export(run, "csv", step="15 min"), Path)
assert_type(diploee.datasheet("runs/week", csv_file="sheet.csv"), Path)
assert_type(diploee.report([run, "runs/week"], limits="example"), Path)
diploee.run({"name": "own"}, duration="1 week", step="1 s", limits="example")
diploee.sweep({"base": "colocation_10mw", "axes": []}, workers=2).frame()
diploee.ensemble({"name": "own"}, seeds=[1, 2], duration=timedelta(days=1))
assert_type(run.limits({"daily_energy_mwh": 100}), LimitReport)
assert_type(diploee.load_scenario("colocation_10mw", ["seed=1"]), diploee.Scenario)
