"""Writes the page of all tools from the tool table: params, results, rights and refusals."""

import json
from collections.abc import Iterator
from typing import Any, Final

from webcodex.core.access import Scope
from webcodex.tools import contract, errors, gateway_tools, registry, schemas
from webcodex.tools.contract import Audience, Recording, Tool

_BOUNDS: Final = (
    ("minimum", "≥ {}"),
    ("maximum", "≤ {}"),
    ("exclusiveMinimum", "> {}"),
    ("exclusiveMaximum", "< {}"),
    ("minLength", "≥ {} chars"),
    ("maxLength", "≤ {} chars"),
    ("minItems", "≥ {} items"),
    ("maxItems", "≤ {} items"),
    ("pattern", "`{}`"),
)
_AUDIENCE: Final = {Audience.MODEL: "models and adapters", Audience.ADAPTER: "adapters only"}
_RECORDING: Final = {
    Recording.BUSINESS: "as meaningful work",
    Recording.NONE: "no, it is adapter traffic",
}
_RECORDED: Final = frozenset({"session_recorded", "session_event_id"})
_HEAD: Final = """\
# Tools

Generated from the tool table by `make generate`; edit the tool's params, result and record instead.

Every tool is called at `POST /api/tools/call`, and a model-visible one over MCP too, directly or through \
`call_runtime_tool`.
An adapter tool is unknown over MCP: no model can call it.
A recorded call leaves a started and a finished event in the Workflow Sessions it concerns; adapter traffic \
leaves none.
With a recorder named, every output also has `session_recorded`, and `session_event_id` when that is true.
"""


def text() -> str:
    """Returns the whole page."""
    tools = sorted(registry.TOOLS, key=lambda tool: (tool.category, tool.name))
    index = [f"| [`{tool.name}`](#{tool.name}) | {tool.category} | {_cell(tool.summary)} |" for tool in tools]
    parts = [_HEAD, "| Tool | Category | What it does |", "|---|---|---|", *index, ""]
    for tool in tools:
        parts += [*_section(tool), ""]
    return "\n".join([*parts, *_errors()]) + "\n"


def _section(tool: Tool) -> Iterator[str]:
    yield f"## {tool.name}"
    yield ""
    yield tool.summary
    yield ""
    if tool is gateway_tools.GATEWAY:
        yield f"- Needs, does, records and answers what its target does; {_annotations(tool.annotations)}"
        yield ""
        yield from _fields("Param", schemas.input_schema(tool.params, description_chars=None), is_input=True)
        return
    yield f"- Needs: {_scopes(tool.scopes)}"
    if tool.optional_scopes:
        yield f"- Shows more with: {_scopes(tool.optional_scopes)}"
    yield f"- Seen by: {_AUDIENCE[tool.audience]}"
    yield f"- Recorded: {_RECORDING[tool.recording]}"
    yield f"- Effect: {tool.effect.value}; {_annotations(tool.annotations)}"
    if tool.aliases:
        yield f"- Older names: {', '.join(f'`{name}`' for name in tool.aliases)}"
    words = sorted({tool.value_word, *tool.value_words.values()})
    yield f"- A value outside its bounds: {', '.join(f'`{word}`' for word in words)}"
    yield ""
    yield from _fields("Param", schemas.input_schema(tool.params, description_chars=None), is_input=True)
    yield ""
    yield from _fields("Result", _result(tool), is_input=False)


def _scopes(scopes: tuple[Scope, ...]) -> str:
    return ", ".join(f"`{scope.value}`" for scope in scopes) or "no scope of its own"


def _annotations(found: contract.Annotations) -> str:
    words = {
        "read-only": found.read_only,
        "destructive": found.destructive,
        "idempotent": found.idempotent,
        "open world": found.open_world,
    }
    return ", ".join(word if holds else f"not {word}" for word, holds in words.items())


def _result(tool: Tool) -> dict[str, Any]:
    """Returns the schema of a good output, without what every output may have (M-43)."""
    output = schemas.output_schema(tool)["properties"]["output"]["anyOf"][0]
    names = {name: inner for name, inner in output["properties"].items() if name not in _RECORDED}
    return {**output, "properties": names}


def _fields(head: str, schema: dict[str, Any], *, is_input: bool) -> Iterator[str]:
    rows = list(_rows(schema, "", is_input=is_input))
    if not rows:
        yield f"{head}s: none of its own."
        return
    yield f"| {head} | Type | Meaning |"
    yield "|---|---|---|"
    yield from rows


def _rows(schema: dict[str, Any], at: str, *, is_input: bool) -> Iterator[str]:
    required = schema.get("required", [])
    for name, inner in schema.get("properties", {}).items():
        meaning = [inner.get("description", "")]
        if is_input and name in required:
            meaning.append("Required.")
        elif is_input and inner.get("default") is not None:
            meaning.append(f"Default `{json.dumps(inner['default'])}`.")
        elif not is_input and name not in required:
            meaning.append("May be absent.")
        words = _cell(" ".join(part for part in meaning if part))
        yield f"| `{at}{name}` | {_cell(_type(inner))} | {words} |"
        for nested, steps in _nested(inner):
            yield from _rows(nested, f"{at}{name}{steps}.", is_input=is_input)


def _nested(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the objects that a field holds, each with the brackets of the lists it lies in."""
    if schema.get("properties"):
        yield schema, ""
    for choice in schema.get("anyOf", []):
        yield from _nested(choice)
    if isinstance(schema.get("items"), dict):
        for nested, steps in _nested(schema["items"]):
            yield nested, f"[]{steps}"


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(word)}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        kind = f"list of {_type(schema.get('items', {}))}"
    bounds = [words.format(schema[key]) for key, words in _BOUNDS if key in schema]
    return f"{kind}, {', '.join(bounds)}" if bounds else kind


def _errors() -> Iterator[str]:
    yield "## Error words"
    yield ""
    yield "The `error_kind` of a failed ToolResult, with its sentence and its `recovery_kind`."
    yield ""
    yield "| Word | Sentence | Recovery |"
    yield "|---|---|---|"
    for word, (sentence, recovery) in sorted(errors.WORDS.items()):
        yield f"| `{word}` | {_cell(sentence)} | `{recovery}` |"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("\n", " ")
