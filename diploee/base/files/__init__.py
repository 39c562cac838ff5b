"""Files and folders that appear whole or not at all, and what may be replaced by them.

Whoever writes a result uses `whole_file` or `whole_folder`. It is written into a hidden
folder beside its place, synced, and moved in at the end. Of several results each
appears by itself. What a killed process left is removed by the one that writes there a
day later.
"""

from diploee.base.files.paths import FolderKind as FolderKind
from diploee.base.files.paths import check_file as check_file
from diploee.base.files.paths import check_folder as check_folder
from diploee.base.files.paths import check_is_file as check_is_file
from diploee.base.files.paths import is_free as is_free
from diploee.base.files.paths import local_place as local_place
from diploee.base.files.paths import reason as reason
from diploee.base.files.writing import remove_leftovers as remove_leftovers
from diploee.base.files.writing import whole_file as whole_file
from diploee.base.files.writing import whole_folder as whole_folder
