"""The CustomResourceDefinitions of the custom kinds that are served, for whoever lists them or waits for one."""

from fairway.apis.components import crd, is_custom
from fairway.store.verbs import Objects
from fairway.store.verbs.objects import when_durable
from fairway.store.verbs.options import Target, WriteOptions, Written
from fairway.store.verbs.reading import decoded

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
_OPTIONS = WriteOptions(tracked=False, trusted=True)


async def publish_definitions(objects: Objects) -> None:
    """Bring the stored definitions in line with this version of Fairway; to be called once at the start."""
    registry, store = objects.registry, objects.store
    kind = next(one for one in registry.kinds if one.resource == RESOURCE)
    since = objects.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    served = {one.resource: crd(one, since) for one in registry.kinds if is_custom(one)}
    staged: list[Written] = []
    for key, entry in list(store.collection(RESOURCE).entries.items()):
        manifest = served.pop(entry.name, None)
        if manifest is None:
            staged.append(objects.stage_delete(kind, key))
        elif decoded(entry).get("spec") != manifest["spec"]:
            manifest["metadata"]["resourceVersion"] = str(entry.revision)
            staged.append(objects.stage_update(Target(kind, kind.stored, key, _OPTIONS, ""), manifest))
    staged += [objects.stage_create(kind, kind.stored, "", manifest, _OPTIONS) for manifest in served.values()]
    for written in staged:
        await when_durable(written)
