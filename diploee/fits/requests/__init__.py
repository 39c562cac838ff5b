"""Fits of request traces."""
