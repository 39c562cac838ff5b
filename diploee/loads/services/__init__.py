"""Inference loads: instances, served and rejected requests, and latency."""
