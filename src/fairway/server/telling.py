"""The parts of objects that are sent as a stream: logs, and the files that jobs leave."""

from typing import Final

from fairway.server.joblogs import job_log
from fairway.server.podlogs import pod_log
from fairway.server.resultfiles import job_files

TELLERS: Final = {
    ("pods", "log"): pod_log,
    ("managedjobs.fairway.dev", "log"): job_log,
    ("managedjobs.fairway.dev", "files"): job_files,
}
"""Who sends a part of an object, by the resource of its kind and the subresource."""

STREAMED: Final = frozenset(subresource for _, subresource in TELLERS)
