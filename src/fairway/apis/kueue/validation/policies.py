"""Rules about AdmissionCheck; WorkloadPriorityClass and ProvisioningRequestConfig have only the schema's limits."""

from fairway.apis.kueue.policies import AdmissionCheck
from fairway.apis.machinery.immutability import changed
from fairway.errors import FieldError


def wrong_check_update(old: AdmissionCheck, new: AdmissionCheck) -> list[FieldError]:
    return changed(old.spec.controller_name, new.spec.controller_name, "spec.controllerName")
