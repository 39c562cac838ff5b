"""Calls of the front, one a line, that type checkers must refuse; never run."""

import diploee

diploee.run("colocation_10mw", engine="fast")
diploee.run("colocation_10mw", duration=7)
diploee.run("colocation_10mw", duraton="1 week")
diploee.run(["colocation_10mw"])
diploee.run("colocation_10mw", seed="1")
diploee.sweep("sizes.yaml", workers="2")
diploee.export("runs/week")
diploee.export("runs/week", "csv", step=15)
diploee.open_run("runs/week").limits(3)
diploee.open_run("runs/week").statistics(month=1.5)
diploee.ensemble("colocation_10mw", seeds="2")
diploee.scenarios("sweeps")
diploee.import_profile("power.csv", "plane", workload="own")
