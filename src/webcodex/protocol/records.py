"""Turns frozen records into what goes on the wire, without knowing what they mean."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

OMIT_NONE: Final[Mapping[str, bool]] = {"omit_none": True}
"""Field metadata: the key is absent, not null, when the value is None (I-04)."""


def wire(record: object) -> dict[str, Any]:
    """Returns the JSON object of a record: its fields by name, nested records and tuples included."""
    assert dataclasses.is_dataclass(record)
    members: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value is None and field.metadata.get("omit_none"):
            continue
        members[field.name] = _value(value)
    return members


def _value(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return wire(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return value
