"""The one reader of foreign text under all readers of foreign files.

Bytes become text (`source`, `text`), its rows columns of strings (`tables`), these
numbers, labels and times (`values`, `stamps`, `time_units`). A format's own module says
what its columns are called and mean; all that goes wrong is named here, with its line.
"""
