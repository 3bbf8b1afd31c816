"""What the command line knows of each tool without importing it: a file generated from the tool table.

Importing the table costs most of a second, reading this file a millisecond.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("tools.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One tool: its name, what it is for, and the JSON schema of its params model, without references."""

    name: str
    summary: str
    category: str
    is_hidden: bool
    schema: dict[str, Any]


def known() -> dict[str, Spec]:
    """Returns the tools by name, from the generated file where there is one."""
    try:
        stored = json.loads(FILE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {spec.name: spec for spec in of_table()}
    return {each["name"]: Spec(**each) for each in stored}


def of_table() -> list[Spec]:
    """Returns the tools of the tool table by name."""
    from webcodex.tools import contract, registry, schemas

    return sorted(
        (
            Spec(
                name=tool.name,
                summary=tool.summary,
                category=tool.category,
                is_hidden=tool.audience is contract.Audience.ADAPTER,
                schema=schemas.input_schema(tool.params, description_chars=None),
            )
            for tool in registry.TOOLS
        ),
        key=lambda spec: spec.name,
    )


def generated() -> str:
    """Returns the content of the generated file."""
    lines = [json.dumps(asdict(spec), ensure_ascii=False) for spec in of_table()]
    return "[\n" + ",\n".join(lines) + "\n]\n"
