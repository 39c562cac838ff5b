"""Atomic output: files and folders that appear complete or not at all.

`whole_file` and `whole_folder` write into a hidden folder next to the target, flush it
to disk, and move the result to the target at the end. Several results are moved one by
one. If a process was killed, its hidden folder is removed by a later process that
writes next to it at least a day later.
"""

from diploee.base.files.paths import FolderKind as FolderKind
from diploee.base.files.paths import check_is_file as check_is_file
from diploee.base.files.paths import check_output_file as check_output_file
from diploee.base.files.paths import check_output_folder as check_output_folder
from diploee.base.files.paths import is_free as is_free
from diploee.base.files.paths import local_path as local_path
from diploee.base.files.paths import reason as reason
from diploee.base.files.writing import remove_leftovers as remove_leftovers
from diploee.base.files.writing import whole_file as whole_file
from diploee.base.files.writing import whole_folder as whole_folder
