"""Readers of foreign text files, shared by all importers.

Bytes are read as text (`source`, `text`), rows of text as columns of strings
(`tables`), and these as numbers, labels and times (`values`, `timestamps`,
`time_units`). The module of a format names its columns. Errors name the line.
"""
