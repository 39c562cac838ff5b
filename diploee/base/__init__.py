"""Units, errors, time, tables, files: what every other room stands on, and it on none."""
