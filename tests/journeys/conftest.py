"""Gives every journey the installation that lives as long as the test session."""

from tests.journeys import installation

installed = installation.installed
