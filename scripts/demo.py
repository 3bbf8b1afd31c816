#!/usr/bin/env python3
"""Shows the main jobs end to end: work that is proven, work that is only claimed, and how both are read.

Everything happens in a temporary folder, with a Server and a Runner of its own, and nothing of it is left.
The Codex conversation is made up: its hook is run here, on a payload of the shape that Codex sends. So this
shows what WebCodex does with a report, not that a real host sends one.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import demo_claims
import demo_stage
import demo_work
from demo_stage import Stage

STEPS = (*demo_work.BEGINNING, *demo_claims.STEPS, *demo_work.END)


def main() -> int:
    """Prints each step and returns 0, or names the step that failed and returns 1."""
    if not demo_stage.WEBCODEX.exists():
        print("Run it with: make demo", file=sys.stderr)
        return 1
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="webcodex-demo-") as name:
        stage = Stage(folder=Path(name).resolve())
        try:
            for step in STEPS:
                stage.number += 1
                print(f"{stage.number:2}. {step(stage)}", flush=True)
        except (demo_stage.Off, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"FAILED at step {stage.number}: {type(error).__name__}: {error}", file=sys.stderr)
            demo_stage.show_logs(stage)
            return 1
        finally:
            demo_stage.end(stage)
    print(f"Done in {time.monotonic() - began:.0f} s. The temporary folder is gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
