"""Inference: request rates to instances, served and unserved requests and latency."""
