"""PodTemplate objects."""

from datetime import datetime
from typing import Final

from fairway.apis.core.pod_defaults import default_template
from fairway.apis.core.pod_specs import wrong_template
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.printing import container_images, container_names, labels_text
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError


def _default(manifest: Manifest) -> None:
    default_template(manifest.setdefault("template", {}))


def _validate(manifest: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata(manifest), *wrong_template(manifest["template"], "template")]


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata_update(old, new), *_validate(new)]


def _containers(manifest: Manifest, _now: datetime) -> str:
    return container_names(manifest["template"]["spec"].get("containers"))


def _images(manifest: Manifest, _now: datetime) -> str:
    return container_images(manifest["template"]["spec"].get("containers"))


def _labels(manifest: Manifest, _now: datetime) -> str:
    return labels_text((manifest["template"].get("metadata") or {}).get("labels"))


POD_TEMPLATE: Final = Kind(
    group="",
    kind="PodTemplate",
    plural="podtemplates",
    versions=("v1",),
    stored="v1",
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.PodTemplate")},
    columns={
        "v1": (
            Column(name="Containers", value=_containers, description="The names of its containers."),
            Column(name="Images", value=_images, description="Their images."),
            Column(name="Pod Labels", value=_labels, description="The labels that its pods get."),
        )
    },
    rules=Rules(default=_default, validate=_validate, validate_update=_validate_update),
)
