"""Integration of two data pipelines, OpenG2G and Zeus, as kinds of loads."""
