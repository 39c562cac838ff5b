"""Year-long power load of AI data centers from measured job profiles."""

__version__ = "0.1.0"
