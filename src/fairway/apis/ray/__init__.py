"""KubeRay's group: RayJob and RayCluster."""
