"""A copy of Kueue's sources from the Go module cache in which managers say what they would run instead of running it.

No spec is changed. What is: the framework of the suites is replaced (`go/`), functions that would start controllers
call the package `asked`, Kueue's collectors, which the specs read, follow `/metrics` of a server, specs wait longer,
and ordered ones run on after a failure.
"""

import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = "v0.19.2"
MODULE = "sigs.k8s.io/kueue"
HERE = Path(__file__).parent / "go"
_OWN = {
    "asked.go": "pkg/asked",
    "framework.go": "test/integration/framework",
    "configuration.go": "test/integration/framework",
    "fairway.go": "test/integration/framework",
    "follow.go": "pkg/metrics",
}


@dataclass(frozen=True)
class Patch:
    """Lines that follow the only line of a file that ends with `after`, or that replace it."""

    path: str
    after: str
    lines: str
    replace: bool = False


def _returns(path: str, signature: str, *controllers: str) -> Patch:
    """A function that sets controllers up only says so."""
    names = ", ".join(f'"{name}"' for name in controllers)
    return Patch(path, signature, f'\tasked.Run({names})\n\tif mgr != nil {{\n\t\treturn "", nil\n\t}}\n')


_OPTIONS = """\
	asked.Record(func(s *asked.Setup) {
		s.ManageJobsWithoutQueueName = s.ManageJobsWithoutQueueName || options.ManageJobsWithoutQueueName
		if options.ManagedJobsNamespaceSelector != nil {
			s.NamespaceSelector = options.ManagedJobsNamespaceSelector
		}
		if options.LabelKeysToCopy.Len() > 0 {
			s.LabelKeys = sets.List(options.LabelKeysToCopy)
		}
		for name := range options.EnabledFrameworks {
			s.Frameworks[name] = true
		}
	})
	return options
"""
_JOBS = "pkg/controller/jobs"
_FRAMEWORK = "pkg/controller/jobframework/reconciler.go"
PATCHES = (
    Patch(
        "pkg/features/kube_features.go",
        "func SetFeatureGateDuringTest(tb testing.TB, f featuregate.Feature, value bool) {",
        "\ttb.Cleanup(asked.GatesChanged) // after the one that sets the gate back\n\tdefer asked.GatesChanged()\n",
    ),
    Patch(
        "pkg/controller/core/core.go",
        "opts SetupControllersOpts) (string, error) {",
        '\tasked.Run("queuestatus", "workload", "metrics")\n'
        "\tasked.Record(func(s *asked.Setup) { s.Config = cfg })\n"
        '\tif cfg != nil {\n\t\treturn "", nil\n\t}\n',
    ),
    _returns(
        "pkg/controller/tas/controllers.go",
        "func SetupControllers(mgr ctrl.Manager, queues *qcache.Manager, cache *schdcache.Cache, "
        "cfg *configapi.Configuration, roleTracker *roletracker.RoleTracker) (string, error) {",
        "topology",
    ),
    _returns(
        "pkg/controller/elasticjobs/elastic_job_ungater.go",
        "func SetupWithManager(mgr ctrl.Manager, cfg *configapi.Configuration, "
        "roleTracker *roletracker.RoleTracker) (string, error) {",
    ),
    Patch(
        "pkg/scheduler/scheduler.go",
        "\tgo wait.UntilWithBackoff(ctx, s.schedule)",
        '\tasked.Run("admission")\n\t_, _ = wait.UntilWithBackoff, s.schedule\n',
        replace=True,
    ),
    Patch(
        "pkg/scheduler/scheduler.go",
        "\t\to.quotaCheckStrategy = qcs",
        "\t\tasked.Record(func(s *asked.Setup) { s.QuotaCheck = qcs })\n",
    ),
    Patch(
        "pkg/cache/queue/manager.go",
        "func WithResourceTransformations(transforms []config.ResourceTransformation) Option {",
        "\tasked.Record(func(s *asked.Setup) { s.Transformations = transforms })\n",
    ),
    Patch(_FRAMEWORK, "\treturn options", _OPTIONS, replace=True),
    Patch(
        _FRAMEWORK,
        "func WithWaitForPodsReady(cfg *configapi.WaitForPodsReady) Option {",
        "\tasked.Record(func(s *asked.Setup) { s.WaitForPodsReady = cfg })\n",
    ),
    Patch(
        _FRAMEWORK,
        "func WithObjectRetentionPolicies(value *configapi.ObjectRetentionPolicies) Option {",
        "\tasked.Record(func(s *asked.Setup) { s.Retention = value })\n",
    ),
    Patch(
        _FRAMEWORK,
        "\t\treturn &genericReconciler{",
        '\t\tasked.Run("jobframework")\n\t\treturn &genericReconciler{\n',
        replace=True,
    ),
    Patch(
        f"{_JOBS}/pod/pod_controller.go",
        "record events.EventRecorder, opts ...jobframework.Option) (jobframework.JobReconcilerInterface, error) {",
        '\tasked.Run("pods")\n\tasked.Integrate("pod")\n',
    ),
    Patch(
        "pkg/controller/admissionchecks/provisioning/controller.go",
        "roleTracker *roletracker.RoleTracker) (*Controller, error) {",
        '\tasked.Run("provisioning")\n',
    ),
    *(
        Patch(
            f"{_JOBS}/{name}/{name}_webhook.go",
            "Webhook(mgr ctrl.Manager, opts ...jobframework.Option) error {",
            f'\tasked.Integrate("{framework}")\n',
        )
        for name, framework in (
            ("job", "batch/job"),
            ("pod", "pod"),
            ("rayjob", "ray.io/rayjob"),
            ("raycluster", "ray.io/raycluster"),
        )
    ),
    Patch(
        "pkg/util/webhook/noop_webhook.go",
        "func SetupNoopWebhook[T runtime.Object](mgr ctrl.Manager, apiType T) error {",
        "\tasked.Ignore(apiType)\n",
    ),
    # kueuectl's suite makes a kubeconfig of a client certificate; Fairway's administrator has a token.
    Patch(
        "pkg/util/testing/kubeconfig.go",
        "func RestConfigToKubeConfig(restConfig *rest.Config) ([]byte, error) {",
        '\tif restConfig.BearerToken != "" {\n'
        '\t\treturn os.ReadFile(filepath.Join(os.Getenv("FAIRWAY_STATE"), "kubeconfig"))\n\t}\n',
    ),
)
_PATIENCE = re.compile(r"^(\t(?:Medium|Long)?Timeout\s*= )(.*time\.\w+)$", re.MULTILINE)
"""How long specs wait for what is to happen: longer here, where other work may share the machine."""

