"""Kueue's labels and annotations on jobs."""

from typing import Final

QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
DEFAULT_QUEUE: Final = "default"
PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
MAXIMUM_SECONDS: Final = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT_WORKLOAD: Final = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label or annotation; the annotation counts where both are there."""

ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
ELASTIC_GATE: Final = "kueue.x-k8s.io/elastic-job"
SLICE_NAME: Final = "kueue.x-k8s.io/workload-slice-name"
REPLACEMENT_FOR: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
PROVISIONING_PREFIX: Final = "provreq.kueue.x-k8s.io/"
USER: Final = "fairway.dev/user"
"""On a job or a pod that is queued, and on its Workload: who created it."""

OVER_LIMIT: Final = "fairway.dev/over-limit"
"""On a Workload whose user or organization is over a limit: which one, and until when."""


JOB_UID: Final = "kueue.x-k8s.io/job-uid"
"""On a Workload: the uid of the job that it was made for."""

IS_GROUP_WORKLOAD: Final = "kueue.x-k8s.io/is-group-workload"

POD_SET: Final = "kueue.x-k8s.io/podset"
LOCAL_QUEUE: Final = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE: Final = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD: Final = "kueue.x-k8s.io/workload"

REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
GROUP_NAME: Final = "kueue.x-k8s.io/podset-group-name"
SLICE_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
POD_INDEX_OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
