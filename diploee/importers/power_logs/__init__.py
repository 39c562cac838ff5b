"""Readers of foreign measurements, one file per format.

Each returns the package's own types.
"""
