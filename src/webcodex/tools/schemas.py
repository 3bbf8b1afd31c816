"""Describes a tool in JSON Schema, for every edge and page that shows one (M-19, M-32).

Each schema is made once and shown by all edges, so nobody changes one that was returned.
"""

import copy
import functools
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from webcodex.tools import gateway_tools
from webcodex.tools.contract import Tool

DESCRIPTION_CHARS: Final = 420  # M-32
INPUT_DESCRIPTION_CHARS: Final = 180  # M-32

_TEXT_OR_NULL: Final[dict[str, Any]] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_RECORDED: Final[dict[str, Any]] = {
    "session_recorded": {"type": "boolean"},
    "session_event_id": _TEXT_OR_NULL,
}  # M-43
FAILURE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"error_kind": {"type": "string"}},
    "required": ["error_kind"],
}  # M-15
_SCHEMAS_BY_NAME: Final = ("properties", "$defs", "patternProperties")


def described(tool: Tool, *, compact: bool) -> dict[str, Any]:
    """Returns the tool spec of M-19; each schema in it stands by itself."""
    chars = DESCRIPTION_CHARS if compact else len(tool.summary)
    entry: dict[str, Any] = {
        "name": tool.name,
        "description": tool.summary[:chars],
        "inputSchema": input_schema(
            tool.params, description_chars=INPUT_DESCRIPTION_CHARS if compact else None
        ),
    }
    if not compact:
        entry["outputSchema"] = output_schema(tool)
    entry["annotations"] = {
        "readOnlyHint": tool.annotations.read_only,
        "destructiveHint": tool.annotations.destructive,
        "idempotentHint": tool.annotations.idempotent,
        "openWorldHint": tool.annotations.open_world,
    }
    return entry


@functools.cache
def input_schema(params: type[BaseModel], *, description_chars: int | None) -> dict[str, Any]:
    """Returns the arguments' schema without references, descriptions cut if a length is given."""
    schema = _generated(params)
    if description_chars is not None:
        schema = copy.deepcopy(schema)
        _cut_descriptions(schema, description_chars)
    return schema


def output_schema(tool: Tool) -> dict[str, Any]:
    """Returns the schema of ``{success, output, error}``: output is a result, a failure or null (M-19)."""
    outputs = [result_schema(tool), FAILURE]
    return {
        "type": "object",
        "properties": {
            "success": {"type": "boolean"},
            "output": {"anyOf": [*outputs, {"type": "null"}]},
            "error": _TEXT_OR_NULL,
        },
        "required": ["success", "output", "error"],
        "additionalProperties": False,
    }


def result_schema(tool: Tool) -> dict[str, Any]:
    """Returns the schema of a successful output; that of the gateway is its target's."""
    if tool is gateway_tools.GATEWAY:
        return {"type": "object"}
    schema = _generated(tool.result)
    return {**schema, "properties": {**schema.get("properties", {}), **_RECORDED}}


@functools.cache
def _generated(model: type[BaseModel]) -> dict[str, Any]:
    """Returns the schema of ``model``; making one costs a millisecond, and three edges show each."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    # A model's docstring speaks to the people who maintain it; the tool's summary speaks to clients.
    schema.pop("description", None)
    resolved: dict[str, Any] = _resolved(schema, definitions, ())
    return resolved


def _resolved(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_resolved(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    beside = {
        key: _by_name(value, definitions, inside)
        if key in _SCHEMAS_BY_NAME
        else _resolved(value, definitions, inside)
        for key, value in node.items()
        if key not in {"$ref", "title"}
    }
    if "$ref" not in node:
        return beside
    name = node["$ref"].rpartition("/")[2]
    if name in inside:
        raise ValueError(f"the schema of {name} contains itself and cannot stand without references")
    target = _resolved(definitions[name], definitions, (*inside, name))
    return {**target, **beside}


def _by_name(
    properties: Mapping[str, Any], definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> dict[str, Any]:
    return {name: _resolved(schema, definitions, inside) for name, schema in properties.items()}


def _cut_descriptions(node: Any, chars: int) -> None:
    if isinstance(node, list):
        for item in node:
            _cut_descriptions(item, chars)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "description" and isinstance(value, str):
                node[key] = value[:chars]
            else:
                _cut_descriptions(value, chars)
