"""Fits of job logs: distributions from the records of a scheduler."""
