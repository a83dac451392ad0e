// Package framework replaces the framework of Kueue's integration suites: the API server is Fairway's, and a manager is
// a choice of Fairway's controllers. The specs are not changed.
package framework

import (
	"context"
	"fmt"
	"slices"

	kfmpi "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	sparkv1beta2 "github.com/kubeflow/spark-operator/v2/api/v1beta2"
	kftrainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	kftraining "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	awv1beta2 "github.com/project-codeflare/appwrapper/api/v1beta2"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"go.uber.org/zap/zaptest/observer"
	resourcev1 "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	inventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	leaderworkersetv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueuev1beta1 "sigs.k8s.io/kueue/apis/kueue/v1beta1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/asked"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/test/util"
)

type ManagerSetup func(context.Context, manager.Manager)

type ManagerOption func(*manager.Options)

func WithNewClient(c client.NewClientFunc) ManagerOption {
	return func(o *manager.Options) { o.NewClient = c }
}

func WithNewCache(c cache.NewCacheFunc) ManagerOption {
	return func(o *manager.Options) { o.NewCache = c }
}

type Framework struct {
	DepCRDPaths               []string
	WebhookPath               string
	APIServerFeatureGates     []string
	APIServerRuntimeConfig    []string
	APIServerAdmissionPlugins []string
	ObservedLogs              *observer.ObservedLogs

	fairway *plane
	running string // controllers and configuration
	scheme  *runtime.Scheme
	cancel  context.CancelFunc
	stop    context.CancelFunc
}

// Init starts the API. A suite that installs no webhooks gets an API without Fairway's admission plugins.
func (f *Framework) Init() *rest.Config {
	f.ObservedLogs = util.SetupLoggerGetObservedLogs()
	f.scheme = runtime.NewScheme()
	gomega.ExpectWithOffset(1, clientgoscheme.AddToScheme(f.scheme)).NotTo(gomega.HaveOccurred())
	f.fairway = newPlane(f.WebhookPath != "")
	gomega.ExpectWithOffset(1, f.fairway.serve(nil)).NotTo(gomega.HaveOccurred())
	cfg, err := f.fairway.config()
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	return cfg
}

func (f *Framework) SetupClient(cfg *rest.Config) (context.Context, client.WithWatch) {
	for _, add := range []func(*runtime.Scheme) error{
		config.AddToScheme, kueue.AddToScheme, kueuev1beta1.AddToScheme, awv1beta2.AddToScheme, kfmpi.AddToScheme,
		rayv1.AddToScheme, jobsetapi.AddToScheme, kftraining.AddToScheme, autoscaling.AddToScheme, kftrainer.AddToScheme,
		resourcev1.AddToScheme, inventoryv1alpha1.AddToScheme, leaderworkersetv1.AddToScheme, sparkv1beta2.AddToScheme,
	} {
		gomega.ExpectWithOffset(1, add(f.scheme)).NotTo(gomega.HaveOccurred())
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: f.scheme})
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(ginkgo.GinkgoT().Context())
	f.cancel = cancel
	go metrics.Follow(ctx, f.fairway.metrics)
	return ctx, interceptor.NewClient(c, interceptor.Funcs{DeleteAllOf: deleteServed})
}

// deleteServed lets specs clean up kinds that are not served: there are no objects of them.
func deleteServed(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error {
	if err := c.DeleteAllOf(ctx, obj, opts...); !apimeta.IsNoMatchError(err) {
		return err
	}
	return nil
}

// StartManager runs the setup with a manager that is never started, and has Fairway run what it asked for.
func (f *Framework) StartManager(ctx context.Context, cfg *rest.Config, setup ManagerSetup, opts ...ManagerOption) {
	ginkgo.By("starting the manager", func() {
		options := manager.Options{
			Scheme:     f.scheme,
			Metrics:    metricsserver.Options{BindAddress: "0"},
			Controller: crconfig.Controller{SkipNameValidation: new(true)},
		}
		for _, opt := range opts {
			opt(&options)
		}
		mgr, err := ctrl.NewManager(cfg, options)
		gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
		ctx, f.stop = context.WithCancel(ctx)
		asked.Take()
		setup(ctx, unstarted{mgr})
		s := asked.Take()
		text := configuration(s, changedGates())
		fmt.Fprintf(ginkgo.GinkgoWriter, "asked for: controllers=%v\n%s\n", asked.Names(s.Controllers), text)
		held := s.Controllers["queuestatus"] && !s.Controllers["admission"]
		if held { // Kueue's core controllers without its scheduler: Fairway's engine, which gives nothing away
			s.Controllers["admission"] = true
		}
		wanted := fmt.Sprint(asked.Names(s.Controllers), held, text)
		asked.OnGates(func() { f.fairway.configure(configuration(s, changedGates()), held) })
		gomega.ExpectWithOffset(1, f.fairway.configure(text, held)).NotTo(gomega.HaveOccurred())
		if f.running == wanted { // the manager of the specs before, which had ended with them
			return
		}
		gomega.ExpectWithOffset(1, f.fairway.run(asked.Names(s.Controllers))).NotTo(gomega.HaveOccurred())
		f.running = wanted
	})
}

// StopManager stops Fairway's controllers where a spec stops its manager. After a spec they go on, because the next one
// mostly starts the same manager, and a process takes longer to start than Kueue's manager does.
func (f *Framework) StopManager(context.Context) {
	ginkgo.By("stopping the manager", func() {
		if f.stop == nil {
			return
		}
		f.stop()
		f.stop = nil
		asked.OnGates(nil)
		if isAfterSpec() {
			return
		}
		gomega.ExpectWithOffset(1, f.fairway.run(nil)).NotTo(gomega.HaveOccurred())
		f.running = ""
	})
}

// isAfterSpec says whether what runs now cleans up after a spec.
func isAfterSpec() bool {
	const after = types.NodeTypeAfterEach | types.NodeTypeJustAfterEach | types.NodeTypeAfterAll |
		types.NodeTypeCleanupAfterEach | types.NodeTypeCleanupAfterAll
	for _, event := range slices.Backward(ginkgo.CurrentSpecReport().SpecEvents) {
		if event.SpecEventType == types.SpecEventNodeStart {
			return event.NodeType.Is(after)
		}
	}
	return false
}

func (f *Framework) Teardown() {
	if f.cancel != nil {
		f.cancel()
	}
	f.fairway.close()
}

// changedGates are the feature gates that a spec has set, for the Configuration.
func changedGates() map[string]bool {
	out := map[string]bool{}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.DeepCopy().GetAll() {
		if set := features.Enabled(name); set != spec.Default {
			out[string(name)] = set
		}
	}
	return out
}

// unstarted is a manager whose cache is not read: indexes, some on kinds that are not served, are not needed.
type unstarted struct{ manager.Manager }

func (unstarted) GetFieldIndexer() client.FieldIndexer { return noIndex{} }

type noIndex struct{}

func (noIndex) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

var (
	SlowSpec      = ginkgo.Label("slow")
	RedundantSpec = ginkgo.Label("Redundant")
)
