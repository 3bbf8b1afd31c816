"""Gives the tests the adapters' own checks, which live outside the package and never import it."""

import sys
from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).resolve().parents[2] / "integrations" / "codex"
if str(SCRIPTS) not in sys.path:
    sys.path.insert(0, str(SCRIPTS))

from adapter_kit import acceptance_check, brief_check, goal_context_check, refusal  # noqa: E402  # needs the path

__all__ = ["SCRIPTS", "acceptance_check", "brief_check", "goal_context_check", "refusal"]
