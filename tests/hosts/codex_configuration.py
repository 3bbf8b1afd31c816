"""The text of a private ``config.toml`` of Codex: a scripted model service, and one MCP server if any."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from tests.hosts import model_service

MCP_SERVER: Final = "webcodex"
TOKEN_VARIABLE: Final = "WEBCODEX_TOKEN"
KEY_VARIABLE: Final = "SCRIPTED_RUN_KEY"

# Without analytics, plugins and endless retries switched off it waits for services that are not there.
_MODEL: Final = """
model = "{slug}"
model_provider = "scripted"

[model_providers.scripted]
name = "{scripted}"
base_url = "{base_url}"
wire_api = "responses"
env_key = "{key}"
request_max_retries = 0
stream_max_retries = 0
stream_idle_timeout_ms = 90000

[analytics]
enabled = false

[features]
plugins = false
unbounded_connection_retries = false
mcp_2026_07_28 = {stateless}
"""
_MCP: Final = """
[mcp_servers.{server}]
url = "{url}/mcp"
bearer_token_env_var = "{token}"
http_headers = {{ "X-WebCodex-MCP-Profile" = "{profile}" }}
enabled_tools = {tools}
required = true
default_tools_approval_mode = "{approval}"
startup_timeout_sec = 30
tool_timeout_sec = 60
"""


def model(service: model_service.ModelService, *, slug: str, stateless: str = "false") -> str:
    """Returns what makes every model call go to ``service``."""
    return _MODEL.format(
        slug=slug,
        scripted=model_service.SCRIPTED,
        base_url=service.base_url,
        key=KEY_VARIABLE,
        stateless=stateless,
    )


def mcp(url: str, tools: Sequence[str], *, profile: str = "direct", approval: str = "approve") -> str:
    """Returns what makes these tools of the Server at ``url`` callable."""
    return _MCP.format(
        server=MCP_SERVER,
        url=url,
        token=TOKEN_VARIABLE,
        profile=profile,
        approval=approval,
        tools=json.dumps(list(tools)),
    )


def variables(home: str, path: str, token: str) -> Mapping[str, str]:
    """Returns the whole environment of a Codex whose home is ``home``."""
    return {
        "PATH": path,
        "HOME": home,
        "CODEX_HOME": home,
        KEY_VARIABLE: "no-key",
        TOKEN_VARIABLE: token,
    }
