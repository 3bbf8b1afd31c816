"""The one way an adapter says no: a fixed reason word (A-34, 60.8), never a path, a body or a secret."""


class Refused(Exception):  # a refusal is an answer, not an error of the program
    """An adapter's run or one of its steps is refused; ``reason`` is a word of 60.8."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
