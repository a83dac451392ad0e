"""What holds for server-side apply, whatever is applied by whom in which order."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.store.patching.apply import BEFORE_FIRST_APPLY, apply
from fairway.store.patching.comparing import element_of
from fairway.store.patching.conflicts import ApplyConflict, FieldConflict
from fairway.store.patching.fieldsets import Path, contains, intersection, paths
from fairway.store.patching.managedfields import after_write, entries_of

from .widgets import NOW, V1, convert, schema_for, widget

_WORDS = st.sampled_from(["x", "y", "z"])
_MAPS = st.dictionaries(_WORDS, _WORDS, max_size=3)
_SMALL = st.integers(0, 1)


def _named(optional: dict[str, Any], at_least: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Lists that are matched by name."""
    element = st.fixed_dictionaries({"name": _WORDS}, optional=optional)
    return st.lists(element, min_size=at_least, max_size=3, unique_by=lambda item: str(item["name"]))


def _configs(at_least: int) -> st.SearchStrategy[dict[str, Any]]:
    """Configurations; `at_least` is for the elements of lists that are matched by name or value."""
    tags = st.lists(_WORDS, unique=True, min_size=at_least, max_size=3)
    env = _named({"value": _WORDS}, at_least)
    optional: dict[str, st.SearchStrategy[Any]] = {
        "size": _SMALL,
        "mode": _WORDS,
        "labels": _MAPS,
        "parts": _named({"image": _WORDS, "tags": tags, "env": env}, at_least),
        "order": st.lists(_WORDS, max_size=2),
        "selector": _MAPS,
        "limits": st.fixed_dictionaries({}, optional={"low": _SMALL, "high": _SMALL}),
        "anything": st.dictionaries(_WORDS, _SMALL | _MAPS, max_size=2),
    }
    return st.fixed_dictionaries({}, optional=optional).map(lambda spec: {**widget(), "spec": spec})


_CONFIGS = _configs(0)

# An empty list that is matched by name is no field, so nobody owns it, and it does not stay for anybody.
_OWNABLE_CONFIGS = _configs(1)
_STEPS = st.tuples(st.sampled_from(["A", "B", "C"]), st.sampled_from(["apply", "force", "update"]), _CONFIGS)
_ATOMIC = ("f:selector", "f:order")
_MISSING: Any = object()


def apply_as(live: dict[str, Any] | None, config: dict[str, Any], manager: str, *, force: bool) -> dict[str, Any]:
    return apply(
        live, config, schema_for=schema_for, convert=convert, manager=manager, force=force, subresource="", now=NOW
    )


