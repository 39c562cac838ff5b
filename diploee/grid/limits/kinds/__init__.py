"""Limit kinds of diploee, each with its YAML keys and checks."""
