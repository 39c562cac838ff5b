"""Importers of power measurements, with one module per file format.

Each importer returns `PowerProfile` objects.
"""
