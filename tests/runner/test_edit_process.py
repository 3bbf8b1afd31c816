"""Edits and output checks through a real Runner process, and over its ends."""

from typing import Any

from tests.requirements import requirement
from tests.runner.crash_points import AFTER, BEFORE, BODY, build, editing
from tests.runner.edit_place import asked, create, records, sha256, tree
from tests.runner.peer import Call, Runner, listening, running
from tests.runner.place import Place


async def body_of(call: Call, kind: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Returns what answers a request: its body, or its error and how far it came."""
    result = await call.ask(kind, body, **changes)
    if result["error"] is None:
        return dict(result["body"])
    return {"error": result["error"]["code"], "execution": result["command_execution_state"]}


async def kill(runner: Runner) -> None:
    runner.process.kill()
    await runner.process.wait()


@requirement("R-33", "R-54", "R-55", "R-57", "S-46")
async def test_a_runner_edits_and_after_a_kill_replays_and_first_closes_what_was_open(place: Place) -> None:
    inner, folder = build(place.root / "inner")
    inner.add_project("closed", allow_patch=False)
    body = asked(create("new/n.txt", "N"), key="first")
    made = {"new": None, "new/n.txt": b"N"}
    async with listening() as peer:
        config = inner.configure(server_url=peer.url)
        async with running(config) as runner:
            call = await peer.dialled()
            hello = await call.welcome()
            assert hello["capabilities"]["file_write"] is True
            first = await body_of(call, "edit_project_files", body)
            assert (first["applied"], first["replayed"]) == (True, False)
            refused = await body_of(call, "edit_project_files", asked(create("a.txt", "N")))
            assert refused == {"error": "edit_precondition_failed", "execution": "not_started"}
            closed = await body_of(call, "edit_project_files", asked(create("n", "N")), project_id="closed")
            assert closed == {"error": "policy_rejected", "execution": "not_started"}
            outputs = await body_of(call, "check_outputs", {"paths": ["new/n.txt", "absent"]})
            assert outputs["items"] == [
                {"path": "new/n.txt", "status": "verified", "size": 1, "sha256": sha256("N")},
                {"path": "absent", "status": "missing", "size": None, "sha256": None},
            ]
            await kill(runner)
        assert next(step for step in editing(inner, folder) if step == "changed r.txt")
        assert tree(folder) != {**BEFORE, **made}
        async with running(config) as runner:
            call = await peer.dialled()
            assert (tree(folder), records(inner)) == ({**BEFORE, **made}, [".json"])
            await call.welcome()
            await runner.logged("action=edit_undone", "project=demo")
            again = await body_of(call, "edit_project_files", body)
            assert again == {**first, "replayed": True, "state_changed": False}
            other = await body_of(call, "edit_project_files", asked(create("x", "X"), key="first"))
            assert other == {"error": "idempotency_conflict", "execution": "not_started"}
            assert (await body_of(call, "edit_project_files", BODY))["replayed"] is False
    assert tree(folder) == {**AFTER, **made}


@requirement("R-45", "R-57")
async def test_an_edit_whose_connection_ended_is_made_whole_once_or_not_at_all(place: Place) -> None:
    folder = place.add_project("demo")
    bodies = [asked(create(f"{number}", "N" * 100_000), key=f"k{number}") for number in range(8)]
    async with listening() as peer, running(place.configure(server_url=peer.url)):
        call = await peer.dialled()
        await call.welcome()
        for body in bodies:
            await call.send(**call.request("edit_project_files", body))
        first = await call.receive()
        assert first["body"]["applied"] is True
        call.drop()
        call = await peer.dialled()
        await call.welcome()
        answers = [await body_of(call, "edit_project_files", body) for body in bodies]
    assert [answer["applied"] for answer in answers] == [True] * 8
    assert answers[0]["replayed"] is True
    assert tree(folder) == {f"{number}": b"N" * 100_000 for number in range(8)}
