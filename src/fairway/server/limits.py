"""How much of everything one server takes on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond these, requests are refused with a clear word; nothing is buffered without bound."""

    body_bytes: int = 3 << 20
    """As kube-apiserver's: no request may be larger."""

    body_seconds: float = 60.0
    """A body that takes longer to arrive is not waited for."""

    transaction_bytes: int = 32 << 20
    """But for a transaction, which is many."""

    transactions: int = 8
    """Transactions that are being received or carried out at the same time."""

    requests: int = 5000
    """Requests that are being answered at the same time, watches and followed logs not counted. Clients with thousands
    of concurrent writers (Kueue's large scenario: 3 000) then wait for the disk instead of being refused."""

    requests_bytes: int = 256 << 20
    """The bodies of those requests together; one without a Content-Length counts as the largest."""

    watches: int = 10_000
    list_objects: int = 500_000
    """A list that would be longer must be asked for in pages."""

    send_seconds: float = 30.0
    """A watcher that takes nothing for so long is dropped."""

    watch_seconds: float = 1800.0
    """A watch without `timeoutSeconds` ends after this time, up to twice as long; clients then begin again."""

    longest_watch_seconds: float = 3600.0
    """No watch lasts longer, whatever its `timeoutSeconds` asks for."""

    log_seconds: float = 4 * 3600.0
    """A followed log is cut off after this time, as a kubelet would."""

    bookmark_seconds: float = 60.0

    archive_bytes: int = 1 << 30
    """No archive may be larger."""

    spare_bytes: int = 512 << 20
    """What archives leave free on the disk: the database and the logs need room as well."""

    uploads: int = 16
    """Archives that are being uploaded at the same time."""

    upload_idle_seconds: float = 30.0
    """An upload of which nothing arrives for so long is given up."""

    upload_slowest: int = 8 << 10
    """So is one that brings fewer bytes a second than this, on average and after the first `upload_idle_seconds`: a
    byte now and then would keep everybody else from uploading."""
