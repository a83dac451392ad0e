"""Where a candidate may run: here, or on the server of another context of the kubeconfig.

SkyPilot's clouds are known by name, so that a file which also lists them can be used: what runs elsewhere is left out.
"""

import re
from typing import Any, Final, NamedTuple

from fairway.managedjobs.tasks.places import Where
from fairway.managedjobs.tasks.values import nearest, shown, text

_HERE: Final = frozenset({"", "*", "local"})
WITH_CONTEXT: Final = frozenset({"k8s", "kubernetes", "fairway"})
_ELSEWHERE: Final = frozenset({
    "aws", "azure", "cloudflare", "cudo", "do", "fluidstack", "gcp", "hyperbolic", "ibm", "lambda", "lambda-cloud",
    "lambda_cloud", "mithril", "nebius", "oci", "paperspace", "primeintellect", "runpod", "scp", "seeweb", "shadeform",
    "slurm", "ssh", "together", "vast", "verda", "vsphere",
})  # fmt: skip
_CONTEXT: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,253}")
_WAY_OUT: Final = "write `infra: k8s` for here, `infra: k8s/CONTEXT` for another Fairway server, or leave it out"


class Infra(NamedTuple):
    context: str = ""
    """Empty for here."""

    elsewhere: str = ""
    """The cloud, where it is one that Fairway does not run jobs on."""


def of_infra(value: Any, where: Where) -> Infra:
    """The place that `infra` names: `k8s`, `k8s/my-context`, `aws/us-east-1`."""
    cloud, slash, rest = text(value, where, "k8s").strip().partition("/")
    return _place(cloud, rest.strip() if slash else "", value, where)


def of_cloud(value: Any, region: Any, where: Where) -> Infra:
    """The same in the older form, where the region of Kubernetes is the context."""
    cloud = text(value, where, "kubernetes").strip()
    known_region = region if type(region) is str else ""
    return _place(cloud, known_region.strip(), value, where)


def elsewhere_only(cloud: str) -> str:
    """Why a task that can run on such clouds alone is refused."""
    return f"Fairway runs no jobs on {cloud}; {_WAY_OUT}"


def _place(cloud: str, rest: str, value: Any, where: Where) -> Infra:
    name = cloud.lower()
    if name in _HERE and not rest.strip("*/"):
        return Infra()
    if name in WITH_CONTEXT:
        if rest in {"", "*"}:
            return Infra()
        if not _CONTEXT.fullmatch(rest):
            raise where.error(f"{shown(rest)} is not the name of a context; {_WAY_OUT}", value)
        return Infra(context=rest)
    if name in _ELSEWHERE:
        return Infra(elsewhere=name)
    near = nearest(name, WITH_CONTEXT | _ELSEWHERE | {"local"})
    raise where.error(f"{shown(value)} is not known; {f'did you mean {near}?' if near else _WAY_OUT}", value)
