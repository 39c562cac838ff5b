"""Loads of a site: jobs, request services, replicas; each lowers to segments of power."""

from diploee.loads.base import Load
from diploee.loads.jobs import JobsLoad, JobWindow, open_streams
from diploee.loads.replicas import ReplicasLoad
from diploee.loads.services import ServicesLoad

__all__ = ["JobWindow", "JobsLoad", "Load", "ReplicasLoad", "ServicesLoad", "open_streams"]
