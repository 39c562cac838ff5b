"""Importers of power measurements, with one module per file format.

Each returns the package's own types.
"""
