"""Table 3 of arXiv:2604.07345 (CC BY 4.0), with the digits that its published analysis prints.

The full year 2018 at a one-minute step from an empty cluster; columns are the runs for 20, 40, 60
and 80 % target utilization. Power [MW], queue time [h] over the jobs that queued.
"""

from __future__ import annotations

LEVELS = (20, 40, 60, 80)

TARGET_UTILIZATION = {20: 0.2014, 40: 0.4024, 60: 0.6034, 80: 0.8034}
"""What the paper's four runs realised (row utilization_mean)."""

ROWS: dict[str, tuple[float | None, float | None, float | None, float | None]] = {
    "power_mean_mw": (2.378843, 3.557179, 4.735550, 5.908387),
    "power_std_mw": (0.847573, 1.590799, 1.907486, 1.776169),
    "power_median_mw": (2.218280, 3.265004, 4.686547, 6.996297),
    "power_p90_mw": (3.533244, 6.397111, 7.080573, 7.121904),
    "power_max_mw": (6.084229, 7.338859, 7.310565, 7.319798),
    "peak_to_average_ratio": (2.557642, 2.063112, 1.543763, 1.238883),
    "utilization_mean": (0.201435, 0.402369, 0.603415, 0.803434),
    "utilization_std": (0.144696, 0.271408, 0.325421, 0.302917),
    "utilization_median": (0.173944, 0.352817, 0.595070, 0.999296),
    "utilization_p90": (0.398592, 0.885915, 1.0, 1.0),
    "utilization_max": (0.844366, 1.0, 1.0, 1.0),
    "jobs_per_day": (2_529, 5_059, 7_588, 10_118),
    "queued_fraction": (0.0, 0.201529, 0.448563, 0.756437),
    "mean_queue_time_h": (None, 0.594704, 2.580459, 6.539490),
}

RELATIVE_TOLERANCE = {
    "power_mean_mw": 0.01,
    "power_std_mw": 0.03,
    "power_median_mw": 0.02,
    "power_p90_mw": 0.03,
    "power_max_mw": 0.05,
    "peak_to_average_ratio": 0.05,
    "utilization_mean": 0.005,
    "utilization_std": 0.02,
    "utilization_median": 0.02,
    "utilization_p90": 0.04,
    "utilization_max": 0.08,
    "jobs_per_day": 0.02,
    "mean_queue_time_h": 0.05,
}
"""Accepted distance from the paper. Trial runs over 18 seeds reached all of these; their spread
over seeds was below 0.5 % on most rows and 1-2 % on the maxima."""

ABSOLUTE_TOLERANCE = {"queued_fraction": 0.01}
