"""Manifests of every kind that can be scheduled, with sizes that no default hides."""

import copy
from typing import Any

from fairway.apis.machinery.kind import Manifest


def container(name: str, cpu: str, memory: str, **more: Any) -> Manifest:
    return {"name": name, "image": "busybox", "resources": {"requests": {"cpu": cpu, "memory": memory}, **more}}


def template(cpu: str = "2", memory: str = "4Gi", **spec: Any) -> Manifest:
    return {"spec": {"restartPolicy": "Never", "containers": [container("main", cpu, memory)], **spec}}


def sample(api_version: str, kind: str, spec: Manifest, name: str = "x") -> Manifest:
    metadata = {"name": name, "namespace": "team-a"}
    return copy.deepcopy({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})


RAY_CLUSTER: Manifest = {
    "rayVersion": "2.46.0",
    "headGroupSpec": {"rayStartParams": {}, "template": template("1", "2Gi")},
    "workerGroupSpecs": [
        {
            "groupName": "gpus",
            "replicas": 2,
            "minReplicas": 1,
            "maxReplicas": 4,
            "numOfHosts": 2,
            "rayStartParams": {},
            "template": template("8", "16Gi"),
        }
    ],
}
_DASK: Manifest = {
    "worker": {"replicas": 3, "spec": template("2", "4Gi")["spec"]},
    "scheduler": {"spec": template("1", "1Gi")["spec"], "service": {"type": "ClusterIP"}},
}


def job() -> Manifest:
    return sample("batch/v1", "Job", {"parallelism": 3, "completions": 5, "template": template()})


def ray_cluster() -> Manifest:
    return sample("ray.io/v1", "RayCluster", RAY_CLUSTER)


def ray_job(**spec: Any) -> Manifest:
    known = {"entrypoint": "python a.py", "shutdownAfterJobFinishes": True, "rayClusterSpec": RAY_CLUSTER}
    return sample("ray.io/v1", "RayJob", {**known, **spec})


def spark() -> Manifest:
    spec = {
        "type": "Python",
        "mode": "cluster",
        "sparkVersion": "4.0.0",
        "mainApplicationFile": "local:///pi.py",
        "nodeSelector": {"pool": "spark"},
        "sparkConf": {"spark.executor.pyspark.memory": "256", "spark.memory.offHeap.enabled": "true"},
        "driver": {"cores": 1, "memory": "512m", "sidecars": [container("agent", "100m", "64Mi")]},
        "executor": {
            "instances": 2,
            "coreRequest": "1500m",
            "memory": "2g",
            "gpu": {"name": "nvidia.com/gpu", "quantity": 1},
        },
    }
    spec["sparkConf"]["spark.memory.offHeap.size"] = "128m"  # type: ignore[index]
    return sample("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec)


def pytorch() -> Manifest:
    replicas = {"Worker": {"replicas": 3, "template": template("4", "8Gi")}, "Master": {"template": template()}}
    return sample("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def tf_job() -> Manifest:
    replicas = {"PS": {"replicas": 1, "template": template()}, "Worker": {"replicas": 2, "template": template("4")}}
    return sample("kubeflow.org/v1", "TFJob", {"tfReplicaSpecs": replicas})


def mpi_job(**spec: Any) -> Manifest:
    replicas = {"Launcher": {"template": template("1")}, "Worker": {"replicas": 4, "template": template("4")}}
    return sample("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": replicas, **spec})


def dask_cluster() -> Manifest:
    return sample("kubernetes.dask.org/v1", "DaskCluster", _DASK)


def dask_job() -> Manifest:
    spec = {"job": {"spec": template("500m", "512Mi")["spec"]}, "cluster": {"spec": _DASK}}
    return sample("kubernetes.dask.org/v1", "DaskJob", spec)


def job_set() -> Manifest:
    replicated = [
        {"name": "driver", "template": {"spec": {"template": template("1")}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2, "template": template("4")}}},
    ]
    return sample("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": replicated})


def managed_job() -> Manifest:
    return sample("fairway.dev/v1alpha1", "ManagedJob", {"tasks": [{"run": "true"}]})


def pod(name: str, cpu: str = "1", group: str = "") -> Manifest:
    found = sample("v1", "Pod", template(cpu)["spec"], name)
    if group:
        found["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": group}
    return found


ALL = {
    "Pod": lambda: pod("a"),
    "Job": job,
    "RayJob": ray_job,
    "RayCluster": ray_cluster,
    "SparkApplication": spark,
    "PyTorchJob": pytorch,
    "TFJob": tf_job,
    "MPIJob": mpi_job,
    "DaskCluster": dask_cluster,
    "DaskJob": dask_job,
    "JobSet": job_set,
    "ManagedJob": managed_job,
}
