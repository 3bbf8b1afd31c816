"""Declares the bodies of the account routes with the bounds of M-57."""

from typing import Annotated, Final

from pydantic import Field

from webcodex.core import limits
from webcodex.core.access import Role
from webcodex.tools.contract import Params

DEFAULT_NAME: Final = "default"

Username = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,64}$")]
Name = Annotated[str, Field(max_length=128)]
ClientId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,80}$")]
TokenId = Annotated[str, Field(min_length=1, max_length=128)]
TokenHash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
TokenPrefix = Annotated[str, Field(min_length=1, max_length=16)]
Scopes = Annotated[list[str], Field(max_length=64)]
UnixSeconds = Annotated[int, Field(ge=0, le=limits.JSON_INT)]


class Nothing(Params):
    """No field at all."""


class NewUser(Params):
    """A user to be made (M-48)."""

    username: Username
    display_name: Name | None = None
    role: Annotated[Role, Field(strict=False)] = Role.USER
    issue_credential: bool = False


class OfUser(Params):
    """Whose tokens are meant (M-52)."""

    username: Username


class OneToken(OfUser):
    """Which token is meant (M-53)."""

    token_id: TokenId


class NewPat(OfUser):
    """A personal access token to be made (M-51)."""

    name: Name = DEFAULT_NAME
    scopes: Scopes | None = None
    expires_at: UnixSeconds | None = None


class KnownPat(NewPat):
    """A personal access token that its holder made (M-54)."""

    token_hash: TokenHash
    token_prefix: TokenPrefix


class NewRunnerToken(NewPat):
    """A Runner token to be made (M-55)."""

    client_id: ClientId


class KnownRunnerToken(NewRunnerToken):
    """A Runner token that its holder made (M-56)."""

    token_hash: TokenHash
    token_prefix: TokenPrefix
