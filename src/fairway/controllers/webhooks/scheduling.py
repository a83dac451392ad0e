"""The scheduler of a job: completes jobs for the scheduler that `queueconfig` names for them.

The configuration is the key `queueconfig.yaml` of the ConfigMap `fairway-config`; where there is none, that of the
server's own `config.yaml`. A text that cannot be used changes nothing: the last valid one stays in effect, and the
ConfigMap gets a Warning event.
"""

import logging
import uuid
from collections.abc import Mapping
from typing import Final

from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.kueue.configuration import OWN_CONFIG_MAP
from fairway.apis.machinery import problems
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.documents import from_yaml
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister
from fairway.client.recorder import Recorder
from fairway.entrypoints import SchedulerNames, scheduler_plugin
from fairway.errors import BadRequest, ValidationError
from fairway.schedulers.config import KEY, QueueConfig, read_queue_config
from fairway.schedulers.kinds import RESOURCES, kind_of
from fairway.schedulers.names import JOB_TYPE, ORGANIZATION
from fairway.schedulers.plugin import SchedulingError
from fairway.schedulers.scheduling import Author, keep, schedule

CONFIG_KEY: Final = "queueconfig.yaml"
_log = logging.getLogger(__name__)
_NONE: Mapping[str, str] = {}


class SchedulingAdmission:
    """Completes new jobs; later writes cannot take away what was added."""

    resources: Final = RESOURCES

    def __init__(
        self,
        cluster: Lister,
        recorder: Recorder,
        namespace: str,
        configured: QueueConfig | None = None,
        *,
        own_nodes: bool = False,
        writes_users: bool = False,
    ) -> None:
        """`namespace` is that of the ConfigMap, `configured` holds without it; with `own_nodes` this machine runs the
        pods, and no other scheduler does; with `writes_users` pods say who created their job."""
        self._configured = self._config = configured or (QueueConfig() if writes_users else None)
        self._writes_users = writes_users
        self._namespace = namespace
        self._recorder = recorder
        self._own_nodes = own_nodes
        self._namespaces = cluster.cache("namespaces")
        cluster.cache("configmaps").on_change(self._changed)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        config = self._config
        if config is None:
            return ALLOWED
        user = request.user
        if request.old is not None:
            keep(request.old, request.object, may_impersonate=user.can_impersonate)
            return ALLOWED
        groups = tuple(one for one in user.groups if not one.startswith("system:"))
        author = Author(
            user.name, groups, user.can_impersonate, self._labels(request.object), is_written=self._writes_users
        )
        try:
            warnings = schedule(request.object, config, scheduler_plugin, author, _new_id)
        except SchedulingError as error:
            return AdmissionResponse([problems.forbidden(_labels_path(request.object), "", str(error))])
        if self._own_nodes:
            warnings += _not_here(request.object)
        return AdmissionResponse(warnings=tuple(warnings)) if warnings else ALLOWED

    def _labels(self, manifest: Manifest) -> Mapping[str, str]:
        found = self._namespaces.get("", manifest["metadata"].get("namespace", ""))
        return _NONE if found is None else found["metadata"].get("labels") or _NONE

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        metadata = (new or old or {})["metadata"]
        if (metadata["namespace"], metadata["name"]) != (self._namespace, OWN_CONFIG_MAP):
            return
        text = None if new is None else (new.get("data") or {}).get(CONFIG_KEY)
        if new is None or text is None:
            self._config = self._configured
            return
        if old is not None and (old.get("data") or {}).get(CONFIG_KEY) == text:
            return
        try:
            self._config = read_queue_config_text(text)
        except (BadRequest, ValidationError) as error:
            _log.warning("ignoring invalid %s/%s: %s", self._namespace, OWN_CONFIG_MAP, error)
            said = f"{CONFIG_KEY}: the last valid configuration stays in effect: {error}"
            self._recorder.warning(new, "InvalidConfiguration", said)


def read_queue_config_text(text: str) -> QueueConfig:
    """The configuration of a YAML text with the one key `queueconfig`."""
    value = from_yaml(text.encode())
    if not isinstance(value, dict) or set(value) != {KEY}:
        raise BadRequest(f"the text must have the one key {KEY}:")
    return read_queue_config(value[KEY], SchedulerNames())


def _new_id() -> str:
    return str(uuid.uuid4())


def _labels_path(manifest: Manifest) -> str:
    labels = manifest["metadata"].get("labels") or {}
    named = next((key for key in (ORGANIZATION, JOB_TYPE) if key in labels), "")
    return problems.key("metadata.labels", named) if named else "metadata"


def _not_here(manifest: Manifest) -> list[str]:
    """What the author should know whose pods no scheduler of this machine places."""
    kind = kind_of(manifest)
    roles = [] if kind is None else kind.roles(manifest)
    name = next((role.scheduler_name for role in roles if role.scheduler_name), "")
    if not name or name == DEFAULT_SCHEDULER:
        return []
    return [f"its pods wait for the scheduler {name}, which is not part of this server: start it beside the server"]
