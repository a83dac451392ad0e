"""A real Kubernetes on this machine, for the tests: `python -m tools.cluster --help`.

Everything is built from package registries into a cache outside the tree. Two sizes: etcd and kube-apiserver alone
(`apiserver`), and a one-node cluster with kubelet and containerd in namespaces of its own (`lifecycle`).
"""
