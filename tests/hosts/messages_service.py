"""A scripted Messages API: it stands where the service of Claude Code's model would, and has no model."""

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.hosts import model_service
from tests.hosts.model_service import Item, Step, event

MODEL: Final = "scripted-run"
_numbers: Final = itertools.count(1)


def says(text: str) -> Item:
    """Returns the block that ends a turn with a text, which says that it is scripted."""
    return {"type": "text", "text": f"{model_service.SCRIPTED}: {text}"}


def uses(tool: str, **arguments: Any) -> Item:
    """Returns the block that asks the host to use a tool."""
    return {"type": "tool_use", "id": f"toolu_scripted_{next(_numbers)}", "name": tool, "input": arguments}


class MessagesService(model_service.ModelService):
    """Answers each request for a message with the next step."""

    path = "/v1/messages"

    def events(self, step: Step) -> Iterator[bytes]:
        """Yields the server-sent events that tell one step."""
        usage = {"input_tokens": step.tokens, "output_tokens": 1}
        opening = {"id": f"msg_scripted_{next(_numbers)}", "type": "message", "role": "assistant"}
        rest: dict[str, Any] = {
            "model": MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        yield event("message_start", message={**opening, **rest})
        for index, block in enumerate(step.items):
            yield from _block(index, block)
        asks = any(block["type"] == "tool_use" for block in step.items)
        stop = {"stop_reason": "tool_use" if asks else "end_turn", "stop_sequence": None}
        yield event("message_delta", delta=stop, usage={"output_tokens": 1})
        yield event("message_stop")

    def outputs(self) -> dict[str, str]:
        """Returns what the host gave back for each use of a tool, as a model would have been shown it."""
        return {
            block["tool_use_id"]: json.dumps(block["content"], ensure_ascii=False)
            for request in self.requests
            for block in _blocks(request)
            if block["type"] == "tool_result"
        }

    def texts(self) -> list[str]:
        """Returns every text of the last request but the standing instructions, in order."""
        return [block["text"] for block in _blocks(self.requests[-1]) if block["type"] == "text"]


def _blocks(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in request["messages"]:
        content = message["content"]
        yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block(index: int, block: Item) -> Iterator[bytes]:
    if block["type"] == "text":
        opened: Item = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        opened = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield event("content_block_start", index=index, content_block=opened)
    yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)
