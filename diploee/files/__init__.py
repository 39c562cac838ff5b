"""Files and folders that appear whole or not at all, and what may be replaced by them.

Whoever writes a result uses `whole_file`, `whole_folder` or, for several that appear together,
`writing`. All is written into a hidden folder beside its place (`staging`), synced, and moved in at
the end: what stands there is exchanged in one step where the system can. What a killed process
left is found by the next one that writes there: it is put right and removed.
"""

from diploee.files.places import (
    FolderKind,
    check_file,
    check_folder,
    check_is_file,
    entries_beyond,
    is_disk_full,
    local_place,
    reason,
)
from diploee.files.staging import is_staged, remove_leftovers, try_lock
from diploee.files.writing import Writing, is_late, uninterrupted, whole_file, whole_folder, writing

__all__ = [
    "FolderKind",
    "Writing",
    "check_file",
    "check_folder",
    "check_is_file",
    "entries_beyond",
    "is_disk_full",
    "is_late",
    "is_staged",
    "local_place",
    "reason",
    "remove_leftovers",
    "try_lock",
    "uninterrupted",
    "whole_file",
    "whole_folder",
    "writing",
]
