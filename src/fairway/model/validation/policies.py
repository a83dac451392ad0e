"""Rules about AdmissionCheck; WorkloadPriorityClass and ProvisioningRequestConfig have only the schema's limits."""

from fairway.errors import FieldError
from fairway.model.policies import AdmissionCheck
from fairway.model.validation.immutability import changed


def wrong_check_update(old: AdmissionCheck, new: AdmissionCheck) -> list[FieldError]:
    return changed(old.spec.controller_name, new.spec.controller_name, "spec.controllerName")
