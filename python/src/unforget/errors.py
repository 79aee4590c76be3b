"""Errors, told apart by what a caller can do about them.

Every one is an `UnforgetError` with a `code` for programs and words for people. The codes are those of the store.
"""

from __future__ import annotations


class UnforgetError(Exception):
    """Something could not be done.

    >>> error = UnforgetError("no such place", "unavailable")
    >>> error.code, str(error)
    ('unavailable', 'no such place')
    """

    def __init__(self, message: str, code: str = "internal") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[UnforgetError], tuple[str, str]]:
        return type(self), (str(self), self.code)


class InvalidRequest(UnforgetError, ValueError):
    """The request has to be corrected; sending it again is of no use."""


class TryAgain(UnforgetError):
    """Nothing was changed, or doing it again changes nothing: try again, perhaps later."""


class NotFound(UnforgetError, LookupError):
    """There is nothing of that name."""


class Conflict(UnforgetError):
    """It cannot be done with what is there."""


class TooLarge(UnforgetError):
    """It is larger than allowed."""


class StorageFailed(UnforgetError):
    """The disk is full or refuses; nothing of this was saved."""


class NotAllowed(UnforgetError):
    """The server does not know who asks, or does not allow it: look at the token."""


class ProgramMissing(UnforgetError):
    """The program `unforget` is not there, or is of another version: install it, or say where it is."""


class Closed(UnforgetError, RuntimeError):
    """The caller closed this store or session before the call: make another one."""


_BY_CODE: dict[str, type[UnforgetError]] = {
    "invalid": InvalidRequest,
    "method_not_allowed": InvalidRequest,
    "unsupported_media": InvalidRequest,
    "busy": TryAgain,
    "unavailable": TryAgain,
    "timeout": TryAgain,
    "too_many": TryAgain,
    "moved": TryAgain,
    "not_found": NotFound,
    "conflict": Conflict,
    "too_large": TooLarge,
    "storage": StorageFailed,
    "unauthenticated": NotAllowed,
    "forbidden": NotAllowed,
    "program": ProgramMissing,
    "closed": Closed,
}


def error_of(code: str, message: str) -> UnforgetError:
    """Makes the error that belongs to a code.

    >>> type(error_of("busy", "another program is writing this session")).__name__
    'TryAgain'
    """
    return _BY_CODE.get(code, UnforgetError)(message, code)
