"""Measured curves, samples and batches of served models."""
