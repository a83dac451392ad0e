"""What kubectl finds out about the server: kinds, versions, documentation, and what there is not."""

import json

import pytest

from fairway.apis.registry import default_registry

from .kubectl import Kubectl


def test_api_resources_lists_every_kind(kubectl: Kubectl) -> None:
    head, *rows = kubectl.table("api-resources")

    assert head == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]
    acknowledged = {kind.plural: kind for kind in default_registry().kinds if kind.acknowledged}
    assert {row[0] for row in rows} >= acknowledged.keys()
    assert ["events", "ev", "v1", "true", "Event"] in rows
    assert {row[0]: row[1:] for row in rows if row[0] not in acknowledged} == {
        "configmaps": ["cm", "v1", "true", "ConfigMap"],
        "limitranges": ["limits", "v1", "true", "LimitRange"],
        "runtimeclasses": ["", "node.k8s.io/v1", "false", "RuntimeClass"],
        "events": ["ev", "events.k8s.io/v1", "true", "Event"],
        "namespaces": ["ns", "v1", "false", "Namespace"],
        "nodes": ["no", "v1", "false", "Node"],
        "pods": ["po", "v1", "true", "Pod"],
        "podtemplates": ["", "v1", "true", "PodTemplate"],
        "secrets": ["", "v1", "true", "Secret"],
        "serviceaccounts": ["sa", "v1", "true", "ServiceAccount"],
        "selfsubjectreviews": ["", "authentication.k8s.io/v1", "false", "SelfSubjectReview"],
        "selfsubjectaccessreviews": ["", "authorization.k8s.io/v1", "false", "SelfSubjectAccessReview"],
        "selfsubjectrulesreviews": ["", "authorization.k8s.io/v1", "false", "SelfSubjectRulesReview"],
        "subjectaccessreviews": ["", "authorization.k8s.io/v1", "false", "SubjectAccessReview"],
        "provisioningrequests": ["provreq,provreqs", "autoscaling.x-k8s.io/v1", "true", "ProvisioningRequest"],
        "jobs": ["", "batch/v1", "true", "Job"],
        "leases": ["", "coordination.k8s.io/v1", "true", "Lease"],
        "simulations": ["", "fairway.dev/v1alpha1", "false", "Simulation"],
        "managedjobs": ["mj", "fairway.dev/v1alpha1", "true", "ManagedJob"],
        "quotadefinitions": ["qd", "fairway.dev/v1alpha1", "false", "QuotaDefinition"],
        "attempts": ["", "fairway.dev/v1alpha1", "true", "Attempt"],
        "usage": ["", "fairway.dev/v1alpha1", "true", "UsageReport"],
        "groups": ["", "fairway.dev/v1alpha1", "false", "Group"],
        "users": ["", "fairway.dev/v1alpha1", "false", "User"],
        "waitingjobs": ["", "fairway.dev/v1alpha1", "true", "WaitingJob"],
        "admissionchecks": ["ac", "kueue.x-k8s.io/v1beta2", "false", "AdmissionCheck"],
        "clusterqueues": ["cq", "kueue.x-k8s.io/v1beta2", "false", "ClusterQueue"],
        "cohorts": ["co", "kueue.x-k8s.io/v1beta2", "false", "Cohort"],
        "localqueues": ["queue,queues,lq", "kueue.x-k8s.io/v1beta2", "true", "LocalQueue"],
        "provisioningrequestconfigs": ["prc", "kueue.x-k8s.io/v1beta2", "false", "ProvisioningRequestConfig"],
        "resourceflavors": ["flavor,flavors,rf", "kueue.x-k8s.io/v1beta2", "false", "ResourceFlavor"],
        "topologies": ["topo", "kueue.x-k8s.io/v1beta2", "false", "Topology"],
        "workloadpriorityclasses": ["wpc", "kueue.x-k8s.io/v1beta2", "false", "WorkloadPriorityClass"],
        "workloads": ["kwl,kueueworkload,kueueworkloads,wl", "kueue.x-k8s.io/v1beta2", "true", "Workload"],
        "rayclusters": ["", "ray.io/v1", "true", "RayCluster"],
        "rayjobs": ["", "ray.io/v1", "true", "RayJob"],
        "priorityclasses": ["pc", "scheduling.k8s.io/v1", "false", "PriorityClass"],
        "endpoints": ["ep", "v1", "true", "Endpoints"],
        "persistentvolumeclaims": ["pvc", "v1", "true", "PersistentVolumeClaim"],
        "persistentvolumes": ["pv", "v1", "false", "PersistentVolume"],
        "services": ["svc", "v1", "true", "Service"],
        "mutatingwebhookconfigurations": [
            "",
            "admissionregistration.k8s.io/v1",
            "false",
            "MutatingWebhookConfiguration",
        ],
        "validatingwebhookconfigurations": [
            "",
            "admissionregistration.k8s.io/v1",
            "false",
            "ValidatingWebhookConfiguration",
        ],
        "customresourcedefinitions": ["crd,crds", "apiextensions.k8s.io/v1", "false", "CustomResourceDefinition"],
        "daemonsets": ["ds", "apps/v1", "true", "DaemonSet"],
        "deployments": ["deploy", "apps/v1", "true", "Deployment"],
        "replicasets": ["rs", "apps/v1", "true", "ReplicaSet"],
        "statefulsets": ["sts", "apps/v1", "true", "StatefulSet"],
        "horizontalpodautoscalers": ["hpa", "autoscaling/v2", "true", "HorizontalPodAutoscaler"],
        "cronjobs": ["cj", "batch/v1", "true", "CronJob"],
        "endpointslices": ["", "discovery.k8s.io/v1", "true", "EndpointSlice"],
        "jobsets": ["", "jobset.x-k8s.io/v1alpha2", "true", "JobSet"],
        "pytorchjobs": ["", "kubeflow.org/v1", "true", "PyTorchJob"],
        "tfjobs": ["", "kubeflow.org/v1", "true", "TFJob"],
        "mpijobs": ["", "kubeflow.org/v2beta1", "true", "MPIJob"],
        "sparkapplications": ["sparkapp", "sparkoperator.k8s.io/v1beta2", "true", "SparkApplication"],
        "daskclusters": ["dsk", "kubernetes.dask.org/v1", "true", "DaskCluster"],
        "daskjobs": ["djb", "kubernetes.dask.org/v1", "true", "DaskJob"],
        "ingressclasses": ["", "networking.k8s.io/v1", "false", "IngressClass"],
        "ingresses": ["ing", "networking.k8s.io/v1", "true", "Ingress"],
        "networkpolicies": ["netpol", "networking.k8s.io/v1", "true", "NetworkPolicy"],
        "poddisruptionbudgets": ["pdb", "policy/v1", "true", "PodDisruptionBudget"],
        "clusterrolebindings": ["", "rbac.authorization.k8s.io/v1", "false", "ClusterRoleBinding"],
        "clusterroles": ["", "rbac.authorization.k8s.io/v1", "false", "ClusterRole"],
        "rolebindings": ["", "rbac.authorization.k8s.io/v1", "true", "RoleBinding"],
        "roles": ["", "rbac.authorization.k8s.io/v1", "true", "Role"],
        "storageclasses": ["sc", "storage.k8s.io/v1", "false", "StorageClass"],
    }


