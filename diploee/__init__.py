"""Year-long power load of AI data centers, synthesised from published measurements.

The steps of the model, each a function over tables::

    scenario = diploee.load_scenario("colocation_10mw")
    library = diploee.ProfileLibrary.open()
    workload = diploee.generate_jobs(scenario, library)
    schedule = diploee.schedule_jobs(workload.jobs, scenario)
    segments = diploee.job_segments(schedule, workload.library, scenario)
    power = diploee.power_series(segments, scenario, workload.library)

or all at once, into a run folder, which `diploee.open_run` reads again::

    run = diploee.run("colocation_10mw", target_utilization=0.4)
    run.metric("grid.ramps.intervals.60s.up.max_mw")

`sweep` and `ensemble` make many runs; `report`, `export`, `limits` and `datasheet`
evaluate them.
"""

import lazy_loader

from diploee.base.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
