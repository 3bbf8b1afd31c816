"""The steps about claims: what a host's hook reports of work done elsewhere, and how it is read."""

import json
import os
import signal
from pathlib import Path

import demo_stage
from demo_stage import Stage, expect


def configure(stage: Stage) -> str:
    """The adapters have a private configuration."""
    words = (
        "--project",
        stage.project,
        "--session",
        stage.session,
        "--conversation",
        demo_stage.CONVERSATION,
    )
    printed = demo_stage.finished([str(demo_stage.WEBCODEX), "adapters", "setup", *words], stage)
    stage.config = printed.splitlines()[0].removeprefix("The configuration is in ")
    stored = json.loads(Path(stage.config).read_text(encoding="utf-8"))
    bound = (stored["workflow_session_id"], stored["local_session_id"])
    expect(bound == (stage.session, demo_stage.CONVERSATION), "the configuration names something else")
    return "Bound that exact Session to a made-up Codex conversation, in a private file outside the project."


def report(stage: Stage) -> str:
    """The hook has reported one tool use."""
    ended = demo_stage.hook(stage)
    expect(
        (ended.returncode, ended.stdout, ended.stderr) == (0, "", ""),
        f"the hook said {ended.stderr}",
    )
    return (
        "Ran the observation hook as Codex would after a Bash call: exit 0. Command and output were not sent."
    )


def list_reports(stage: Stage) -> str:
    """The report is stored as a claim."""
    one = demo_stage.only_report(stage)
    claim = (one["tool"], one["status"], one["exit_code"])
    expect(claim == ("Bash", "unknown", None), f"the report is {claim}")
    stage.recorded_at = one["recorded_at"]
    return (
        "The Server stored 1 external report: tool Bash, outcome unknown (a hook carries no receipt), "
        "coverage incomplete."
    )


def read_brief(stage: Stage) -> str:
    """The handoff brief tells of the report."""
    stage.brief = demo_stage.handoff(stage)
    external = stage.brief["external_observations"]
    told = (external["total"], external["unknown_count"], external["coverage"]["complete"])
    expect(told == (1, 1, False), f"the brief tells of {told}")
    basis = stage.brief["basis"]
    return (
        "Read the handoff brief from inside the project. It says:\n"
        f"      basis.complete                              {json.dumps(basis['complete'])}\n"
        f"      basis.reason_codes                          {json.dumps(basis['reason_codes'])}\n"
        f"      external_observations.total                 {external['total']}\n"
        f"      external_observations.unknown_count         {external['unknown_count']}\n"
        f"      external_observations.coverage.complete     {json.dumps(external['coverage']['complete'])}"
    )


def replay(stage: Stage) -> str:
    """The same payload again stores nothing."""
    ended = demo_stage.hook(stage)
    expect(ended.returncode == 0, f"the hook said {ended.stderr}")
    recorded_at = demo_stage.only_report(stage)["recorded_at"]
    expect(recorded_at == stage.recorded_at, "recorded_at has changed")
    return f"Ran the hook again on the same payload: still 1 report, recorded_at still {recorded_at}."


def kill_server(stage: Stage) -> str:
    """The Server was killed and everything ended."""
    process = demo_stage.running(stage)
    pid = json.loads((stage.data / "running.json").read_text(encoding="utf-8"))["server_pid"]
    os.kill(pid, signal.SIGKILL)
    _, complaint = process.communicate(timeout=demo_stage.STOP_S)
    expect(
        process.returncode == 1 and "SIGKILL" in complaint, f"up ended with {process.returncode}: {complaint}"
    )
    ended = demo_stage.hook(stage, call="call_while_away")
    told = json.loads(ended.stderr)
    expect(ended.returncode == 1 and told["pending"] == 1, f"the hook said {ended.stderr}")
    return (
        "Killed the Server (SIGKILL): `webcodex up` said so, stopped the Runner and ended with exit code 1.\n"
        "    A second tool call was reported meanwhile: the hook kept it and said incomplete, 1 pending."
    )


def start_again(stage: Stage) -> str:
    """The same Server runs again."""
    url = stage.url
    demo_stage.bring_up(stage)
    expect(stage.url == url, "the Server has another address")
    again = demo_stage.handoff(stage)
    different = sorted(key for key in again if again[key] != stage.brief.get(key))
    expect(not different, f"the brief differs in {different}")
    return "Started it again, at the same address with the same tokens: the brief is equal in every field."


def flush(stage: Stage) -> str:
    """The report that waited is stored."""
    ended = demo_stage.adapter(stage, "external_observation_hook.py", "--flush")
    expect(
        json.loads(ended.stdout or "{}").get("acknowledged") == 1,
        f"the hook said {ended.stderr}",
    )
    external = demo_stage.handoff(stage)["external_observations"]
    told = (external["total"], external["unknown_count"])
    expect(told == (2, 2), f"the brief tells of {told}")
    return "Flushed the outbox: the report that waited is stored, once. The brief now counts 2, both unknown."


def stop(stage: Stage) -> str:
    """Nothing of this runs any more."""
    process = demo_stage.running(stage)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=demo_stage.STOP_S)
    expect(process.returncode == 0, f"up ended with {process.returncode}: {complaint}")
    left = [pid for pid in stage.pids if demo_stage.is_alive(pid)]
    expect(not left, f"processes are left: {left}")
    return f"Stopped with Ctrl-C: exit code 0, and none of the {len(stage.pids)} processes is left."


STEPS = (
    configure,
    report,
    list_reports,
    read_brief,
    replay,
    kill_server,
    start_again,
    flush,
    stop,
)
