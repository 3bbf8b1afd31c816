"""The words in which a Runner refuses to look at a path or for a pattern (R-50..R-52)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from webcodex.protocol import calls
from webcodex.runner import failures, path_form, paths

_MESSAGES: Final = {
    "invalid_path": "The path is no path of this Project, or leaves it; name one beneath its root.",
    "sensitive_path": "The path is withheld because it may hold secrets; go on without it.",
    "not_found": "Nothing is there; list the files.",
    "permission_denied": "The Runner may not read that path; have the operator look at it.",
    "invalid_pattern": "No line can match the pattern, or it is no regular expression; change it.",
}
_BY_OPERATOR: Final = frozenset({"permission_denied"})


def failure(reason: str) -> failures.RequestFailed:
    """Returns the refusal of a whole request for a word of R-51 or R-52."""
    message = _MESSAGES.get(reason)
    if message is None:
        return failures.RequestFailed(failures.INTERNAL)
    recovery = "user_action" if reason in _BY_OPERATOR else "fix_input"
    return failures.RequestFailed(
        calls.Failure(code=reason, message=message, failure_kind="invalid", recovery_kind=recovery)
    )


@contextmanager
def told() -> Iterator[None]:
    """Turns what stops a walk at the root or at a path within the block into the refusal of the request.

    Raises:
        RequestFailed: the root was replaced or cannot be opened, or a path was refused.

    """
    try:
        yield
    except paths.RootReplaced as error:
        raise failures.RequestFailed(failures.ROOT_REPLACED) from error
    except path_form.PathRefused as error:
        raise failure(error.reason) from error
    except OSError as error:
        raise failures.RequestFailed(failures.INTERNAL) from error
