"""Studio: a local web page to build a scenario, simulate it and export the result.

`diploee studio` starts it. `edits` changes a scenario's text one key at a time. `sites`
gives the contents of a page: form fields, a one-line diagram, the equivalent command
and Python code. `work` simulates and draws in a child process, which `jobs` starts,
follows and stops. `server` connects them to the page (`page.html`, `.css`, `.js`) and
refuses other clients. Results are pages of `diploee.reports`.
"""
