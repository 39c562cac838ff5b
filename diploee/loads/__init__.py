"""Loads of a site: jobs, request services, replicas; each lowers to segments of power."""
