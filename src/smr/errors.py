"""The one error type for everything that a user can act on."""

from __future__ import annotations


class SmrError(Exception):
    """Something that the user can put right: a capture, a file, a setting, the machine.

    Attributes:
        cause: What is wrong, with which file or setting, and the value that was found.
        cure: What to do or type next.
    """

    def __init__(self, cause: str, cure: str) -> None:
        super().__init__(f"{cause}\n  fix: {cure}")
        self.cause = cause
        self.cure = cure

    def __reduce__(self) -> tuple[type[SmrError], tuple[str, str]]:
        return (type(self), (self.cause, self.cure))
