"""The record of CustomResourceDefinition itself."""

from functools import partial
from typing import Final

from fairway.apis.extensions import definitions
from fairway.apis.machinery.jsonpath import custom_column
from fairway.apis.machinery.kind import Kind, Rules
from fairway.apis.machinery.schemas.definitions import definition

GROUP: Final = "apiextensions.k8s.io"
RESOURCE: Final = f"customresourcedefinitions.{GROUP}"

DEFINITIONS: Final = Kind(
    group=GROUP,
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    versions=("v1",),
    stored="v1",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    status=True,
    builtin=True,
    schemas={
        "v1": partial(definition, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition")
    },
    columns={"v1": (custom_column("Created At", ".metadata.creationTimestamp"),)},
    rules=Rules(
        default=definitions.default,
        prepare_create=definitions.prepare_create,
        prepare_update=definitions.prepare_update,
        validate=definitions.validate,
        validate_update=definitions.validate_update,
    ),
    warn=definitions.warnings,
)
