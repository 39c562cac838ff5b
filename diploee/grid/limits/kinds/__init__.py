"""Limit kinds that ship with diploee, each with its file key and checks."""
