"""Studio: a local web page to build a scenario, simulate it and export the result.

`diploee studio` starts it. `edits` changes a scenario's text one key at a time.
`page_contents` has what a page shows: form fields, a one-line diagram, the equivalent
command and Python code. `worker` is the child process that simulates and draws;
`job_queue` starts, follows and stops its jobs. `server` connects both to the page
(`page.html`, `.css`, `.js`) and refuses other clients. Results are pages of
`diploee.reports`.
"""
