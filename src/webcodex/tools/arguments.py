"""Reads a call's arguments: structure faults refuse it, value faults wait for their row of C-22."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from webcodex.tools.contract import BadArguments, Params, Tool

_STRUCTURE: Final = frozenset({"missing", "extra_forbidden", "model_type", "dict_type", "none_required"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """Arguments of the right structure: the params, or the word of their first value fault."""

    params: Params | None
    fault: str | None


def read(tool: Tool, arguments: Mapping[str, Any]) -> Read:
    """Returns the params of ``tool`` in ``arguments``.

    Raises:
        BadArguments: an unknown or missing key, or a wrong JSON type (M-13).

    """
    try:
        params = tool.params.model_validate(arguments)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False)
    else:
        field = next((key for key, value in arguments.items() if _holds_nul(value)), None)
        return Read(params=params, fault=None) if field is None else _value_fault(tool, field)
    for fault in faults:
        if _is_structural(fault["type"], fault["input"]):
            raise BadArguments(_sentence(tool, fault["type"], fault["loc"]))
    location = faults[0]["loc"]
    return _value_fault(tool, location[0] if location else None)


def _is_structural(kind: str, value: object) -> bool:
    if kind == "literal_error":
        return not isinstance(value, str)
    return kind in _STRUCTURE or kind.endswith("_type")


def _value_fault(tool: Tool, field: object) -> Read:
    return Read(params=None, fault=tool.value_words.get(str(field), tool.value_word))


def _holds_nul(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, list):
        return any(_holds_nul(item) for item in value)
    return isinstance(value, dict) and any(_holds_nul(item) for item in value.values())


def _sentence(tool: Tool, kind: str, location: tuple[int | str, ...]) -> str:
    known = _known_keys(tool.params)
    place = ".".join(str(step) for step in location if isinstance(step, str) and step in known)
    if kind == "extra_forbidden":
        return f"Unknown argument in {place}" if place else "Unknown argument"
    if kind == "missing":
        return f"Missing argument: {place}"
    return f"Wrong type of argument: {place}" if place else "Arguments must be an object"


def _known_keys(model: type[Params]) -> set[str]:
    schema = model.model_json_schema()
    nested = schema.get("$defs", {}).values()
    return {key for part in (schema, *nested) for key in part.get("properties", {})}
