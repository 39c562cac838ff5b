"""The studio: a local page to build a site, see its year and take it away.

`diploee studio`. `edits` changes a scenario's text one key at a time; `sites` says what
a page shows of it: fields, a one-line diagram, the same as a command and in Python.
`work` makes runs and pages in a child process that `jobs` starts, follows and stops;
`server` hands them to the page (`page.html`, `.css`, `.js`) and refuses everyone else.
Results are shown as the pages of `diploee.reports`.
"""
