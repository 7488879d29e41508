"""The members of a set for `async for`: no thread is held while waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nearfirst._nearfirst import Bell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nearfirst._nearfirst import Member, Set


class Members:
    """What is left of a set's members, as they become ready."""

    def __init__(self, members: Set) -> None:
        """Of a set."""
        self._members = members
        self._bell = Bell()

    def __aiter__(self) -> AsyncIterator[Member]:
        """Itself."""
        return self

    async def __anext__(self) -> Member:
        """Wait for the next member."""
        while (member := self._members._poll(self._bell)) is None:  # noqa: SLF001
            await self._rung()
        return member

    async def _rung(self) -> None:
        loop = asyncio.get_running_loop()
        heard = loop.create_future()
        loop.add_reader(self._bell.fileno(), _hear, heard)
        try:
            await heard
        finally:
            loop.remove_reader(self._bell.fileno())
            self._bell.clear()


def _hear(heard: asyncio.Future[None]) -> None:
    if not heard.done():
        heard.set_result(None)
