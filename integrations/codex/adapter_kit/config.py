"""The private operator configuration of the observation hook and the handoff reader (A-21)."""

from adapter_kit import json_text, paths, private_files, refusal, server_client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_KEYS = (
    "server_url",
    "authorization_file",
    "project",
    "project_root",
    "workflow_session_id",
    "local_session_id",
    "state_dir",
)
_SESSION_PREFIX = "wc_sess_"
_SESSION_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_SESSION_SUFFIX_MAX = 128


class Config:
    """What the operator has confirmed; the only source of identity beside the hook payload (A-02)."""

    __slots__ = _KEYS

    def __init__(
        self,
        *,
        server_url: str,
        authorization_file: str,
        project: str,
        project_root: str,
        workflow_session_id: str,
        local_session_id: str,
        state_dir: str,
    ) -> None:
        self.server_url = server_url
        self.authorization_file = authorization_file
        self.project = project
        self.project_root = project_root
        self.workflow_session_id = workflow_session_id
        self.local_session_id = local_session_id
        self.state_dir = state_dir


def load(path: str) -> Config:
    """The configuration at ``path``, every check of A-21 passed in its order.

    Raises:
        Refused: with the reason of the first check that fails.
    """
    config = _parsed(private_files.read(path))
    if not _is_canonical_directory(config.project_root):
        raise refusal.Refused("canonical_project_root_required")
    if not _are_outside((path, config.authorization_file, config.state_dir), config.project_root):
        raise refusal.Refused("configuration_and_state_must_be_outside_project")
    server_client.parse_origin(config.server_url)
    return config


def is_session_id(value: object) -> bool:
    """Whether the value is a Workflow Session id (S-01)."""
    if not isinstance(value, str) or not value.startswith(_SESSION_PREFIX):
        return False
    suffix = value[len(_SESSION_PREFIX) :]
    return 1 <= len(suffix) <= _SESSION_SUFFIX_MAX and not suffix.strip(_SESSION_CHARS)


def is_plain_text(value: object) -> bool:
    """Whether the value is a non-empty string without NUL and without a lone surrogate (A-05)."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parsed(data: bytes) -> Config:
    try:
        stored = json_text.decode(data)
    except ValueError:
        raise refusal.Refused("invalid_config") from None
    if (
        not isinstance(stored, dict)
        or stored.keys() != set(_KEYS)
        or not all(is_plain_text(value) for value in stored.values())
        or not is_session_id(stored["workflow_session_id"])
        or not stored["project"].startswith("agent:")
    ):
        raise refusal.Refused("invalid_config")
    return Config(**stored)


def _is_canonical_directory(path: str) -> bool:
    try:
        return paths.is_absolute(path) and paths.is_directory(path) and paths.resolved(path) == path
    except (OSError, ValueError):
        return False


def _are_outside(operator_paths: "Iterable[str]", root: str) -> bool:
    try:
        for path in operator_paths:
            if not paths.is_absolute(path) or paths.is_inside(path, root):
                return False
            target = paths.resolved(path)
            if target != path and paths.is_inside(target, root):
                return False
    except (OSError, ValueError):
        return False
    return True
