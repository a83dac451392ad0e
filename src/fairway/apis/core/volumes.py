"""Rules about the volumes of a pod and where its containers mount them."""

from collections.abc import Callable, Mapping
from typing import Final

from fairway.apis.core import checks, references
from fairway.apis.core.checks import Part
from fairway.apis.core.resources import wrong_quantity
from fairway.apis.machinery import problems
from fairway.errors import FieldError

_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS: Final = ("Disabled", "Enabled", "IfPossible")
_PROJECTIONS: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
_LEAST_TOKEN_SECONDS: Final = 600
_BLOCK_SOURCES: Final = ("persistentVolumeClaim", "ephemeral")


def wrong_volumes(volumes: list[Part], path: str) -> tuple[dict[str, Part], list[FieldError]]:
    """The sound volumes by name, which containers may mount, and what is wrong with the others."""
    sound: dict[str, Part] = {}
    errors: list[FieldError] = []
    for position, volume in enumerate(volumes):
        where = problems.index(path, position)
        name = volume.get("name") or ""
        found = [*_wrong_source(volume, where), *checks.wrong_label(name, f"{where}.name")]
        if name in sound:
            found.append(problems.duplicate(f"{where}.name", name))
        if found:
            errors += found
        else:
            sound[name] = volume
    return sound, errors


