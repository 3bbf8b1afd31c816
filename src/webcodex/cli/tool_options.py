"""Turns a tool's params schema into options of its command, and the options back into params."""

import json
from typing import Any, Final

import click

RESERVED: Final = frozenset({"params", "json", "as_json", "data", "token_file", "url", "record", "help"})
_TYPES: Final = {"string": click.STRING, "integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}
_BOUNDS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "below {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} times"),
    ("pattern", "{}"),
)


class JsonText(click.ParamType[Any]):
    """An argument written as JSON; a bare text stands for an object with one required text in it."""

    name = "json"

    def __init__(self, schema: dict[str, Any]) -> None:
        required = schema.get("required", [])
        is_text = len(required) == 1 and schema["properties"][required[0]].get("type") == "string"
        self.bare: str | None = required[0] if is_text else None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns what the text means."""
        if not isinstance(value, str):
            return value
        if self.bare is not None and not value.lstrip().startswith("{"):
            return {self.bare: value}
        try:
            return json.loads(value)
        except ValueError:
            self.fail("this must be JSON, in quotes for the shell.", param, ctx)


def of_schema(schema: dict[str, Any]) -> list[click.Parameter]:
    """Returns one option for each property, in the schema's order; none is required here.

    The Server checks: so ``--params`` can hold what an option does not.
    """
    required = schema.get("required", [])
    return [
        _option(name, _unless_null(inner), is_required=name in required)
        for name, inner in schema.get("properties", {}).items()
    ]


def params_of(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Returns the params that the given options are; an option that was not given is absent."""
    found = {}
    for name in schema.get("properties", {}):
        value = given.get(_key(name))
        if isinstance(value, tuple):
            value = list(value) or None
        if value is not None:
            found[name] = value
    return found


def missing(schema: dict[str, Any], params: dict[str, Any]) -> list[str]:
    """Returns the options whose params are required and absent."""
    properties = schema.get("properties", {})
    absent = [name for name in schema.get("required", []) if name not in params]
    return [_flag(name, _unless_null(properties[name])) for name in absent]


def _option(name: str, schema: dict[str, Any], *, is_required: bool) -> click.Option:
    flag, help_text = _flag(name, schema), _help(schema, is_required=is_required)
    if schema.get("type") == "boolean":
        return click.Option([f"{flag}/--no-{flag[2:]}", _key(name)], default=None, help=help_text)
    if schema.get("type") == "array":
        inner = _unless_null(schema.get("items", {}))
        return click.Option(
            [flag, _key(name)],
            type=_type(inner),
            metavar=_metavar(inner),
            multiple=True,
            help=f"{help_text} May be repeated.",
        )
    return click.Option([flag, _key(name)], type=_type(schema), help=help_text)


def _flag(name: str, schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        name = _singular(name)
    word = name.replace("_", "-")
    return f"--arg-{word}" if name in RESERVED else f"--{word}"


def _singular(name: str) -> str:
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name.removesuffix("s")


def _key(name: str) -> str:
    return f"arg_{name}"


def _unless_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema without the null that it may also be: an option that is not given says that."""
    choices = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    return {**choices[0], **schema} if len(choices) == 1 else schema


def _metavar(schema: dict[str, Any]) -> str | None:
    kind = _type(schema)
    return f"{kind.bare.upper()}|JSON" if isinstance(kind, JsonText) and kind.bare else None


def _type(schema: dict[str, Any]) -> click.ParamType[Any]:
    if "enum" in schema and all(isinstance(word, str) for word in schema["enum"]):
        return click.Choice(schema["enum"])
    return _TYPES.get(schema.get("type", "")) or JsonText(schema)


def _help(schema: dict[str, Any], *, is_required: bool) -> str:
    parts = [schema.get("description", "").rstrip(".")]
    parts += [words.format(schema[key]) for key, words in _BOUNDS if key in schema]
    if is_required:
        parts.append("required")
    elif schema.get("default") is not None:
        parts.append(f"else {json.dumps(schema['default'])}")
    said = "; ".join(part for part in parts if part)
    return f"{said}." if said else ""
