"""Starts things and talks to people."""
