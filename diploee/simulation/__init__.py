"""Simulation of a prepared site: pipeline, run folder, cost forecast, plausibility."""