def wrong_mounts(container: Part, path: str, volumes: Mapping[str, Part]) -> list[FieldError]:
    """What is wrong with where a container mounts volumes, as file systems and as devices."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    device_paths = {device.get("name"): device.get("devicePath") for device in devices}
    errors: list[FieldError] = []
    seen = set()
    for position, mount in enumerate(mounts):
        where = f"{path}.volumeMounts[{position}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(problems.required(f"{where}.name"))
        if name not in volumes:
            errors.append(problems.not_found(f"{where}.name", name))
        if not target:
            errors.append(problems.required(f"{where}.mountPath"))
        if target in seen:
            errors.append(problems.invalid(f"{where}.mountPath", target, "must be unique"))
        seen.add(target)
        if name in device_paths:
            errors.append(problems.invalid(f"{where}.name", name, "must not already exist in volumeDevices"))
        if target in device_paths.values():
            rule = "must not already exist as a path in volumeDevices"
            errors.append(problems.invalid(f"{where}.mountPath", target, rule))
        errors += _wrong_mount_options(mount, where, f"{path}.volumeMounts", container)
    mounted = {mount.get("name"): mount.get("mountPath") for mount in mounts}
    return errors + _wrong_devices(devices, f"{path}.volumeDevices", mounted, volumes)


def _wrong_mount_options(mount: Part, where: str, path: str, container: Part) -> list[FieldError]:
    errors: list[FieldError] = []
    if mount.get("subPath"):
        errors += checks.wrong_inner_path(mount["subPath"], f"{path}.subPath")
    if mount.get("subPathExpr"):
        if mount.get("subPath"):
            rule = "subPathExpr and subPath are mutually exclusive"
            errors.append(problems.invalid(f"{where}.subPathExpr", mount["subPathExpr"], rule))
        errors += checks.wrong_inner_path(mount["subPathExpr"], f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            errors.append(problems.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
        privileged = (container.get("securityContext") or {}).get("privileged")
        if propagation == "Bidirectional" and not privileged:
            rule = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(problems.forbidden(f"{path}.mountPropagation", propagation, rule))
    recursion = mount.get("recursiveReadOnly")
    if recursion is not None:
        where = f"{path}.recursiveReadOnly"
        if recursion not in _RECURSIONS:
            errors.append(problems.not_supported(where, recursion, _RECURSIONS))
        if recursion in ("Enabled", "IfPossible") and not mount.get("readOnly"):
            errors.append(problems.forbidden(where, recursion, "may only be specified when readOnly is true"))
    return errors


def _wrong_devices(
    devices: list[Part], path: str, mounted: Mapping[str | None, str | None], volumes: Mapping[str, Part]
) -> list[FieldError]:
    errors: list[FieldError] = []
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for position, device in enumerate(devices):
        where = problems.index(path, position)
        name, target = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            errors.append(problems.required(f"{where}.name"))
        if name in seen_names:
            errors.append(problems.invalid(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(problems.not_found(f"{where}.name", name))
        elif not any(source in volumes[name] for source in _BLOCK_SOURCES):
            rule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(problems.invalid(f"{where}.name", name, rule))
        if not target:
            errors.append(problems.required(f"{where}.devicePath"))
        if target in seen_paths:
            errors.append(problems.invalid(f"{where}.devicePath", target, "must be unique"))
        if ".." in target.split("/"):
            errors.append(problems.invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')"))
        if name in mounted:
            errors.append(problems.invalid(f"{where}.name", name, "must not already exist in volumeMounts"))
        seen_names.add(name)
        seen_paths.add(target)
    return errors


def _wrong_source(volume: Part, where: str) -> list[FieldError]:
    sources = [field for field in _SOURCES if volume.get(field) is not None]
    errors: list[FieldError] = []
    for field in sources[:1]:
        errors += _SOURCES[field](volume[field], f"{where}.{field}")
    errors += [
        problems.forbidden(f"{where}.{field}", volume[field], "may not specify more than 1 volume type")
        for field in sources[1:]
    ]
    if not sources:
        errors.append(problems.required(where, "must specify a volume type"))
    return errors


def _wrong_empty_dir(source: Part, path: str) -> list[FieldError]:
    limit = source.get("sizeLimit")
    if limit is not None and wrong_quantity("memory", limit, path):
        rule = "SizeLimit field must be a valid resource quantity"
        return [problems.forbidden(f"{path}.sizeLimit", limit, rule)]
    return []


def _wrong_host_path(source: Part, path: str) -> list[FieldError]:
    if not source.get("path"):
        return [problems.required(f"{path}.path")]
    errors = checks.wrong_steps(source["path"], f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(problems.not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return errors


def _wrong_secret(source: Part, path: str) -> list[FieldError]:
    return [*_missing(source, path, "secretName"), *_wrong_files(source, path)]


def _wrong_config_map(source: Part, path: str) -> list[FieldError]:
    return [*_missing(source, path, "name"), *_wrong_files(source, path)]


def _wrong_files(source: Part, path: str) -> list[FieldError]:
    errors = checks.wrong_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for position, item in enumerate(source.get("items") or ()):
        errors += _wrong_item(item, f"{path}.items[{position}]")
    return errors


def _wrong_item(item: Part, path: str) -> list[FieldError]:
    errors = _missing(item, path, "key", "path")
    errors += checks.wrong_file_path(item.get("path") or "", f"{path}.path")
    return errors + checks.wrong_mode(item.get("mode"), f"{path}.mode")


def _wrong_downward(source: Part, path: str) -> list[FieldError]:
    errors = checks.wrong_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for item in source.get("items") or ():
        errors += references.wrong_file(item, path)
    return errors


def _wrong_projected(source: Part, path: str) -> list[FieldError]:
    errors = checks.wrong_mode(source.get("defaultMode"), f"{path}.defaultMode")
    seen: set[str] = set()
    for position, projection in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{position}]"
        given = [field for field in _PROJECTIONS if projection.get(field) is not None]
        if len(given) > 1:
            errors.append(problems.forbidden(where, given, "may not specify more than 1 volume type per source"))
        items: list[Part] = []
        for field in ("secret", "configMap"):
            part = projection.get(field)
            if part is not None:
                errors += _missing(part, f"{where}.{field}", "name")
                for place, item in enumerate(part.get("items") or ()):
                    errors += _wrong_item(item, f"{where}.{field}.items[{place}]")
                items += part.get("items") or []
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            errors += references.wrong_file(item, f"{where}.downwardAPI")
            items.append(item)
        if projection.get("serviceAccountToken") is not None:
            errors += _wrong_token(projection["serviceAccountToken"], f"{where}.serviceAccountToken", path)
        for item in items:
            target = item.get("path") or ""
            if target and target in seen:
                errors.append(problems.invalid(path, target, "conflicting duplicate paths"))
            seen.add(target)
    return errors


def _wrong_token(token: Part, where: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seconds = token.get("expirationSeconds") or 0
    if seconds < _LEAST_TOKEN_SECONDS:
        rule = "may not specify a duration less than 10 minutes"
        errors.append(problems.invalid(f"{where}.expirationSeconds", seconds, rule))
    if not token.get("path"):
        errors.append(problems.required(f"{path}.path"))
    else:
        errors += checks.wrong_file_path(token["path"], f"{path}.path")
    return errors


def _wrong_claim(source: Part, path: str) -> list[FieldError]:
    return _missing(source, path, "claimName")


def _wrong_nfs(source: Part, path: str) -> list[FieldError]:
    errors = _missing(source, path, "server", "path")
    if not (source.get("path") or "").startswith("/"):
        errors.append(problems.invalid(f"{path}.path", source.get("path"), "must be an absolute path"))
    return errors


def _wrong_csi(source: Part, path: str) -> list[FieldError]:
    return _missing(source, path, "driver")


def _wrong_ephemeral(source: Part, path: str) -> list[FieldError]:
    return _missing(source, path, "volumeClaimTemplate")


def _wrong_image(source: Part, path: str) -> list[FieldError]:
    errors = _missing(source, path, "reference")
    policy = source.get("pullPolicy")
    return errors + checks.wrong_choice(policy, f"{path}.pullPolicy", ("Always", "IfNotPresent", "Never"))


def _missing(part: Part, path: str, *fields: str) -> list[FieldError]:
    return [problems.required(f"{path}.{field}") for field in fields if not part.get(field)]


def _not_looked_into(_source: Part, _path: str) -> list[FieldError]:
    return []


_SOURCES: Final[dict[str, Callable[[Part, str], list[FieldError]]]] = {
    # In the order in which an API server looks at them; storage of single vendors is nothing that a machine has.
    "emptyDir": _wrong_empty_dir,
    "hostPath": _wrong_host_path,
    **dict.fromkeys(("gitRepo", "gcePersistentDisk", "awsElasticBlockStore"), _not_looked_into),
    "secret": _wrong_secret,
    "nfs": _wrong_nfs,
    **dict.fromkeys(("iscsi", "glusterfs", "flocker"), _not_looked_into),
    "persistentVolumeClaim": _wrong_claim,
    **dict.fromkeys(("rbd", "cinder", "cephfs", "quobyte"), _not_looked_into),
    "downwardAPI": _wrong_downward,
    **dict.fromkeys(("fc", "flexVolume"), _not_looked_into),
    "configMap": _wrong_config_map,
    **dict.fromkeys(("azureFile", "vsphereVolume", "photonPersistentDisk"), _not_looked_into),
    **dict.fromkeys(("portworxVolume", "azureDisk", "storageos"), _not_looked_into),
    "projected": _wrong_projected,
    "scaleIO": _not_looked_into,
    "csi": _wrong_csi,
    "ephemeral": _wrong_ephemeral,
    "image": _wrong_image,
}
