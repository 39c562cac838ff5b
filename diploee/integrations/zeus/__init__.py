"""Recurring training jobs and their energy knobs, batch size and power limit (Zeus).

Zeus (You, Chung, Chowdhury, NSDI 2023) published the number of epochs of training at
each batch size, and the time and power of an epoch at each batch size and power limit.
This package reads these traces, computes possible savings, simulates optimizers that
learn the best settings while a job recurs, and provides the recurrences as jobs of a
facility.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
