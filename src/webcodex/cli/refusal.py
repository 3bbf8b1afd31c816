"""The two ways a command says no, each one sentence or two: what was refused, and what to do next.

``Refused``  the command was asked for something it cannot do; exit 2, and nothing was changed
``Failed``   it tried and did not succeed; exit 1
"""

from typing import IO, Any

import click


class Refused(click.ClickException):
    """Nothing was changed; the sentence says what to ask instead."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Prints the sentence alone."""
        click.echo(self.message, file=file, err=file is None)


class Failed(Refused):
    """Something was tried and did not succeed; the sentence says what to look at."""

    exit_code = 1
