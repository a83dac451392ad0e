"""Admission checks that ask whether there is room, and the one that answers from the nodes that are there.

`ProvisioningController` is Kueue's check `kueue.x-k8s.io/provisioning-request`: for each workload with quota it writes
a ProvisioningRequest and turns what becomes of that into the state of the check. `CheckCapacity` serves the requests
of one class, by looking. Requests of all other classes belong to other provisioners; no nodes are created here.
"""

from fairway.controllers.provisioning.check_capacity import CheckCapacity
from fairway.controllers.provisioning.controller import ProvisioningController

__all__ = ["CheckCapacity", "ProvisioningController"]