def played(steps: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """An object with a past of creates, updates and applied configurations."""
    live: dict[str, Any] | None = None
    for manager, verb, config in steps:
        if verb == "update":
            new = {**config, "metadata": {**(live or config)["metadata"]}}
            entries = after_write(
                live, new, schema=schema_for(V1), manager=manager, subresource="", api_version=V1, now=NOW
            )
            new["metadata"]["managedFields"] = entries
            live = new
        else:
            try:
                live = apply_as(live, config, manager, force=verb == "force")
            except ApplyConflict:
                continue
    return live if live is not None else apply_as(None, widget(), "nobody", force=False)


_PASTS = st.lists(_STEPS, max_size=5).map(played)


def value_at(manifest: Any, path: Path) -> Any:
    """What stands at a path, looked up in the plainest way."""
    value, schema = manifest, schema_for(V1)
    for element in path:
        if element.startswith("f:"):
            if not isinstance(value, dict) or element[2:] not in value:
                return _MISSING
            value = value[element[2:]]
            schema = schema.properties.get(element[2:]) or schema.values or schema
        else:
            found = [item for item in value or [] if element_of(item, schema) == element]
            if not found:
                return _MISSING
            value, schema = found[0], schema.items or schema
    return value


def holds(live: Any, config: Any, schema: Any) -> bool:
    """Whether the object has everything that the configuration says."""
    if isinstance(config, dict) and not schema.atomic:
        return isinstance(live, dict) and all(
            name in live and holds(live[name], value, schema.properties.get(name) or schema.values or schema)
            for name, value in config.items()
        )
    if isinstance(config, list) and schema.list_type != "atomic":
        by_element = {element_of(item, schema): item for item in live}
        return all(
            element_of(item, schema) in by_element and holds(by_element[element_of(item, schema)], item, schema.items)
            for item in config
        )
    return bool(live == config)


def conflicts_of(live: dict[str, Any], config: dict[str, Any]) -> tuple[FieldConflict, ...]:
    """What stands in the way of a new manager."""
    try:
        apply_as(live, config, "new", force=False)
    except ApplyConflict as conflict:
        return conflict.conflicts
    return ()


def entry_of(manifest: dict[str, Any], manager: str) -> dict[str, Any]:
    found = [
        entry["fieldsV1"]
        for entry in entries_of(manifest)
        if entry["manager"] == manager and entry["operation"] == "Apply"
    ]
    return found[0] if found else {}


@given(_PASTS, _CONFIGS)
def test_forced_configuration_is_in_the_object_and_owned(live: dict[str, Any], config: dict[str, Any]) -> None:
    before = copy.deepcopy((live, config))
    result = apply_as(live, config, "A", force=True)
    assert holds(result["spec"], config["spec"], schema_for(V1).properties["spec"])
    mine = entry_of(result, "A")
    fresh = entry_of(apply_as(None, config, "A", force=False), "A")
    assert mine == fresh, "what is owned depends on the configuration alone"
    assert (live, config) == before, "the arguments were changed"


@given(_PASTS, _CONFIGS)
def test_applying_twice_is_applying_once(live: dict[str, Any], config: dict[str, Any]) -> None:
    once = apply_as(live, config, "A", force=True)
    assert apply_as(once, config, "A", force=False) is once


@given(_PASTS, _CONFIGS)
def test_new_applier_leaves_what_others_own_alone(live: dict[str, Any], config: dict[str, Any]) -> None:
    try:
        result = apply_as(live, config, "new", force=False)
    except ApplyConflict:
        return
    for entry in entries_of(live):
        for path in paths(entry["fieldsV1"]):
            was, now = value_at(live, path), value_at(result, path)
            if isinstance(was, dict | list) and path[-1] not in _ATOMIC:
                assert now is not _MISSING, path
            else:
                assert now == was, path


def _has_members_below(fields: dict[str, Any], path: Path) -> bool:
    node = fields
    for element in path:
        node = node[element]
    return bool(node)


@given(_PASTS, _CONFIGS)
def test_conflicts_are_about_what_others_own_and_nothing_is_written(
    live: dict[str, Any], config: dict[str, Any]
) -> None:
    before = copy.deepcopy(live)
    for each in conflicts_of(live, config):
        owners = [entry for entry in entries_of(live) if entry["manager"] == each.manager]
        if each.manager == BEFORE_FIRST_APPLY and not owners:
            assert entries_of(live) == [], "somebody owned something"
            continue
        assert any(contains(entry["fieldsV1"], each.path) for entry in owners)
    assert live == before


@given(_PASTS, _CONFIGS)
def test_force_leaves_contested_fields_to_one_owner(live: dict[str, Any], config: dict[str, Any]) -> None:
    result = apply_as(live, config, "new", force=True)
    for each in conflicts_of(live, config):
        owners = {entry["manager"] for entry in entries_of(result) if contains(entry["fieldsV1"], each.path)}
        assert each.manager not in owners


@given(_OWNABLE_CONFIGS, _OWNABLE_CONFIGS)
def test_fields_given_up_by_their_only_owner_vanish(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = apply_as(apply_as(None, first, "A", force=False), second, "A", force=False)
    fresh = apply_as(None, second, "A", force=False)
    assert _normal(live["spec"]) == _normal(fresh["spec"])
    assert entries_of(live) == entries_of(fresh)


def _normal(value: Any) -> Any:
    """Without empty containers and the order of elements, which may depend on the past."""
    if isinstance(value, dict):
        inner = {name: _normal(child) for name, child in value.items()}
        return {name: child for name, child in inner.items() if child not in ({}, [])}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(map(_normal, value), key=lambda item: item["name"])
    return sorted(value) if isinstance(value, list) else value


@given(_OWNABLE_CONFIGS, _OWNABLE_CONFIGS)
def test_fields_given_up_that_somebody_shares_stay(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    live = apply_as(None, mine, "A", force=False)
    live = apply_as(live, theirs, "B", force=True)
    result = apply_as(live, widget(), "A", force=False)
    assert holds(result["spec"], theirs["spec"], schema_for(V1).properties["spec"])
    assert entry_of(result, "B") == entry_of(live, "B")


@given(_PASTS)
def test_everything_owned_is_there(live: dict[str, Any]) -> None:
    for entry in entries_of(live):
        for path in paths(entry["fieldsV1"]):
            assert value_at(live, path) is not _MISSING, (entry["manager"], path)


@given(_PASTS, _CONFIGS)
def test_plain_write_owns_exactly_what_it_changed(live: dict[str, Any], sent: dict[str, Any]) -> None:
    new = {**sent, "metadata": live["metadata"]}
    entries = after_write(live, new, schema=schema_for(V1), manager="W", subresource="", api_version=V1, now=NOW)
    mine: dict[str, Any] = next((entry["fieldsV1"] for entry in entries if entry["manager"] == "W"), {})
    for path in paths(mine):
        assert value_at(new, path) is not _MISSING
        assert _has_members_below(mine, path) or value_at(live, path) != value_at(new, path)
    for entry in entries:
        if entry["manager"] != "W":
            assert intersection(entry["fieldsV1"], mine) == {}
