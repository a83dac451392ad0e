"""Jobs that are what nearly all jobs are get the answers that they would get if every rule were asked."""

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.batch import job_specs, job_updates
from fairway.apis.batch.job_specs import wrong_job
from fairway.apis.batch.labels import CONTROLLER_UID, GENERATED_LABELS
from fairway.apis.machinery.immutability import same
from fairway.apis.machinery.kind import Manifest

UID = "a2a637b5-f309-4309-8877-1aa1afe45808"
UIDS = st.sampled_from([UID, "other", "", "not a value!", "x" * 64])
NAMES = st.sampled_from(["noop", "x" * 64, "other"])
SELECTORS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.just({}),
    UIDS.map(lambda uid: {"matchLabels": {CONTROLLER_UID: uid}}),
    UIDS.map(lambda uid: {"matchLabels": {CONTROLLER_UID: uid, "a": "b"}}),
    st.just({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}),
)
CONTAINER = {"name": "main", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}


@st.composite
def jobs(draw: st.DrawFn) -> Manifest:
    """Jobs whose selector and labels are the server's, or nearly."""
    metadata: Manifest = {"name": draw(NAMES), "namespace": "default", "uid": draw(UIDS)}
    labels = {label: metadata[field] for label, field in GENERATED_LABELS.items()}
    labels |= draw(st.dictionaries(st.sampled_from([*GENERATED_LABELS, "a"]), UIDS, max_size=1))
    for label in draw(st.sets(st.sampled_from(sorted(GENERATED_LABELS)), max_size=1)):
        del labels[label]
    selector = {"matchLabels": {CONTROLLER_UID: metadata["uid"]}}
    pod = {"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "containers": [CONTAINER]}
    spec: Manifest = {"completionMode": "NonIndexed", "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec["selector"] = draw(st.just(selector) | SELECTORS)
    spec["manualSelector"] = draw(st.sampled_from([None, False, True]))
    return {"metadata": metadata, "spec": spec}


@given(jobs())
def test_selectors_as_the_server_makes_them_are_judged_as_all_others(job: Manifest) -> None:
    found = wrong_job(job)
    with patch.object(job_specs, "_is_as_made", lambda _manifest: False):
        assert found == wrong_job(job)


VALUES: st.SearchStrategy[Any] = st.sampled_from([None, {}, [], "", "x", False, 1])
CONTAINERS = st.lists(
    st.fixed_dictionaries({}, optional={"name": st.sampled_from(["a", "b", None]), "resources": VALUES}), max_size=2
)
POD_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": VALUES,
        "tolerations": VALUES,
        "schedulingGates": VALUES,
        "restartPolicy": VALUES,
        "affinity": st.none() | st.fixed_dictionaries({}, optional={"nodeAffinity": VALUES, "podAffinity": VALUES}),
        "containers": st.none() | CONTAINERS,
        "initContainers": st.none() | CONTAINERS,
    },
)


@given(POD_SPECS)
def test_a_pod_spec_that_stays_the_same_is_one_that_may_be_changed_to(spec: Manifest) -> None:
    """So nothing is asked about it where the template of a suspended job is open."""
    allowed = job_updates._with_directives({"spec": spec}, {"spec": spec})["spec"]
    assert same(spec, job_updates._with_resources(allowed, spec))
