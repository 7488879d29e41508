"""What keeps an object away, by what the caller can do next."""

from __future__ import annotations

import errno as _errno

from nearfirst import _nearfirst

__all__ = [
    "Busy",
    "Changed",
    "Cold",
    "Denied",
    "Interrupted",
    "Io",
    "IsFolder",
    "NearfirstError",
    "NotFound",
    "Refused",
    "SpecError",
    "Stalled",
    "Unsupported",
]


_KEPT = "retry_after", "__notes__"


def _shown(name: str) -> str:
    """Without the password that a URL may hold."""
    shown = _nearfirst.redacted(name.encode(errors="surrogatepass"))
    return shown.decode(errors="surrogatepass")


class NearfirstError(Exception):
    """An object that could not be listed, asked about or read.

    As text, and as the `filename` of an `OSError`, it is without the password that a URL may hold.

    Attributes:
        name: The object, by its whole name, so that it can be asked for again.
        reason: What is wrong, without the name.
    """

    _errno: int | None = None

    def __init__(self, name: str, reason: str = "", errno: int | None = None) -> None:
        """Of an object, for a reason, with the system's number if it has one.

        Of text alone, as those make it who bring an exception from another
        process (the workers of PyTorch): the text is the name.
        """
        if isinstance(self, OSError):
            super().__init__(self._errno if errno is None else errno, reason, _shown(name))
        else:
            super().__init__(_shown(name), reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        """Name and reason."""
        shown = _shown(self.name)
        return f"{shown or repr('')}: {self.reason}" if self.reason else shown

    def __reduce__(self) -> tuple[type[NearfirstError], tuple[object, ...], dict[str, object]]:
        """So that it passes between processes, with its notes.

        What others set is left behind: it may be what cannot pass.
        """
        kept = {name: value for name, value in vars(self).items() if name in _KEPT}
        return type(self), (self.name, self.reason, getattr(self, "errno", None)), kept


class NotFound(NearfirstError, FileNotFoundError):
    """There is no such object (any more)."""

    _errno = _errno.ENOENT


class Denied(NearfirstError, PermissionError):
    """Its server, or the system, does not let this user read it."""

    _errno = _errno.EACCES


class Busy(NearfirstError):
    """The server asks for patience, and was given all there is.

    Attributes:
        retry_after: In how many seconds it asks to be asked again, if it says so.
    """

    def __init__(
        self,
        name: str,
        reason: str = "",
        errno: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Of an object, for a reason, with the server's wish."""
        super().__init__(name, reason, errno)
        self.retry_after = retry_after


class Interrupted(NearfirstError, ConnectionError):
    """The connection broke or the server failed, in every attempt."""

    _errno = _errno.ECONNRESET


class Changed(NearfirstError):
    """It is not the version any more that reading it began with."""


class Cold(NearfirstError):
    """It must be recalled from a cold tier before it can be read, or is being recalled."""


class Unsupported(NearfirstError):
    """Its store cannot do that."""


class Refused(NearfirstError):
    """It will fail again if tried again: a bad query, a bad name, an answer that is none."""


class Stalled(NearfirstError, TimeoutError):
    """The mount did not answer in time."""

    _errno = _errno.ETIMEDOUT


class Io(NearfirstError, OSError):
    """The system refused; `errno` says why."""


class IsFolder(Io, IsADirectoryError):
    """It is a folder, which has no bytes of its own."""

    _errno = _errno.EISDIR


class SpecError(NearfirstError, ValueError):
    """Text that is no spec, and why."""
