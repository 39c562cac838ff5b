"""Batch size controllers, one file each; see `diploee.replicas.base` for what they are given."""
