"""Recurring training jobs and their energy knobs, batch size and power limit (Zeus).

Zeus (You, Chung, Chowdhury, NSDI 2023) recorded how many epochs training takes at each
batch size, and how long an epoch takes and what power it draws at each batch size and
power limit. This package reads these traces, says what the knobs can save, simulates
how optimizers find the best ones while a job recurs, and gives the recurrences as jobs
of a facility.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
