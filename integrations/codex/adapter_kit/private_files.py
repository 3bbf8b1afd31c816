"""Private files and directories of the operator (A-10 to A-16), on the platform this runs on.

A ``Folder`` is an opened private directory; everything inside it is reached through it and never by a path
that could have been exchanged meanwhile.
"""

import sys

if sys.platform == "win32":
    from adapter_kit import private_files_windows as platform_files
else:
    from adapter_kit import private_files_posix as platform_files

Folder = platform_files.Folder
read = platform_files.read
mark_lock = platform_files.mark_lock
try_lock = platform_files.try_lock
close_lock = platform_files.close_lock
