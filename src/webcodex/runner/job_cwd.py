"""Opens the directory a Job starts in (R-02, R-60); no name is resolved again once it is open."""

import os
from typing import Final

from webcodex.runner import failures, job_refusals, own_files, path_form, paths, places, projects, settings

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_directory(
    project: projects.Project, own: own_files.OwnFiles, cwd: str, policy: settings.Policy
) -> int:
    """Returns a descriptor of the working directory: beneath the project's root, "" for the root itself.

    Where the operator allows it, an absolute one beneath an allowed root is as good.

    Raises:
        RequestFailed: `invalid_cwd` or `project_root_replaced`.

    """
    try:
        return _open_anywhere(cwd, policy) if cwd.startswith("/") else _open_beneath(project, own, cwd)
    except paths.RootReplaced as error:
        raise failures.RequestFailed(failures.ROOT_REPLACED) from error
    except (path_form.PathRefused, OSError) as error:
        raise job_refusals.refuse("invalid_cwd") from error


def _open_beneath(project: projects.Project, own: own_files.OwnFiles, cwd: str) -> int:
    with paths.open_root(project) as root, places.hold(root, cwd, own) as place:
        if place.file is not None:
            raise path_form.PathRefused("invalid_path")
        return os.open(".", _DIRECTORY, dir_fd=place.directory)


def _open_anywhere(cwd: str, policy: settings.Policy) -> int:
    if not policy.allow_cwd_anywhere:
        raise job_refusals.refuse("invalid_cwd")
    true_path = os.path.realpath(cwd)
    for allowed in policy.allowed_roots:
        root = os.path.realpath(allowed)
        if projects.lies_within(true_path, root):
            return _walk(root, true_path[len(root) :].strip("/"))
    raise job_refusals.refuse("invalid_cwd")


def _walk(root: str, below: str) -> int:
    """Returns the directory at a path without links, name by name: one that was swapped is not followed."""
    here = os.open(root, _DIRECTORY)
    for name in below.split("/") if below else ():
        try:
            following = os.open(name, _DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = following
    return here