_LONGER = 4
_ORDERED = re.compile(r"^(var _ = ginkgo\.Describe\(.*ginkgo\.Ordered)(, func\()", re.MULTILINE)
"""Ordered specs: here the others run on after a failure, so that each has a result."""

_VECTOR = re.compile(r"^\t(\w+) \*prometheus\.(?:Gauge|Counter|Histogram)Vec$", re.MULTILINE)
_WAITS = "test/util/constants.go"
_VECTORS = """\
package metrics

import "github.com/prometheus/client_golang/prometheus"

func vectors() []prometheus.Collector {{
	return []prometheus.Collector{{{names}}}
}}
"""


def prepare(base: Path) -> Path:
    """The patched copy, made again when a patch has changed."""
    original = _download()
    target = base / "kueue"
    digest = hashlib.sha256(repr((VERSION, PATCHES, _PATIENCE, _LONGER, _ORDERED, _VECTOR, _VECTORS)).encode())
    for name in sorted(_OWN):
        digest.update((HERE / name).read_bytes())
    stamp = base / "kueue.stamp"
    if stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return target
    stamp.unlink(missing_ok=True)
    if not target.exists():
        shutil.copytree(original, target, copy_function=shutil.copyfile)
        for directory in (target, *(path for path in target.rglob("*") if path.is_dir())):
            directory.chmod(0o755)
    for name, folder in _OWN.items():
        _write(target / folder / name, (HERE / name).read_text())
    for path in sorted({patch.path for patch in PATCHES}):
        _write(target / path, _patched(path, (original / path).read_text()))
    waits = (original / _WAITS).read_text()
    _write(target / _WAITS, _PATIENCE.sub(rf"\g<1>{_LONGER} * \g<2>", waits))
    for path in sorted(original.glob("test/integration/singlecluster/**/*_test.go")):
        text = path.read_text()
        if _ORDERED.search(text):
            _write(target / path.relative_to(original), _ORDERED.sub(r"\1, ginkgo.ContinueOnFailure\2", text))
    names = _VECTOR.findall((original / "pkg/metrics/metrics.go").read_text())
    _write(target / "pkg/metrics/vectors.go", _VECTORS.format(names=", ".join(names)))
    stamp.write_text(digest.hexdigest())
    return target


def _download() -> Path:
    said = subprocess.run(  # noqa: S603
        ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(json.loads(said.stdout)["Dir"])


def _patched(path: str, text: str) -> str:
    for patch in (one for one in PATCHES if one.path == path):
        lines = [line for line in text.splitlines() if line.endswith(patch.after)]
        if len(lines) != 1:
            raise SystemExit(f"{path}: {len(lines)} lines end with {patch.after!r}; is this Kueue {VERSION}?")
        new = patch.lines if patch.replace else f"{lines[0]}\n{patch.lines}"
        text = text.replace(f"{lines[0]}\n", new)
    imports = [f'"{MODULE}/pkg/asked"'] if "asked." in text else []
    imports += [f'"{name}"' for name in ("os", "path/filepath") if "kubeconfig.go" in path]
    missing = "".join(f"\t{name}\n" for name in imports if name not in text)
    return text.replace("import (\n", f"import (\n{missing}", 1)


def _write(path: Path, text: str) -> None:
    """Unchanged files keep their time, so that Go builds only what changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
