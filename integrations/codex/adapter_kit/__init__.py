"""The kit that the local Codex adapters are built from: standard library only, and next to no imports."""