def test_api_resources_can_be_narrowed(kubectl: Kubectl) -> None:
    assert kubectl("api-resources --api-group=ray.io -o name").split() == ["rayclusters.ray.io", "rayjobs.ray.io"]
    assert "nodes" not in kubectl("api-resources --namespaced=true -o name").split()
    assert "selfsubjectreviews.authentication.k8s.io" not in kubectl("api-resources --verbs=list -o name").split()
    wide = {row[0]: row[5] for row in kubectl.table("api-resources -o wide")[1:]}
    assert wide["workloads"] == "create,delete,deletecollection,get,list,patch,update,watch"


def test_api_versions(kubectl: Kubectl) -> None:
    assert kubectl("api-versions").split() == [
        "admissionregistration.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "apiregistration.k8s.io/v1",
        "apps/v1",
        "authentication.k8s.io/v1",
        "authorization.k8s.io/v1",
        "autoscaling.x-k8s.io/v1",
        "autoscaling.x-k8s.io/v1beta1",
        "autoscaling/v2",
        "batch/v1",
        "coordination.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "fairway.dev/v1alpha1",
        "flowcontrol.apiserver.k8s.io/v1",
        "jobset.x-k8s.io/v1alpha2",
        "kubeflow.org/v1",
        "kubeflow.org/v2beta1",
        "kubernetes.dask.org/v1",
        "kueue.x-k8s.io/v1beta1",
        "kueue.x-k8s.io/v1beta2",
        "networking.k8s.io/v1",
        "node.k8s.io/v1",
        "policy/v1",
        "ray.io/v1",
        "rbac.authorization.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "sparkoperator.k8s.io/v1beta2",
        "storage.k8s.io/v1",
        "v1",
        "visibility.kueue.x-k8s.io/v1beta1",
        "visibility.kueue.x-k8s.io/v1beta2",
    ]


def test_version_names_the_server(kubectl: Kubectl) -> None:
    server = json.loads(kubectl("version -o json"))["serverVersion"]

    assert (server["major"], server["gitVersion"].partition("+")[2]) == ("1", "fairway-0.1.0")


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param("pod", ["KIND:       Pod", "VERSION:    v1", "spec\t<PodSpec>"], id="a kind"),
        pytest.param(
            "job.spec.template.spec.containers.resources",
            ["GROUP:      batch", "KIND:       Job", "limits\t<map[string]Quantity>"],
            id="a nested field",
        ),
        pytest.param(
            "clusterqueue.spec.preemption",
            ["GROUP:      kueue.x-k8s.io", "VERSION:    v1beta2", "withinClusterQueue\t<string>"],
            id="a field of Kueue's",
        ),
        pytest.param(
            "clusterqueue.spec.cohort --api-version=kueue.x-k8s.io/v1beta1",
            ["VERSION:    v1beta1", "FIELD: cohort <string>"],
            id="a field of the older version",
        ),
        pytest.param("rayjob.spec.rayClusterSpec", ["KIND:       RayJob", "headGroupSpec\t<Object>"], id="KubeRay's"),
        pytest.param(
            "waitingjobs.shortages", ["KIND:       WaitingJob", "holders\t<[]Object>"], id="what is not stored"
        ),
        pytest.param(
            "workload --recursive", ["podSets\t<[]Object>", "topologyRequest\t<Object>"], id="everything below"
        ),
    ],
)
def test_explain(kubectl: Kubectl, asked: str, want: list[str]) -> None:
    said = kubectl(f"explain {asked}")

    assert [text for text in want if text not in said] == [], said


def test_explain_of_no_field(kubectl: Kubectl) -> None:
    assert 'field "nothing" does not exist' in kubectl.refused("explain pod.spec.nothing")


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("rollout status gateway/x", 'doesn\'t have a resource type "gateway"', id="rollout"),
        pytest.param("get csidrivers", 'doesn\'t have a resource type "csidrivers"', id="drivers"),
        pytest.param("top pods", "Metrics API not available", id="top"),
    ],
)
def test_what_is_not_served_is_said_plainly(kubectl: Kubectl, command: str, want: str) -> None:
    assert want in kubectl.refused(command)
