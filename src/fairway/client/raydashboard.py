"""Ray's job API (`/api/jobs/`), as far as a controller needs it."""

from typing import Any, Final
from urllib.parse import quote

import msgspec

from fairway.client.http.connection import Connection
from fairway.client.rest.errors import Garbled
from fairway.client.rest.http import Address

_SECONDS: Final = 10.0
_MOST_BYTES: Final = 4 << 20


class RayDashboard:
    """One dashboard; a connection for each request, because a request is made every few seconds."""

    def __init__(self, address: str, token: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = Address(host, int(port))
        self._token = token

    async def job(self, submission_id: str) -> dict[str, Any] | None:
        """What Ray says about a submission; `None` if it knows none of this id."""
        status, body = await self._request("GET", _path(submission_id))
        if status == 404:
            return None
        if status != 200:
            raise Garbled(f"{self._address}: Ray answered {status} when asked for job {submission_id}")
        try:
            found: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise Garbled(f"{self._address}: {error}") from error
        return found

    async def submit(self, job: dict[str, Any]) -> str:
        """Submit a job; what Ray says against it, or nothing."""
        status, body = await self._request("POST", "/api/jobs/", msgspec.json.encode(job))
        return "" if status == 200 else f"{status}: {body[-2000:].decode(errors='replace')}"

    async def stop(self, submission_id: str) -> None:
        """Ask Ray to stop a job; whether it did is not waited for."""
        await self._request("POST", f"{_path(submission_id)}/stop")

    async def _request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        connection = await Connection.open(self._address)
        headers = [("Authorization", f"Bearer {self._token}"), ("Content-Type", "application/json")]
        try:
            response = await connection.request(method, path, headers, body, _SECONDS)
            return response.status, await response.read(_SECONDS, _MOST_BYTES)
        finally:
            connection.close()


def _path(submission_id: str) -> str:
    return f"/api/jobs/{quote(submission_id, safe='')}"
