"""A hook written the ordinary way, the baseline of ``observation_hook.py``: argparse, pathlib, json, urllib.

It does what the product's hook does on its good path: read, check, save durably, send, compare, remove.
"""

import argparse
import fcntl
import hashlib
import json
import os
import sys
import urllib.request
from pathlib import Path


def main() -> None:
    """One payload was saved, sent and acknowledged."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    config = json.loads(parser.parse_args().config.read_text("utf-8"))
    payload = json.loads(sys.stdin.read())
    if payload["session_id"] != config["local_session_id"]:
        sys.exit(1)
    if Path(payload["cwd"]).resolve() != Path(config["project_root"]).resolve():
        sys.exit(1)
    conversation = config["local_session_id"]
    event = {
        "project": config["project"],
        "session_id": config["workflow_session_id"],
        "adapter_id": _digest(f"codex-session\0{conversation}"),
        "event_id": _digest(f"codex-tool\0{conversation}\0{payload['tool_use_id']}"),
        "observed_tool": payload["tool_name"],
        "exit_code": None,
    }
    folder = Path(config["state_dir"])
    with (folder / ".save").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = _saved(folder, event)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        observation = _sent(config, event)
        if observation["event_id"] != event["event_id"] or observation["tool"] != event["observed_tool"]:
            sys.exit(1)
        file.unlink()
        _sync(folder)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _saved(folder: Path, event: dict[str, str | None]) -> Path:
    file = folder / f"{event['event_id']}.json"
    staged = file.with_suffix(".new")
    with staged.open("w", encoding="utf-8") as stream:
        json.dump(event, stream)
        stream.flush()
        os.fsync(stream.fileno())
    staged.rename(file)
    _sync(folder)
    return file


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _sent(config: dict[str, str], event: dict[str, str | None]) -> dict[str, str]:
    request = urllib.request.Request(
        config["server_url"] + "/api/tools/call",
        data=json.dumps({"tool": "record_external_observation", "params": event}).encode(),
        headers={
            "Authorization": Path(config["authorization_file"]).read_text("utf-8").strip(),
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=5) as response:
        answer = json.load(response)
    observation: dict[str, str] = answer["output"]["observation"]
    return observation


if __name__ == "__main__":
    main()
