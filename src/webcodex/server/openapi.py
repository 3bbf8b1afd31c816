"""Describes the short set of tools as GPT Actions in OpenAPI 3.1 (M-60): public, without hidden tools."""

from importlib import metadata
from typing import Any, Final

from webcodex.core.json_value import JsonObject
from webcodex.server import actions_api, answers
from webcodex.tools import gateway_tools, registry, schemas
from webcodex.tools.contract import Tool

PATH: Final = "/openapi.json"
TITLE: Final = "WebCodex GPT Actions"

_JSON: Final = "application/json"
_RECORDER: Final = {
    "anyOf": [{"type": "string"}, {"type": "null"}],
    "description": "Workflow Session that also records this call: wc_sess_... or a session_ref such as ~s1.",
}
_COMPONENTS: Final[dict[str, Any]] = {
    "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    "schemas": {
        "FailedToolResult": {
            "type": "object",
            "description": "The call reached the tool and was refused or failed; error_kind is stable.",
            "properties": {
                "success": {"const": False},
                "output": schemas.FAILURE,
                "error": {"type": "string"},
            },
            "required": ["success", "output", "error"],
            "additionalProperties": False,
        },
        "Refusal": {
            "type": "object",
            "description": "The call reached no tool.",
            "properties": {"status": {"type": "integer"}, "error": {"type": "string"}},
            "required": ["status", "error"],
            "additionalProperties": False,
        },
    },
}


class Description:
    """Answers with the document, which never changes while the Server runs."""

    def __init__(self, public_url: str) -> None:
        self._answer = answers.of(200, document(public_url))

    async def answer(self) -> answers.Answer:
        """Returns the document."""
        return self._answer


def document(public_url: str) -> JsonObject:
    """Returns the document of a Server that is reached at ``public_url``."""
    by_name = {tool.name: tool for tool in registry.TOOLS}
    shown = [by_name[name] for name in registry.SHORT_SET if name in by_name]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": TITLE,
            "version": metadata.version("webcodex"),
            "description": "Keeps work on a code project continuous across hosts.",
        },
        "servers": [{"url": public_url}],
        "security": [{"bearer": []}],
        "paths": {
            actions_api.path(tool.name): {"post": _operation(tool)}
            for tool in (*shown, gateway_tools.GATEWAY)
        },
        "components": _COMPONENTS,
    }


def _operation(tool: Tool) -> JsonObject:
    arguments = schemas.input_schema(tool.params, description_chars=None)
    properties = {**arguments.get("properties", {}), actions_api.RECORDER_KEY: _RECORDER}
    return {
        "operationId": tool.name,
        "summary": tool.summary,
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": {**arguments, "properties": properties}}},
        },
        "responses": {
            "200": _response("The tool did it.", _succeeded(tool)),
            "400": _response(
                "The tool failed, or the call has not the structure of the tool.",
                {"anyOf": [_component("FailedToolResult"), _component("Refusal")]},
            ),
            "403": _response("The credential lacks a scope.", _component("Refusal")),
        },
    }


def _succeeded(tool: Tool) -> JsonObject:
    return {
        "type": "object",
        "properties": {"success": {"const": True}, "output": schemas.result_schema(tool)},
        "required": ["success", "output"],
        "additionalProperties": False,
    }


def _response(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _component(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}
