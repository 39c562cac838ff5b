"""Reading of foreign text files, shared by all importers.

Bytes become text (`source`, `text`), its rows columns of strings (`tables`), these
numbers, labels and times (`values`, `stamps`, `time_units`). A format's own module says
what its columns are called and mean; all that goes wrong is named here, with its line.
"""
