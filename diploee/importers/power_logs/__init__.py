"""Readers of foreign measurements, one file per format; each returns the package's own types."""
