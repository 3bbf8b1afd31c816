"""Turns a ToolResult into its output, or into the sentence that says why there is none and what to do."""

from http import HTTPStatus
from typing import Any, Final

from webcodex.cli import program, refusal, server_client

NEXT: Final = {
    "fix_input": "Change the arguments and try again.",
    "retry_same": "The same call again is safe.",
    "reobserve": "Read the state first.",
    "reconcile": "The outcome is unknown: read it by its identity, do not repeat the work.",
    "wait": "Try again later.",
    "user_action": "Somebody has to decide or act first.",
}  # M-15


def output_of(client: server_client.Client, tool: str, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the output of one call of a tool.

    Raises:
        Failed: there is none; the sentence says what to do.

    """
    body = {"tool": tool, "params": params}
    answer = client.post("/api/tools/call", body, deadline_s=server_client.TOOL_DEADLINE_S)
    check(answer)
    output: dict[str, Any] = answer.body["output"]
    return output


def check(answer: server_client.Answer) -> None:
    """Returns when the call succeeded.

    Raises:
        Failed: it did not; the sentence says what to do.

    """
    if answer.status == HTTPStatus.OK:
        return
    output = answer.body.get("output")
    if isinstance(answer.body.get("success"), bool) and isinstance(output, dict):
        raise refusal.Failed(_failure(answer.error, output))
    raise refusal.Failed(_refusal(answer))


def _failure(sentence: str, output: dict[str, Any]) -> str:
    lines = [f"{sentence.rstrip('.')}. ({output.get('error_kind', 'unknown')})"]
    if output.get("state_changed", False) is None:
        lines.append("Whether anything was changed is not known.")
    advice = output.get("recovery") or NEXT.get(str(output.get("recovery_kind")))
    return "\n".join([*lines, advice] if advice else lines)


def _refusal(answer: server_client.Answer) -> str:
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return server_client.unknown_token()
    scope = answer.error.removeprefix("missing required scope: ")
    if scope != answer.error:
        return (
            f"The token lacks the scope {scope}. Make one that has it, and use that:\n"
            f"  {program.command(f'token create --scope {scope} --out FILE')}\n"
            "  and --token-file FILE with the same call"
        )
    return f"The Server refused: {answer.error}."
