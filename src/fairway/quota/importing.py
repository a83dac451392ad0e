"""A definition made from the objects that exist: rendered again, it gives the same objects.

What the vocabulary of a definition lacks is kept in `kueue` (fields of a ClusterQueue) or `yunikorn` (queues).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.apis.fairway.quotas import QuotaPool, parse
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.quota import kueue, yunikorn
from fairway.quota.compare import Action, Live, ObjectKey, difference, owner

_AMOUNTS: Final = {"nominalQuota": "guaranteed", "borrowingLimit": "borrowing", "lendingLimit": "lend"}


def from_kueue(live: Live, name: str, applied: Manifest | None = None) -> tuple[Manifest, list[str]]:
    """The spec of a definition of all ClusterQueues that belong to no other, and what is wrong with it. Limits and
    budgets are in no object of Kueue: they are those of the definition that was `applied`."""
    foreign = {key.name for key, one in live.items() if key.kind == "ResourceFlavor" and owner(one) not in ("", name)}
    live = {key: one for key, one in live.items() if owner(one) in ("", name)}
    queues = {key.name: one for key, one in live.items() if key.kind == "ClusterQueue"}
    cohorts = {key.name: one for key, one in live.items() if key.kind == "Cohort"}
    flavors = _flavors(queues.values(), cohorts.values(), live)
    first = flavors[0]["name"] if flavors else ""
    members: dict[str, list[str]] = {cohort: [] for cohort in cohorts}
    for queue, one in queues.items():
        cohort = one["spec"].get("cohortName")
        if cohort:
            members.setdefault(cohort, []).append(queue)
    for one in cohorts.values():
        if parent := (one.get("spec") or {}).get("parentName"):
            members.setdefault(parent, [])
    organizations = [
        _organization(cohort, cohorts.get(cohort), [_team(queues[one], live, first) for one in sorted(names)], first)
        for cohort, names in sorted(members.items())
    ]
    organizations += [
        _team(one, live, first) for queue, one in sorted(queues.items()) if not one["spec"].get("cohortName")
    ]
    named = [one["name"] if one["name"] in foreign else one for one in flavors]
    spec: Manifest = {"flavors": named, "organizations": organizations}
    _put_limits(spec["organizations"], ((applied or {}).get("spec") or {}).get("organizations") or ())
    return spec, _completed(spec, live, name)


def _flavors(queues: Iterable[Manifest], cohorts: Iterable[Manifest], live: Live) -> list[Manifest]:
    """In the order of the first queue that has them; all of them, with their specs."""
    used = [
        flavor["name"]
        for one in (*queues, *cohorts)
        for group in (one.get("spec") or {}).get("resourceGroups") or ()
        for flavor in group["flavors"]
    ]
    known = [key.name for key in live if key.kind == "ResourceFlavor"]
    return [
        {"name": one, **((live.get(ObjectKey("ResourceFlavor", "", one)) or {}).get("spec") or {})}
        for one in dict.fromkeys((*used, *sorted(known)))
    ]


def _organization(cohort: str, found: Manifest | None, teams: list[Manifest], first: str) -> Manifest:
    spec = (found or {}).get("spec") or {}
    shared, borrowing, _ = _quotas(spec)
    held: dict[QuotaPool, Quantity] = {}
    for team in teams:
        for pool, amount in _pools(team.get("guaranteed") or {}, first).items():
            held[pool] = held.get(pool, ZERO) + amount
    total = {pool: amount + held.get(pool, ZERO) for pool, amount in shared.items() if amount > ZERO}
    maximum = {pool: most + total.get(pool, held.get(pool, ZERO)) for pool, most in borrowing.items()}
    result: Manifest = {"name": cohort}
    if spec.get("parentName"):
        result["parent"] = spec["parentName"]
    _put(result, "guaranteed", total, first)
    _put(result, "maximum", maximum, first)
    _put_weight(result, spec)
    return result | {"teams": teams}


def _team(queue: Manifest, live: Live, first: str) -> Manifest:
    spec, name = queue["spec"], queue["metadata"]["name"]
    guaranteed, borrowing, lend = _quotas(spec)
    locals_ = sorted(
        (key, one) for key, one in live.items() if key.kind == "LocalQueue" and one["spec"].get("clusterQueue") == name
    )
    selected = ((spec.get("namespaceSelector") or {}).get("matchLabels") or {}).get("kubernetes.io/metadata.name")
    homes = [key.namespace for key, _ in locals_]
    home = str(selected or (homes[0] if homes else name))
    team: Manifest = {"name": name}
    if home != name:
        team["namespace"] = home
    _put(team, "guaranteed", guaranteed, first)
    if borrowing and set(borrowing) == set(guaranteed) and not any(most > ZERO for most in borrowing.values()):
        team["borrow"] = False
    else:
        _put(team, "maximum", {pool: most + guaranteed[pool] for pool, most in borrowing.items()}, first)
    _put(team, "lend", lend, first)
    _put_weight(team, spec)
    team["types"] = [_type(key, one, home) for key, one in locals_]
    return team


def _type(key: ObjectKey, queue: Manifest, home: str) -> Any:
    found: Manifest = {"name": key.name}
    if key.namespace != home:
        found["namespace"] = key.namespace
    _put_weight(found, queue["spec"])
    return found if len(found) > 1 else key.name


def _quotas(spec: Manifest) -> tuple[dict[QuotaPool, Quantity], dict[QuotaPool, Quantity], dict[QuotaPool, Quantity]]:
    found: dict[str, dict[QuotaPool, Quantity]] = {word: {} for word in _AMOUNTS.values()}
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                for field, word in _AMOUNTS.items():
                    if resource.get(field) is not None:
                        found[word][QuotaPool(resource["name"], flavor["name"])] = Quantity.parse(resource[field])
    return found["guaranteed"], found["borrowing"], found["lend"]


def _put(result: Manifest, word: str, amounts: Mapping[QuotaPool, Quantity], first: str) -> None:
    nested: Manifest = {}
    for pool, amount in amounts.items():
        nested.setdefault(pool.resource, {})[pool.flavor] = _plain(amount)
    if nested:
        result[word] = {name: parts[first] if set(parts) == {first} else parts for name, parts in nested.items()}


def _pools(nested: Manifest, first: str) -> dict[QuotaPool, Quantity]:
    return {
        QuotaPool(resource, flavor): Quantity.parse(amount)
        for resource, parts in nested.items()
        for flavor, amount in (parts if isinstance(parts, dict) else {first: parts}).items()
    }


def _plain(amount: Quantity) -> Any:
    text = str(amount)
    return int(text) if text.isdigit() else text


def _put_weight(result: Manifest, spec: Manifest) -> None:
    weight = (spec.get("fairSharing") or {}).get("weight")
    if weight is not None:
        result["weight"] = _plain(Quantity.parse(weight))


def _put_limits(found: list[Any], applied: Iterable[Any], types: Iterable[Any] = ()) -> None:
    """Limits and budgets of organizations, teams and job types that are still there; `types` are those that teams
    without their own have."""
    before = {one["name"]: one for one in applied if isinstance(one, dict)}
    for number, one in enumerate(found):
        named: Manifest = {"name": one} if isinstance(one, str) else one
        own = before.get(named["name"], {})
        limits = {word: own[word] for word in ("limits", "budget") if own.get(word)}
        if limits:
            found[number] = named | limits
        inherited = own.get("types", types)
        _put_limits(named.get("teams") or [], own.get("teams") or (), inherited)
        _put_limits(named.get("types") or [], inherited)


def _completed(spec: Manifest, live: Live, name: str) -> list[str]:
    """Keep in `kueue` what a ClusterQueue has and the definition lacks; the rest is said."""
    quota, errors = parse(spec)
    said = [str(error) for error in errors]
    rendered = {(one["kind"], one["metadata"]["name"]): one for one in kueue.render(quota, name)}
    for team in _teams(spec):
        key = ObjectKey("ClusterQueue", "", team["name"])
        found = live[key]
        differs = difference(key, rendered["ClusterQueue", team["name"]], found, name)
        if differs is None or differs.action is not Action.UPDATE:
            continue
        fields = dict.fromkeys(one.path.split(".")[1].partition("[")[0] for one in differs.fields if "." in one.path)
        kept = {field: found["spec"].get(field) for field in fields if not field.startswith("labels")}
        if kept:
            team["kueue"] = kept
    return said


def _teams(spec: Manifest) -> list[Manifest]:
    return [team for one in spec["organizations"] for team in one.get("teams", [one])]


def from_yunikorn(config: Any) -> tuple[Manifest, list[str]]:
    """The spec of a definition of YuniKorn's queues, and sentences about what it does not contain."""
    partition: Manifest = next(
        (one for one in (config or {}).get("partitions") or () if one.get("name") == "default"), {}
    )
    root: Manifest = next((one for one in partition.get("queues") or () if one.get("name") == "root"), {})
    own = {word: partition[word] for word in yunikorn.PARTITION if word in partition}
    spec: Manifest = {
        "targets": ["yunikorn"],
        "flavors": ["default-flavor"],
        "organizations": [],
        "yunikorn": {**own, "queues": []},
    }
    queues: list[Manifest] = list(root.get("queues") or ())
    apart = [one for one in queues if not one.get("queues")]
    while True:  # what one queue has decides which resources are forbidden in others
        spec["organizations"] = [_from_queue(one) for one in queues if one not in apart]
        spec["yunikorn"]["queues"] = apart
        quota, errors = parse(spec)
        wrong = {error.path.partition("]")[0].rpartition("[")[2] for error in errors}
        tops = {_top(one.key.name) for one in yunikorn.compare_configs(yunikorn.render(quota), config)}
        kept = [one for one in queues if one not in apart]
        more = [one for number, one in enumerate(kept) if str(number) in wrong or one["name"].lower() in tops]
        if not more:
            break
        apart = [one for one in queues if one in apart or one in more]
    said = [
        f"queue root.{one['name']} is kept as it is in spec.yunikorn.queues: it has fields beyond organizations, teams "
        "and job types"
        for one in spec["yunikorn"]["queues"]
    ]
    unused = [f"field {word} of queue root is left out" for word in root if word not in ("name", "queues", "parent")]
    spec["yunikorn"] = {word: part for word, part in spec["yunikorn"].items() if part}
    return {word: part for word, part in spec.items() if part or word == "organizations"}, [*said, *unused]


