"""Every kind of Kueue and its parts: `from fairway.apis.kueue.objects import ClusterQueue`."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from fairway.apis.core.taints import *  # noqa: F403
from fairway.apis.kueue.flavors import *  # noqa: F403
from fairway.apis.kueue.flavors import ResourceFlavor, Topology
from fairway.apis.kueue.policies import *  # noqa: F403
from fairway.apis.kueue.policies import AdmissionCheck, ProvisioningRequestConfig, WorkloadPriorityClass
from fairway.apis.kueue.queues import *  # noqa: F403
from fairway.apis.kueue.queues import ClusterQueue, Cohort, LocalQueue
from fairway.apis.kueue.workloads import *  # noqa: F403
from fairway.apis.kueue.workloads import Workload
from fairway.apis.machinery.metadata import *  # noqa: F403
from fairway.apis.machinery.selectors import *  # noqa: F403

AnyObject: TypeAlias = (
    AdmissionCheck
    | ClusterQueue
    | Cohort
    | LocalQueue
    | ProvisioningRequestConfig
    | ResourceFlavor
    | Topology
    | Workload
    | WorkloadPriorityClass
)

KINDS: Final[Mapping[str, type[AnyObject]]] = {
    kind.KIND: kind
    for kind in (
        AdmissionCheck,
        ClusterQueue,
        Cohort,
        LocalQueue,
        ProvisioningRequestConfig,
        ResourceFlavor,
        Topology,
        Workload,
        WorkloadPriorityClass,
    )
}
