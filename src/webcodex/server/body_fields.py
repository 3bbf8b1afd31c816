"""Reads the fields of a JSON body that is no tool call; a refusal names only keys of the schema (M-13)."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from webcodex.tools.contract import Params

Body = TypeVar("Body", bound=Params)


class BadField(Exception):
    """A field is unknown, missing, or has a wrong type or value; the text may be shown."""


def read(model: type[Body], body: Mapping[str, Any]) -> Body:
    """Returns the fields of ``model`` in ``body``; an optional null is absent.

    Raises:
        BadField: the first that is not as ``model`` says, or that holds a NUL (M-02).

    """
    try:
        fields = model.model_validate(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise BadField(_sentence(model, fault["type"], fault["loc"])) from None
    for name, value in body.items():
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise BadField(f"Bad value of field: {name}")
    return fields


def _sentence(model: type[Params], kind: str, location: tuple[int | str, ...]) -> str:
    name = location[0] if location else ""
    if kind == "extra_forbidden" or name not in model.model_fields:
        return "Unknown field"
    if kind == "missing":
        return f"Missing field: {name}"
    if kind.endswith("_type"):
        return f"Wrong type of field: {name}"
    return f"Bad value of field: {name}"
