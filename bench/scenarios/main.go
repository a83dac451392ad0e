// Command scenarios plays a performance scenario of the Kueue project against the API server of a kubeconfig.
//
// Generator, recorder and the controller that plays the jobs (it finishes admitted Workloads when their time is up and
// releases the quota of evicted ones) are Kueue's own, unchanged; what admits the Workloads is the server's business.
// The result is one JSON object on standard output; progress goes to standard error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/test/performance/scheduler/runner/controller"
	"sigs.k8s.io/kueue/test/performance/scheduler/runner/generator"
	"sigs.k8s.io/kueue/test/performance/scheduler/runner/recorder"
)

// class is what became of the Workloads of one class.
type class struct {
	Count           int32 `json:"count"`
	MeanAdmissionMs int64 `json:"meanAdmissionMs"`
	P95AdmissionMs  int64 `json:"p95AdmissionMs"`
	MaxAdmissionMs  int64 `json:"maxAdmissionMs"`
	Evictions       int32 `json:"evictions"`
	// MeanRunMs is from admission to the end; what exceeds the run time of the class is the latency of both ends.
	MeanRunMs int64 `json:"meanRunMs"`
}

type result struct {
	Seconds           float64          `json:"seconds"`
	GenerationSeconds float64          `json:"generationSeconds"`
	Workloads         int              `json:"workloads"`
	Finished          int              `json:"finished"`
	Classes           map[string]class `json:"classes"`
	// UsagePercent is the mean use of the nominal quota, by class of ClusterQueues, as Kueue's checker computes it.
	UsagePercent  map[string]float64 `json:"usagePercent"`
	DroppedEvents uint64             `json:"droppedEvents"`
	Connections   int64              `json:"connections"`
	Requests      int64              `json:"requests"`
	Conflicts     int64              `json:"conflicts"`
	// Refused are answers with another status from 400 on: none is expected.
	Refused       int64   `json:"refused"`
	MedianWriteMs float64 `json:"medianWriteMs"`
	P95WriteMs    float64 `json:"p95WriteMs"`
	CPUSeconds    float64 `json:"cpuSeconds"`
}

func main() {
	flags := flag.NewFlagSet("scenarios", flag.ExitOnError) // controller-runtime has put its own into the global one
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the API server")
	config := flags.String("config", "", "generator configuration, a file as in Kueue's test/performance/scheduler/configs")
	timeout := flags.Duration("timeout", 10*time.Minute, "give up after this time")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this client to this file")
	_ = flags.Parse(os.Args[1:])
	ctrl.SetLogger(logr.Discard()) // conflicts, which are counted instead, would be an error with a stack trace each
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *profile != "" {
		file, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fail(err)
		}
		defer pprof.StopCPUProfile()
	}
	found, err := play(ctx, *kubeconfig, *config, *timeout)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "scenarios:", err)
	pprof.StopCPUProfile()
	os.Exit(1)
}

// play runs generator, recorder and controller until no ClusterQueue holds or awaits anything.
func play(ctx context.Context, kubeconfig, configFile string, timeout time.Duration) (*result, error) {
	scenario, err := generator.LoadConfig(configFile)
	if err != nil {
		return nil, err
	}
	cfg, wire, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	rec := recorder.New(timeout)
	mgr, err := newManager(cfg, rec)
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 3)
	managerDone := make(chan struct{})
	go func() {
		defer close(managerDone)
		failed <- mgr.Start(ctx)
	}()
	generated, recorded := make(chan struct{}), make(chan struct{})
	begun := time.Now()
	var generation time.Duration
	go func() {
		defer close(recorded)
		if err := rec.Run(ctx, generated); err != nil {
			failed <- fmt.Errorf("after %s: %w", time.Since(begun).Round(time.Second), err)
		}
	}()
	go func() {
		if err := generator.Generate(ctx, c, scenario); err != nil {
			failed <- fmt.Errorf("generator: %w", err)
			return
		}
		generation = time.Since(begun)
		close(generated)
	}()

	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	for done := false; !done; {
		select {
		case <-recorded:
			done = true
		case err := <-failed:
			return nil, errors.Join(err, ctx.Err())
		case <-progress.C:
			created, admitted, finished := count(ctx, mgr.GetCache(), 0)
			fmt.Fprintf(os.Stderr, "%4.0f s: %d workloads, %d running, %d finished; %d requests, %d conflicts, %d connections\n",
				time.Since(begun).Seconds(), created, admitted, finished,
				wire.requests.Load(), wire.conflicts.Load(), wire.connections.Load())
		}
	}
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	seconds, cpu := time.Since(begun).Seconds(), cpuSeconds()
	found, err := summarize(rec)
	if err != nil {
		return nil, err
	}
	found.Seconds, found.GenerationSeconds = seconds, generation.Seconds()
	found.CPUSeconds, found.Connections, found.Requests = cpu, wire.connections.Load(), wire.requests.Load()
	found.Conflicts, found.Refused = wire.conflicts.Load(), wire.refused.Load()
	wire.mu.Lock()
	slices.Sort(wire.writes)
	found.MedianWriteMs = float64(wire.writes[len(wire.writes)/2].Microseconds()) / 1e3
	found.P95WriteMs = float64(wire.writes[len(wire.writes)*95/100].Microseconds()) / 1e3
	wire.mu.Unlock()
	found.Workloads, _, found.Finished = count(ctx, mgr.GetAPIReader(), 1000)
	cancel()
	<-managerDone
	return found, nil
}

