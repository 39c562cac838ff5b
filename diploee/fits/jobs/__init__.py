"""Fits of job logs: distributions from a scheduler's records."""
