"""Measures: what is summed, ranked and counted of a series, whatever its blocks."""