// traffic counts what goes over the wire, and times the writes.
type traffic struct {
	connections, requests, conflicts, refused atomic.Int64

	mu     sync.Mutex
	writes []time.Duration
}

type countingTransport struct {
	http.RoundTripper
	*traffic
}

func (t countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.requests.Add(1)
	begun := time.Now()
	response, err := t.RoundTripper.RoundTrip(request)
	if request.Method != http.MethodGet {
		t.mu.Lock()
		t.writes = append(t.writes, time.Since(begun))
		t.mu.Unlock()
	}
	switch {
	case err != nil || response.StatusCode < http.StatusBadRequest:
	case response.StatusCode == http.StatusConflict:
		t.conflicts.Add(1)
	default:
		t.refused.Add(1)
	}
	return response, err
}

// connect returns a client configuration without client-side rate limits, and what goes over the wire with it.
func connect(kubeconfig string) (*rest.Config, *traffic, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	wire := &traffic{}
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	cfg.QPS = -1
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		wire.connections.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, wire} })
	return cfg, wire, nil
}

// newManager has Kueue's controller of the scenario in it, with the concurrency of Kueue's runner.
func newManager(cfg *rest.Config, rec *recorder.Recorder) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kueue.AddToScheme(scheme))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme,
		Controller: crconfig.Controller{
			SkipNameValidation: new(true),
			GroupKindConcurrency: map[string]int{
				kueue.SchemeGroupVersion.WithKind("Workload").GroupKind().String(): 5,
			},
		},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return nil, err
	}
	return mgr, controller.NewReconciler(mgr.GetClient(), rec).SetupWithManager(mgr)
}

// count lists the Workloads, in pages of `limit` unless that is 0: how many there are, how many run, how many are finished.
func count(ctx context.Context, reader client.Reader, limit int64) (all, running, finished int) {
	list := kueue.WorkloadList{}
	options := &client.ListOptions{Limit: limit, UnsafeDisableDeepCopy: new(true)}
	for {
		if err := reader.List(ctx, &list, options); err != nil {
			fmt.Fprintln(os.Stderr, "scenarios: list of workloads:", err)
			return all, running, finished
		}
		all += len(list.Items)
		for i := range list.Items {
			conditions := list.Items[i].Status.Conditions
			switch {
			case apimeta.IsStatusConditionTrue(conditions, kueue.WorkloadFinished):
				finished++
			case apimeta.IsStatusConditionTrue(conditions, kueue.WorkloadAdmitted):
				running++
			}
		}
		if limit == 0 || list.Continue == "" {
			return all, running, finished
		}
		options.Continue = list.Continue
	}
}

// summarize reads the recorder, which must have ended. Means and usage are those of Kueue's own summary.
func summarize(rec *recorder.Recorder) (*result, error) {
	directory, err := os.MkdirTemp("", "scenarios")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "summary.yaml")
	if err := rec.WriteSummary(file); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	summary := recorder.Summary{}
	if err := yaml.Unmarshal(text, &summary); err != nil {
		return nil, err
	}

	admissionMs := map[string][]int64{}
	for _, wl := range rec.Store.WL {
		admissionMs[wl.ClassName] = append(admissionMs[wl.ClassName], wl.TimeToAdmitMs)
	}
	found := &result{
		Classes: map[string]class{}, UsagePercent: map[string]float64{}, DroppedEvents: summary.DroppedWLEvents,
	}
	for name, one := range summary.WorkloadClasses {
		each := slices.Sorted(slices.Values(admissionMs[name]))
		found.Classes[name] = class{
			Count:           one.Count,
			MeanAdmissionMs: one.AverageTimeToAdmissionMs,
			P95AdmissionMs:  each[len(each)*95/100],
			MaxAdmissionMs:  each[len(each)-1],
			Evictions:       one.TotalEvictions,
			MeanRunMs:       one.AverageTimeToFinishMs - one.AverageTimeToAdmissionMs,
		}
	}
	for name, one := range summary.ClusterQueueClasses {
		if name != "" && one.NominalQuota > 0 { // without a class are queues that the server brought along
			found.UsagePercent[name] = 100 * float64(one.CPUAverageUsage) / float64(one.NominalQuota)
		}
	}
	return found, nil
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
