"""What KubeRay's operator does with RayClusters and RayJobs, decided for one machine; pure."""
