"""Runs RayClusters and RayJobs on this machine, as KubeRay's operator does on a cluster."""
