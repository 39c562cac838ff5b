"""Readers of measured curves, power samples and batches of served models."""
