"""Readers of foreign text files, shared by all importers.

`file_bytes` decompresses files, `text_lines` decodes their bytes to lines, and
`delimited_tables` splits lines into columns of strings. `numbers_and_labels`,
`timestamps` and `time_units` convert these columns. All errors name the line.
"""
