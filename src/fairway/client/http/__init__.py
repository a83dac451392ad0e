"""An asynchronous client of any Kubernetes API, for controllers and for servers that talk to other servers.

    async with open_transport(kubeconfig, "prod") as transport:
        client = HttpClient(transport, manager="fairway")
        await client.get(kind, "default", "train")

`connection.py` is one HTTP/1.1 connection on httptools, `pool.py` keeps a bounded number of them, `transport.py` sends
requests with retries, and `client.py` speaks the protocol that controllers use. Credentials and addresses are those of
`fairway.client.rest`, the synchronous client of the command line.
"""

from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport

__all__ = ["HttpClient", "Transport", "open_transport"]
