// Package asked records what the manager of a suite would have run. Patches in Kueue's packages call Record instead of
// starting controllers; the framework turns the record into a command line and a Configuration of Fairway.
package asked

import (
	"slices"
	"sync"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
)

// Setup is one manager: its controllers, and the options that were not part of its Configuration.
type Setup struct {
	Controllers map[string]bool // names of Fairway's controllers
	Frameworks  map[string]bool // integrations.frameworks of the Configuration
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
)

func empty() *Setup {
	return &Setup{Controllers: map[string]bool{}, Frameworks: map[string]bool{}}
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

// Integrate records that jobs of this kind are queued.
func Integrate(framework string) { Record(func(s *Setup) { s.Frameworks[framework] = true }) }

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
