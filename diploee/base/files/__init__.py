"""Files and folders that appear whole or not at all, and what may be replaced by them.

Whoever writes a result uses `whole_file`, `whole_folder` or, for several that appear
together, `writing`. All is written into a hidden folder beside its place (`staging`),
synced, and moved in at the end. What a killed process left is found by the next one
that writes there: it is put right and removed.
"""

from diploee.base.files.places import FolderKind as FolderKind
from diploee.base.files.places import check_file as check_file
from diploee.base.files.places import check_folder as check_folder
from diploee.base.files.places import check_is_file as check_is_file
from diploee.base.files.places import local_place as local_place
from diploee.base.files.places import reason as reason
from diploee.base.files.staging import remove_leftovers as remove_leftovers
from diploee.base.files.staging import try_lock as try_lock
from diploee.base.files.writing import Writing as Writing
from diploee.base.files.writing import is_late as is_late
from diploee.base.files.writing import uninterrupted as uninterrupted
from diploee.base.files.writing import whole_file as whole_file
from diploee.base.files.writing import whole_folder as whole_folder
from diploee.base.files.writing import writing as writing
