"""Fitting job logs: from a scheduler's records to distributions."""
