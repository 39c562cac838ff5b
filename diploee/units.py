"""Unit constants. Inside the package times are int64 milliseconds, power W, energy J."""

MS_PER_S = 1_000
MS_PER_MIN = 60 * MS_PER_S
MS_PER_H = 60 * MS_PER_MIN
MS_PER_DAY = 24 * MS_PER_H
MS_PER_WEEK = 7 * MS_PER_DAY

S_PER_MIN = 60
S_PER_H = 3_600
S_PER_DAY = 86_400
HOURS_PER_DAY = 24
DAYS_PER_WEEK = 7
HOURS_PER_WEEK = 168
MONTHS_PER_YEAR = 12

W_PER_MW = 1e6
W_PER_KW = 1e3
J_PER_MWH = 3.6e9

PROFILE_STEP_MS = 100
"""Sampling step of the measured power profiles, 0.1 s (arXiv:2604.07345, section 2.2)."""
