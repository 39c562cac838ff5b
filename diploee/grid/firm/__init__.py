"""Firm and non-firm demand: costs of staying below a firm level during calls.

A call is a period in which the utility requires the site to reduce its power to the
firm level. `undisturbed` simulates the site without calls, `calls` makes the sets of
calls, `dispatch` moves jobs so that power stays below the level, `baselines` computes
the relief that a utility would pay for, and `study` does this for each level, notice
and set of calls.
"""
