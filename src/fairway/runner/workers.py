"""A Python process for long computations, so that the event loop is not held up.

It runs a module that answers questions on its pipes (`answer_questions`): frames with a length before them, any number
for a question and an empty one at its end, one for the answer. It is started by the first question and ended when
no question has come for a while, when an answer takes too long, and with the process that started it.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from typing import BinaryIO, Final

from fairway.errors import FairwayError

_LENGTH_BYTES: Final = 8
_LARGEST_ANSWER: Final = 256 << 20
_IDLE_SECONDS: Final = 30.0
_NICENESS: Final = 10


class WorkerFailed(FairwayError):
    """The process ended, or took too long."""


class WorkerProcess:
    """One process, one question at a time."""

    def __init__(self, module: str, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._module = module
        self._idle_seconds = idle_seconds
        self._process: Process | None = None
        self._ending: list[Process] = []
        self._lock = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The process, if there is one now."""
        return None if self._process is None else self._process.pid

    async def ask(self, question: AsyncIterator[bytes], seconds: float) -> bytes:
        """The answer to a question in frames; `WorkerFailed` if there is none within so many seconds."""
        async with self._lock:
            self._keep()
            try:
                async with asyncio.timeout(seconds):
                    return await self._answer(question)
            except TimeoutError:
                self._kill()
                raise WorkerFailed(f"no answer within {seconds:g} s") from None
            except (OSError, asyncio.IncompleteReadError) as error:
                self._kill()
                raise WorkerFailed(f"the process {self._module} ended: {type(error).__name__}") from error
            except BaseException:
                self._kill()  # the rest of the answer would be taken for the next one
                raise
            finally:
                self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._kill)

    async def close(self) -> None:
        """End the process; return when it has ended."""
        self._keep()
        self._kill()
        await asyncio.gather(*(process.wait() for process in self._ending))

    async def _answer(self, question: AsyncIterator[bytes]) -> bytes:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self._module, stdin=PIPE, stdout=PIPE
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise WorkerFailed("the process has no pipes")
        async for frame in question:
            stdin.write(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
            await stdin.drain()
        stdin.write(bytes(_LENGTH_BYTES))
        await stdin.drain()
        length = int.from_bytes(await stdout.readexactly(_LENGTH_BYTES), "big")
        if length > _LARGEST_ANSWER:
            raise WorkerFailed(f"the answer has {length} bytes")
        return await stdout.readexactly(length)

    def _keep(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if process.returncode is None:
            process.kill()
            self._ending = [one for one in self._ending if one.returncode is None] + [process]


def answer_questions(answer: Callable[[list[bytes]], bytes]) -> None:
    """What the process runs: answer until the other side is gone. It gives way to everything else."""
    os.nice(_NICENESS)
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed by mistake is no answer
    while (frames := _question(stdin)) is not None:
        found = answer(frames)
        stdout.write(len(found).to_bytes(_LENGTH_BYTES, "big") + found)
        stdout.flush()


def _question(stdin: BinaryIO) -> list[bytes] | None:
    """The frames of the next question; `None` at the end."""
    frames: list[bytes] = []
    while len(head := stdin.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        length = int.from_bytes(head, "big")
        if not length:
            return frames
        frames.append(stdin.read(length))
    return None
