"""Evidence that a run did not get to its host is offered again, however the run ended (A-58, A-61, A-62)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import answers, hook_fixture, recovery_fixture
from tests.adapters.recovery_fixture import Operator, Result, Served
from tests.requirements import requirement

PROMPT = "UserPromptSubmit"
EFFECTS = (
    *("send", "receive", "send", "receive"),
    *("flock", "create", "write", "fsync", "rename", "fsync", "unlock"),
)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path) as pair:
        yield pair


def killed(operator: Operator, step: int, trace: Path) -> bytes:
    """What a run has said that was killed after so many effects."""
    process = operator.start("hook", before=("-B", str(hook_fixture.STEPPED), str(trace), str(step)))
    assert process.stdin is not None
    process.stdin.write(json.dumps(operator.payload(PROMPT)).encode())
    process.stdin.close()
    process.stdin = None
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.kill()
    return process.communicate(timeout=recovery_fixture.RUN_S)[0]


@requirement("A-58", "A-61", "A-62", "A-94")
def test_killed_run_leaves_a_snapshot_only_of_what_it_has_said(
    scene: tuple[Operator, Served], tmp_path: Path
) -> None:
    operator, served = scene
    whole = served.whole
    operator.asked(PROMPT)
    for step in range(EFFECTS.index("flock") + 1, len(EFFECTS) + 1):
        served.whole = answers.broken(whole, "output.goal_context.goal.revision", 100 + step)
        before, trace = operator.snapshots(), tmp_path / f"trace-{step}"
        said = killed(operator, step, trace)
        assert tuple(trace.read_text(encoding="utf-8").split()) == EFFECTS[:step]
        is_stored = operator.snapshots() != before
        assert is_stored == ("rename" in EFFECTS[:step])
        if is_stored:
            assert Result(0, said, b"").shown(PROMPT)["status"] == "read"
        expected = "unchanged" if is_stored else "read"
        assert operator.asked(PROMPT).shown(PROMPT)["status"] == expected, EFFECTS[step - 1]


@requirement("A-58", "A-61", "A-62", "A-03")
def test_evidence_that_nobody_took_is_offered_again(scene: tuple[Operator, Served]) -> None:
    operator, _ = scene
    reading, writing = os.pipe()
    os.close(reading)
    process = operator.start("hook", stdout=writing)
    os.close(writing)
    process.communicate(json.dumps(operator.payload(PROMPT)).encode(), recovery_fixture.RUN_S)
    assert process.returncode == 1
    assert [file.name for file in operator.state.iterdir()] == [".lock"]
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "read"
