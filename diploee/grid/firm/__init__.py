"""Firm and non-firm demand: what it costs a site to hold a power when called.

The way of a level: the undisturbed year (`undisturbed`), calls (`calls`), the jobs
dispatched step by step under the level (`dispatch`), what a utility would settle
(`baselines`), and all of it for each level, notice and set of calls (`study`).
"""
