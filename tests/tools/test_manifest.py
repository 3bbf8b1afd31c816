"""What ``read_tool_manifest`` says of the tools (M-35), and that hidden ones stay unknown there (M-63)."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.tools.house import ADA, DEMO, House
from webcodex.core import access
from webcodex.server import mcp_tools
from webcodex.tools import manifest_flows, registry, schemas
from webcodex.tools.contract import Audience, Call, Profile
from webcodex.tools.manifest_flows import Intent

ACCESS: Final = Path(__file__).parents[2] / "docs/spec/20-access.md"
GATEWAY: Final = "call_runtime_tool"
VISIBLE: Final = {tool.name: tool for tool in registry.TOOLS if tool.audience is Audience.MODEL}
HIDDEN: Final = [
    name
    for tool in registry.TOOLS
    if tool.audience is Audience.ADAPTER
    for name in (tool.name, *tool.aliases)
]
EFFECTS: Final = {"read", "write", "execute", "collaborate", "administer"}


async def _manifest(house: House, profile: Profile, **arguments: Any) -> dict[str, Any]:
    call = Call(
        caller=ADA,
        audience=Audience.MODEL,
        name="read_tool_manifest",
        arguments=arguments,
        profile=profile,
    )
    output = (await registry.invoke(house.services, call))["output"]
    assert isinstance(output, dict)
    return output


def _direct(name: str) -> dict[str, Any]:
    return {"mode": "direct", "primary": {"tool": name}, "fallback": {"via": GATEWAY}}


@requirement("M-35", "M-20", "M-63")
async def test_every_visible_tool_is_shown_once_and_no_hidden_one(house: House) -> None:
    output = await house.output("read_tool_manifest")
    assert [row["name"] for row in output["tools"]] == sorted(VISIBLE)
    assert output["count"] == len(VISIBLE)
    assert sum(output["categories"].values()) == len(VISIBLE)
    assert output["intent"] is None
    for row in output["tools"]:
        tool = VISIBLE[row["name"]]
        assert row == {
            "name": tool.name,
            "category": tool.category,
            "summary": tool.summary,
            "effect": "execute" if tool.name == GATEWAY else tool.effect.value,
            "required_scopes": [scope.value for scope in tool.scopes],
            "route": _direct(tool.name),
        }
        assert row["effect"] in EFFECTS
    words = set(re.findall(r"[a-z_]+", json.dumps(output)))
    assert words.isdisjoint(HIDDEN)


@requirement("M-35", "M-31")
@pytest.mark.parametrize("profile", Profile)
async def test_the_route_follows_what_the_profile_lists(house: House, profile: Profile) -> None:
    everyone = access.everyone(access.Credential.BOOTSTRAP)
    entries = mcp_tools.Catalogue(compact=True).listed(everyone, profile)
    listed = {entry["name"] for entry in entries}
    for row in (await _manifest(house, profile))["tools"]:
        name = row["name"]
        expected = _direct(name) if name in listed else {"mode": "gateway", "via": GATEWAY}
        assert row["route"] == expected
        assert (await _manifest(house, profile, tool_name=name))["route"] == expected


@requirement("M-35", "M-19")
async def test_one_contract_is_exactly_the_tools_own(house: House) -> None:
    for name, tool in VISIBLE.items():
        contract = await house.output(
            "read_tool_manifest", tool_name=name, category="no such", intent="audit"
        )
        assert contract == {
            "tool_name": name,
            "description": tool.summary,
            "input_schema": schemas.input_schema(tool.params, description_chars=None),
            "effect": "execute" if name == GATEWAY else tool.effect.value,
            "required_scopes": [scope.value for scope in tool.scopes],
            "route": _direct(name),
        }


@requirement("M-17", "M-35")
async def test_an_older_name_gives_the_contract_of_the_new_one(house: House) -> None:
    contract = await house.output("read_tool_manifest", tool_name="session_handoff_summary")
    assert contract["tool_name"] == "read_session_handoff"


@requirement("M-35", "M-20", "M-63", "M-17", "M-02")
@pytest.mark.parametrize("name", [*HIDDEN, *registry.RETIRED, "planted_name", "", "x" * 200])
async def test_a_hidden_retired_or_unknown_name_has_no_contract(house: House, name: str) -> None:
    answer = await house.call("read_tool_manifest", tool_name=name)
    output = answer["output"]
    assert isinstance(output, dict)
    assert (answer["success"], output["error_kind"]) == (False, "invalid_arguments")
    assert "planted" not in json.dumps(answer)


@requirement("M-35")
async def test_a_category_and_an_intent_narrow_the_list(house: House) -> None:
    everything = await house.output("read_tool_manifest")
    for category in everything["categories"]:
        output = await house.output("read_tool_manifest", category=category)
        assert {row["category"] for row in output["tools"]} == {category}
        assert output["count"] == everything["categories"][category]
        assert output["categories"] == everything["categories"]
    empty = await house.output("read_tool_manifest", category="no such category")
    assert (empty["tools"], empty["count"]) == ([], 0)
    for intent in Intent:
        output = await house.output("read_tool_manifest", intent=intent.value)
        assert output["intent"] == intent.value
        assert {row["name"] for row in output["tools"]} == manifest_flows.tools_of(intent) & set(VISIBLE)
        assert [flow["intent"] for flow in output["recommended_flows"]] == [intent.value]
    both = await house.output("read_tool_manifest", intent="audit", category="projects")
    assert {row["category"] for row in both["tools"]} == {"projects"}


@requirement("M-35", "M-13")
async def test_an_intent_outside_its_words_is_a_value_fault(house: House) -> None:
    assert (await house.refusal("read_tool_manifest", intent="planted"))["error_kind"] == "invalid_arguments"
    assert (await house.refusal("read_tool_manifest", category="c" * 65))["error_kind"] == "invalid_arguments"


@requirement("M-35", "M-20")
async def test_flows_name_specified_tools_and_show_only_served_ones(house: House) -> None:
    specified = set(re.findall(r"`([a-z_]+)`", ACCESS.read_text(encoding="utf-8")))
    assert {tool for intent in Intent for tool in manifest_flows.tools_of(intent)} <= specified
    flows = (await house.output("read_tool_manifest"))["recommended_flows"]
    assert [flow["intent"] for flow in flows] == [intent.value for intent in Intent]
    for flow in flows:
        steps = [step["tool"] for step in flow["steps"]]
        planned = [tool for tool, _ in manifest_flows.FLOWS[Intent(flow["intent"])]]
        assert steps == [tool for tool in planned if tool in VISIBLE]
        assert steps


@requirement("M-35")
async def test_the_risk_summary_says_what_the_annotations_say(house: House) -> None:
    risks = (await house.output("read_tool_manifest"))["risk_summary"]
    assert {key: risks[key] for key in ("destructive", "open_world", "not_idempotent")} == {
        "destructive": sorted(name for name, tool in VISIBLE.items() if tool.annotations.destructive),
        "open_world": sorted(name for name, tool in VISIBLE.items() if tool.annotations.open_world),
        "not_idempotent": sorted(name for name, tool in VISIBLE.items() if not tool.annotations.idempotent),
    }
    assert "never repeated" in risks["rule"]
    narrowed = await house.output("read_tool_manifest", category="runtime")
    assert narrowed["risk_summary"]["destructive"] == []


@requirement("M-35")
async def test_flows_and_risks_can_be_left_out(house: House) -> None:
    output = await house.output(
        "read_tool_manifest", include_recommended_flows=False, include_risk_summary=False
    )
    assert set(output) == {"tools", "count", "categories", "intent"}
    assert set(await house.output("read_tool_manifest")) == {*output, "recommended_flows", "risk_summary"}


@requirement("S-51", "M-43")
async def test_reading_the_manifest_leaves_no_trace(house: House) -> None:
    session = await house.session()
    before = await house.output("list_sessions", project=DEMO)
    house.now += 100
    answer = await house.call_unchecked("read_tool_manifest", recorder=session)
    assert isinstance(answer["output"], dict)
    assert answer["output"]["session_recorded"] is False
    assert await house.output("list_sessions", project=DEMO) == before
