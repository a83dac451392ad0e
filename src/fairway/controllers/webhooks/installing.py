"""The ConfigMap in Kueue's install manifest: it does not replace the current configuration unless it was edited.

A release's own says which integrations are on, and nothing else that counts here; the ones that are served are on
anyway. It is known by the label that all objects of the manifest have. The label is not stored, so that a later
edit of the ConfigMap is not treated as an install manifest.
"""

from typing import Final

import msgspec

from fairway.apis.components import NAME_LABEL
from fairway.apis.kueue import configuration_file
from fairway.apis.kueue.configuration import CONFIG_KEY, CONFIG_MAP, DEFAULT_TEXT, NAMESPACE, Configuration
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import BadRequest, ValidationError

_LABEL: Final = "kueue"


class InstallManifest:
    """Puts the configuration that is stored, or the default, in place of a release's own."""

    resources: Final = ("configmaps",)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        stored = {} if request.old is None else request.old.get("data") or {}
        _keep_configuration(request.kind, request.object, stored.get(CONFIG_KEY, DEFAULT_TEXT))
        return ALLOWED

    def before_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """The same before a server-side apply is merged, so that there are no conflicts."""
        _keep_configuration(kind, applied, (old.get("data") or {}).get(CONFIG_KEY, DEFAULT_TEXT))


def _is_installed(kind: Kind, manifest: Manifest) -> bool:
    if kind.resource != "configmaps":
        return False
    metadata = manifest["metadata"]
    if metadata.get("name") != CONFIG_MAP or metadata.get("namespace") != NAMESPACE:
        return False
    return (metadata.get("labels") or {}).get(NAME_LABEL) == _LABEL


def _keep_configuration(kind: Kind, config_map: Manifest, text: str) -> None:
    if not _is_installed(kind, config_map):
        return
    metadata = config_map["metadata"]
    metadata["labels"] = {name: value for name, value in metadata["labels"].items() if name != NAME_LABEL}
    data = config_map.get("data") or {}
    if is_of_release(data.get(CONFIG_KEY, "")):
        config_map["data"] = {**data, CONFIG_KEY: text}


def is_of_release(text: str) -> bool:
    """Whether a configuration says nothing that counts here besides the integrations that are on."""
    try:
        said = configuration_file.read(text)
    except (BadRequest, ValidationError):
        return False
    plain = Configuration()
    return msgspec.structs.replace(said, frameworks=plain.frameworks) == plain
