"""Data pipelines of two neighbours, OpenG2G and Zeus, as kinds of loads."""
