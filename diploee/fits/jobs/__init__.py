"""Fitting job logs: from what a scheduler recorded to the distributions of a scenario."""
