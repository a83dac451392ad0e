// Package asked records what the manager of a suite would have run. Patches in Kueue's packages call Record instead of
// starting controllers; the framework turns the record into a command line and a Configuration of Fairway.
package asked

import (
	"fmt"
	"slices"
	"sync"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
)

// Setup is one manager: its controllers, and the options that were not part of its Configuration.
type Setup struct {
	Controllers map[string]bool // names of Fairway's controllers
	Frameworks  map[string]bool // integrations.frameworks of the Configuration
	noop        map[string]bool // those whose webhook does nothing, because the first that is registered counts
	Config      *config.Configuration

	ManageJobsWithoutQueueName bool
	NamespaceSelector          any // a labels.Selector
	WaitForPodsReady           *config.WaitForPodsReady
	Retention                  *config.ObjectRetentionPolicies
	LabelKeys                  []string
	Transformations            []config.ResourceTransformation
	QuotaCheck                 config.QuotaCheckStrategy
}

var (
	lock    sync.Mutex
	current = empty()
	onGates func()
)

func empty() *Setup {
	return &Setup{Controllers: map[string]bool{}, Frameworks: map[string]bool{}, noop: map[string]bool{}}
}

// Record changes the current setup.
func Record(change func(s *Setup)) {
	lock.Lock()
	defer lock.Unlock()
	change(current)
}

// Run records that these controllers are to run.
func Run(controllers ...string) {
	Record(func(s *Setup) {
		for _, name := range controllers {
			s.Controllers[name] = true
		}
	})
}

var frameworks = map[string]string{"*v1.Pod": "pod", "*v1.Job": "batch/job"}

// Ignore records that the webhook of this type does nothing.
func Ignore(apiType any) {
	Record(func(s *Setup) { s.noop[frameworks[fmt.Sprintf("%T", apiType)]] = true })
}

// Integrate records that jobs of this kind are queued.
func Integrate(framework string) {
	Record(func(s *Setup) {
		if !s.noop[framework] {
			s.Frameworks[framework] = true
		}
	})
}

// OnGates is called when a spec has changed a feature gate, and when the gate has been set back.
func OnGates(call func()) {
	lock.Lock()
	defer lock.Unlock()
	onGates = call
}

// GatesChanged is called by Kueue's own function for tests.
func GatesChanged() {
	lock.Lock()
	call := onGates
	lock.Unlock()
	if call != nil {
		call()
	}
}

// Take returns the current setup and begins a new one.
func Take() *Setup {
	lock.Lock()
	defer lock.Unlock()
	taken := current
	current = empty()
	return taken
}

// Names returns the keys of a set in order.
func Names(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