def _top(path: str) -> str:
    return (*path.split("."), "")[1]


def _from_queue(queue: Manifest) -> Manifest:
    children = queue.get("queues") or []
    if any(child.get("queues") for child in children):
        return _named(queue) | {"teams": [_named(child) | _types(child) for child in children]}
    return _named(queue) | _types(queue)


def _types(queue: Manifest) -> Manifest:
    found = [_named(one, leaf=True) for one in queue.get("queues") or ()]
    return {"types": [one["name"] if len(one) == 1 else one for one in found]}


def _named(queue: Manifest, *, leaf: bool = False) -> Manifest:
    """The fields of a queue in the words of a definition."""
    found: Manifest = {"name": queue["name"]}
    resources = queue.get("resources") or {}
    for word, field in (("guaranteed", "guaranteed"), ("maximum", "max")):
        if resources.get(field):
            found[word] = _amounts(resources[field])
    if queue.get("maxapplications"):
        found["jobs"] = queue["maxapplications"]
    for word, field in (("submit", "submitacl"), ("admin", "adminacl")):
        if queue.get(field):
            users, _, groups = str(queue[field]).partition(" ")
            parts = {"users": users.split(",") if users else [], "groups": groups.split(",") if groups else []}
            found[word] = {name: names for name, names in parts.items() if names}
    if queue.get("limits"):
        found["limits"] = [_limit(one) for one in queue["limits"]]
    properties = dict(queue.get("properties") or {})
    if properties and not leaf:
        found["yunikorn"] = {"properties": properties}
    return found


def _limit(limit: Manifest) -> Manifest:
    found = {word: limit[word] for word in ("users", "groups") if limit.get(word)}
    if limit.get("maxresources"):
        found["maximum"] = _amounts(limit["maxresources"])
    return found | ({"jobs": limit["maxapplications"]} if limit.get("maxapplications") else {})


def _amounts(resources: Manifest) -> Manifest:
    return {
        "cpu" if name == "vcore" else name: _plain(Quantity.parse(str(amount).replace(" ", "")))
        for name, amount in resources.items()
    }
