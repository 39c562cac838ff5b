"""Batch size controllers, one file each; `replicas.base` has what they are given."""
