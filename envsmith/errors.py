"""The errors that end a command: message, hint and exit status live in the class.

Exit statuses: 0 good; 1 findings at or above the threshold; 2 usage; 3 no solution;
4 build failed; 5 validation failed; 70 a bug of ours; 130 interrupt.
"""

from __future__ import annotations


class EnvsmithError(Exception):
    """A failure that a user can act on.

    `message` names the input and what was expected, `hint` says what to do next.
    """

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EnvsmithError):
    """The command line, or a file named on it, is not usable."""

    exit_status = 2


class DataError(EnvsmithError):
    """A matrix or template file of envsmith itself is missing or corrupt."""

    exit_status = 2


class NoSolutionError(EnvsmithError):
    """No row of the matrix serves the request; the cli layer prints the refusal beside it."""

    exit_status = 3


class BuildFailedError(EnvsmithError):
    """The engine could not be used, or the image could not be built."""

    exit_status = 4

    def __init__(self, message: str, hint: str = "", log_tail: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class ValidationFailedError(EnvsmithError):
    """A check failed, or a certificate does not belong to what it is held against."""

    exit_status = 5
