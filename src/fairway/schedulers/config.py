"""`queueconfig`: which scheduler takes which jobs, and with which parameters; for all, by organization, by job type.

    queueconfig:
      scheduler: yunikorn
      jobs:
        - type: ray
          gangscheduling: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"
          allow-preemption: false
      organizations:
        - name: ml
          scheduler: kueue

Every value is checked, and what is wrong is named by its path. Reading files and ConfigMaps is for others.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from fairway.apis.machinery import problems
from fairway.apis.machinery.names import subdomain_faults
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.errors import FieldError, ValidationError
from fairway.schedulers.names import DEFAULT_TYPE
from fairway.schedulers.plugin import Amounts, GangParameters

KEY: Final = "queueconfig"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9_]{0,61}[a-z0-9])?")
_YUNIKORN_PATH: Final = re.compile(r"root(\.[A-Za-z0-9_-]+)+")
_NAME_RULE: Final = "must be small letters, digits, `-` and `_`, at most 63, such as ml"
_SETTINGS: Final = ("scheduler", "gangscheduling", "allow-preemption", "priority-class", "queue", "user-info")
_JOB: Final = ("type", *_SETTINGS)
_ORGANIZATION: Final = ("name", *_SETTINGS, "jobs")
_TOP: Final = (*_SETTINGS, "jobs", "organization", "organizations", "runtime-classes")
_TIMEOUT: Final = "placeholderTimeoutInSeconds"
_STYLE: Final = "gangSchedulingStyle"
_STYLES: Final = {"hard": "Hard", "soft": "Soft"}
_LONGEST_TIMEOUT: Final = 7 * 24 * 3600


class JobSettings(Struct, frozen=True, kw_only=True):
    """What is said at one place; `None` where nothing is."""

    scheduler: str | None = None
    gang: bool | None = None
    gang_parameters: GangParameters | None = None
    allow_preemption: bool | None = None
    priority_class: str | None = None
    queue: str | None = None
    user_info: bool | None = None

    def over(self, other: "JobSettings") -> "JobSettings":
        """These, and the other ones where these say nothing."""
        return JobSettings(
            **{
                name: getattr(other, name) if getattr(self, name) is None else getattr(self, name)
                for name in JobSettings.__struct_fields__
            }
        )


class OrganizationSettings(Struct, frozen=True, kw_only=True):
    """The settings of an organization, or of all."""

    settings: JobSettings = JobSettings()
    jobs: Mapping[str, JobSettings] = field(default_factory=dict)
    """By job type."""


class QueueConfig(Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    common: OrganizationSettings = OrganizationSettings()
    organizations: Mapping[str, OrganizationSettings] = field(default_factory=dict)
    organization: str = ""
    """Of jobs whose namespace and labels name none; empty for the name of the namespace."""

    overheads: Mapping[str, Amounts] = field(default_factory=dict)
    """By RuntimeClass."""

    def job_type(self, organization: str, types: Iterable[str]) -> str:
        """The first of a kind's types that is configured; else `default`."""
        own = self.organizations.get(organization, _NOTHING)
        return next((one for one in types if one in own.jobs or one in self.common.jobs), DEFAULT_TYPE)

    def settings(self, organization: str, job_type: str) -> JobSettings:
        """What holds for a job: what its organization says before what is said for all, a type before the rest."""
        found = JobSettings()
        for place in (self.organizations.get(organization, _NOTHING), self.common):
            found = found.over(place.jobs.get(job_type, JobSettings())).over(place.settings)
        return found


_NOTHING: Final = OrganizationSettings()


def read_queue_config(value: object, schedulers: Collection[str], path: str = KEY) -> QueueConfig:
    """The configuration of a mapping; `ValidationError` with everything that is wrong.

    `schedulers` are the names of the plugins that there are.
    """
    reader = _Reader(schedulers)
    found = reader.config(value, path)
    if reader.errors:
        raise ValidationError("queueconfig", "", reader.errors)
    return found


def read_gang_parameters(text: str) -> GangParameters:
    """YuniKorn's text of `key=value` pairs; `ValueError` says what is wrong with it.

    YuniKorn itself skips what it cannot read, and takes a style in another case than its own for `Soft`.
    """
    timeout, style = None, ""
    seen: set[str] = set()
    for part in text.split():
        key, equals, given = part.partition("=")
        if not equals or key not in {_TIMEOUT, _STYLE}:
            raise ValueError(f"{part!r} is neither {_TIMEOUT}=SECONDS nor {_STYLE}=Hard|Soft")
        if key in seen:
            raise ValueError(f"{key} is given twice")
        seen.add(key)
        if key == _STYLE:
            if given.lower() not in _STYLES:
                raise ValueError(f"{_STYLE} is {given!r}, and must be Hard or Soft")
            style = _STYLES[given.lower()]
        elif not (given.isascii() and given.isdigit() and int(given) <= _LONGEST_TIMEOUT):
            raise ValueError(f"{_TIMEOUT} is {given!r}, and must be a number from 0 to {_LONGEST_TIMEOUT}")
        else:
            timeout = int(given)
    return GangParameters(timeout_seconds=timeout, style=style)


