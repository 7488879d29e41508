"""Sets for tasks, and their members for `async for`: no thread is held while waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from nearfirst._nearfirst import Bell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nearfirst._nearfirst import Member, Set


class Members:
    """What is left of a set's members, as they become ready; for several tasks at a time."""

    def __init__(self, members: Set) -> None:
        """Of a set."""
        self._members = members
        self._tasks: _Tasks | None = None

    def __aiter__(self) -> AsyncIterator[Member]:
        """Itself."""
        return self

    async def __anext__(self) -> Member:
        """Wait for the next member; of tasks, who began to wait first is served first."""
        self._tasks = tasks = _tasks()
        waiting = self._members._wait(tasks.bell)  # noqa: SLF001
        try:
            while (member := waiting.poll()) is None:
                await tasks.rung(waiting.number)
        finally:
            waiting.leave()
        return member


async def entered(members: Set) -> Set:
    """Enter a set."""
    return members.__enter__()


async def left(members: Set) -> None:
    """Leave it closed."""
    members.close()


class _Tasks:
    """The tasks of one event loop that wait: one descriptor wakes them all."""

    def __init__(self) -> None:
        self.bell = Bell()
        self._heard: dict[int, asyncio.Future[None]] = {}

    async def rung(self, number: int) -> None:
        """Wait until the bell names this number."""
        loop = asyncio.get_running_loop()
        if not self._heard:
            loop.add_reader(self.bell.fileno(), self._hear)
        heard = self._heard[number] = loop.create_future()
        try:
            await heard
        finally:
            del self._heard[number]
            if not self._heard:
                loop.remove_reader(self.bell.fileno())

    def _hear(self) -> None:
        for number in self.bell.rung():
            heard = self._heard.get(number)
            if heard is not None and not heard.done():
                heard.set_result(None)


# Whoever iterates keeps them, so that the descriptor goes with the last.
_OF_LOOPS: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[_Tasks]] = WeakKeyDictionary()


def _tasks() -> _Tasks:
    """Find those of the running loop."""
    loop = asyncio.get_running_loop()
    kept = _OF_LOOPS.get(loop)
    tasks = kept() if kept is not None else None
    if tasks is None:
        tasks = _Tasks()
        _OF_LOOPS[loop] = ref(tasks)
    return tasks
