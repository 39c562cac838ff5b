"""Integrations of OpenG2G and Zeus, as kinds of loads."""
