"""What a client accepts: plain objects, tables or metadata only; JSON or YAML."""

from functools import lru_cache
from typing import NamedTuple

from fairway.errors import NotAcceptable

_VERSIONS = ("v1", "v1beta1")


class Accepted(NamedTuple):
    """The form of the answer."""

    shape: str = ""
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList`, `APIGroupDiscoveryList` or empty for plain."""

    version: str = ""
    """The version of that shape."""

    yaml: bool = False


_PLAIN = Accepted()


@lru_cache(maxsize=256)
def accepted(header: str) -> Accepted:
    """The first form in an `Accept` header that can be served; `NotAcceptable` if none can."""
    if not header:
        return _PLAIN
    for clause in header.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media in {"*/*", "application/*"}:
            return _PLAIN
        if media in {"application/json", "application/yaml"}:
            values = dict(part.split("=", 1) for part in parameters if "=" in part)
            shape = values.get("as", "")
            if not shape:
                return Accepted(yaml=media == "application/yaml")
            form = _shaped(shape, values.get("g", ""), values.get("v", ""))
            if form is not None and media == "application/json":
                return form
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml "
        "(and application/json;as=Table;v=v1;g=meta.k8s.io)"
    )


def _shaped(shape: str, group: str, version: str) -> Accepted | None:
    if group == "meta.k8s.io" and version in _VERSIONS:
        if shape in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}:
            return Accepted(shape, version)
    elif group == "apidiscovery.k8s.io" and version in {"v2", "v2beta1"} and shape == "APIGroupDiscoveryList":
        return Accepted(shape, version)
    return None