class _Reader:
    """Reads a configuration and collects what is wrong."""

    def __init__(self, schedulers: Collection[str]) -> None:
        self._schedulers = schedulers
        self.errors: list[FieldError] = []

    def config(self, value: object, path: str) -> QueueConfig:
        fields = self._fields(value, path, _TOP)
        organizations: dict[str, OrganizationSettings] = {}
        for at, one in self._items(fields, path, "organizations"):
            name = self._entry(one, at, _ORGANIZATION, "name", organizations)
            if name:
                organizations[name] = self._organization(one, at)
        organization = fields.get("organization")
        if organization is not None:
            organization = self._name(organization, f"{path}.organization")
        return QueueConfig(
            common=self._organization(fields, path),
            organizations=organizations,
            organization=organization or "",
            overheads=self._overheads(fields.get("runtime-classes"), f"{path}.runtime-classes"),
        )

    def _organization(self, fields: Mapping[str, Any], path: str) -> OrganizationSettings:
        jobs: dict[str, JobSettings] = {}
        for at, one in self._items(fields, path, "jobs"):
            name = self._entry(one, at, _JOB, "type", jobs)
            if name:
                jobs[name] = self._settings(one, at)
        return OrganizationSettings(settings=self._settings(fields, path), jobs=jobs)

    def _settings(self, fields: Mapping[str, Any], path: str) -> JobSettings:
        scheduler = fields.get("scheduler")
        if scheduler is not None and scheduler not in self._schedulers:
            self.errors.append(problems.not_supported(f"{path}.scheduler", scheduler, sorted(self._schedulers)))
        gang, parameters = self._gang(fields.get("gangscheduling"), f"{path}.gangscheduling")
        return JobSettings(
            scheduler=scheduler,
            gang=gang,
            gang_parameters=parameters,
            allow_preemption=self._switch(fields, path, "allow-preemption"),
            priority_class=self._object_name(fields.get("priority-class"), f"{path}.priority-class"),
            queue=self._queue(fields.get("queue"), f"{path}.queue"),
            user_info=self._switch(fields, path, "user-info"),
        )

    def _switch(self, fields: Mapping[str, Any], path: str, name: str) -> bool | None:
        value = fields.get(name)
        if value is None or type(value) is bool:
            return value
        self._wrong_type(f"{path}.{name}", value, "must be true or false")
        return None

    def _gang(self, value: object, path: str) -> tuple[bool | None, GangParameters | None]:
        if value is None or type(value) is bool:
            return value, None
        if not isinstance(value, str):
            self._wrong_type(path, value, f"must be a text such as {_TIMEOUT}=60 {_STYLE}=Hard, or false")
            return None, None
        try:
            return True, read_gang_parameters(value)
        except ValueError as error:
            self.errors.append(problems.invalid(path, value, str(error)))
            return None, None

    def _overheads(self, value: object, path: str) -> dict[str, Amounts]:
        found: dict[str, Amounts] = {}
        for name, amounts in self._fields(value, path, None).items():
            found[name] = {
                resource: self._quantity(amount, f"{path}.{name}.{resource}")
                for resource, amount in self._fields(amounts, f"{path}.{name}", None).items()
            }
        return found

    def _quantity(self, value: object, path: str) -> Quantity:
        try:
            found = Quantity.parse(value)  # type: ignore[arg-type]
        except (ValueError, TypeError):
            found = None
        if found is None or type(value) is bool or found < ZERO:
            self.errors.append(problems.invalid(path, value, "must be an amount such as 250m or 120Mi"))
            return ZERO
        return found

    def _fields(self, value: object, path: str, known: Collection[str] | None) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong_type(path, value, "must be a mapping")
            return {}
        for name in value:
            if known is not None and name not in known:
                rule = f"is not known here; there are {', '.join(known)}"
                self.errors.append(problems.unknown(f"{path}.{name}", name, rule))
        return value

    def _items(self, fields: Mapping[str, Any], path: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
        value = fields.get(name)
        if value is None:
            return []
        at = f"{path}.{name}"
        if not isinstance(value, list):
            self._wrong_type(at, value, "must be a list")
            return []
        found: list[tuple[str, Mapping[str, Any]]] = []
        for position, one in enumerate(value):
            if isinstance(one, dict):
                found.append((problems.index(at, position), one))
            else:
                self._wrong_type(problems.index(at, position), one, "must be a mapping")
        return found

    def _entry(
        self, fields: Mapping[str, Any], path: str, known: Collection[str], key: str, taken: Mapping[str, Any]
    ) -> str:
        """The name of an entry of a list; empty if it has none that can be used."""
        self._fields(fields, path, known)
        if fields.get(key) is None:
            self.errors.append(problems.required(f"{path}.{key}"))
            return ""
        name = self._name(fields[key], f"{path}.{key}")
        if name in taken:
            self.errors.append(problems.duplicate(f"{path}.{key}", name))
        return name

    def _name(self, value: object, path: str) -> str:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self.errors.append(problems.invalid(path, value, _NAME_RULE))
            return ""
        return value

    def _object_name(self, value: object, path: str) -> str | None:
        if value is None:
            return None
        faults = list(subdomain_faults(value)) if isinstance(value, str) else ["must be a text"]
        if faults:
            self.errors.append(problems.invalid(path, value, "; ".join(faults)))
        return str(value)

    def _queue(self, value: object, path: str) -> str | None:
        """A LocalQueue, or a path of YuniKorn, whose names may have capitals and `_`."""
        if isinstance(value, str) and _YUNIKORN_PATH.fullmatch(value):
            return value
        return self._object_name(value, path)

    def _wrong_type(self, path: str, value: object, rule: str) -> None:
        self.errors.append(problems.wrong_type(path, value, rule))
