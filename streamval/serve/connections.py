"""Connections that send nothing, or half a request, do not keep others out."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
"""How long a client may take to send the head of a request."""

RESERVE = 64
"""Descriptors that are kept for files, pipes and the server's own sockets."""

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


def most_connections() -> int:
    """Return how many connections the process can serve: each may need one to its upstream as well.

    The soft limit of open files is raised to the hard limit first.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return max((hard - RESERVE) // 2, 1)


class Connection(H11Protocol):
    """A client's connection. It is closed if the head of a request does not come in time.

    It is read by h11, also where httptools is installed, with which uvicorn 0.54 keeps a head of any length.

    Where there are too many connections, one that waits for a request is closed in favour of a new one.
    """

    most = RESERVE
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the head of a request."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, transport.close)
        all_of_them: set[Any] = self.connections
        if len(all_of_them) <= self.most:
            return
        if sum(not one.transport.is_closing() for one in all_of_them) <= self.most:
            return
        idle = next((one for one in all_of_them if one is not self and one.waits), None)
        if idle is None:
            transport.write(_BUSY)
            transport.close()
        else:
            idle.transport.close()

    def data_received(self, data: bytes) -> None:
        """Read; the clock runs until a whole head has come."""
        super().data_received(data)
        if not self.waits:
            self._stop_clock()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether it is open, and no request is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering and not self.transport.is_closing()

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
