"""Declares the tables of Goals."""
