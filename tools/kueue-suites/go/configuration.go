package framework

import (
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/yaml"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	"sigs.k8s.io/kueue/pkg/asked"
)

// configuration is the file that an administrator would write for a setup: its Configuration, what the suite gave to
// Kueue's functions as options, and the feature gates that are not as usual.
func configuration(s *asked.Setup, gates map[string]bool) string {
	c := &config.Configuration{}
	if s.Config != nil {
		c = s.Config.DeepCopy()
	}
	c.APIVersion, c.Kind = "config.kueue.x-k8s.io/v1beta2", "Configuration"
	c.Metrics.EnableClusterQueueResources = true // an option of the cache in some suites
	c.ManageJobsWithoutQueueName = c.ManageJobsWithoutQueueName || s.ManageJobsWithoutQueueName
	if c.Integrations == nil {
		c.Integrations = &config.Integrations{}
	}
	if len(s.Frameworks) > 0 {
		c.Integrations.Frameworks = asked.Names(s.Frameworks)
	}
	if len(s.LabelKeys) > 0 {
		c.Integrations.LabelKeysToCopy = s.LabelKeys
	}
	if selector, ok := s.NamespaceSelector.(labels.Selector); ok {
		c.ManagedJobsNamespaceSelector = labelSelector(selector)
	}
	if s.WaitForPodsReady != nil {
		c.WaitForPodsReady = s.WaitForPodsReady
	}
	if s.Retention != nil {
		c.ObjectRetentionPolicies = s.Retention
	}
	if c.Resources == nil && (len(s.Transformations) > 0 || s.QuotaCheck != "") {
		c.Resources = &config.Resources{}
	}
	if len(s.Transformations) > 0 {
		c.Resources.Transformations = s.Transformations
	}
	if s.QuotaCheck != "" {
		c.Resources.QuotaCheckStrategy = &s.QuotaCheck
	}
	c.FeatureGates = gates
	text, err := yaml.Marshal(c)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return string(text)
}

var operators = map[selection.Operator]metav1.LabelSelectorOperator{
	selection.In: metav1.LabelSelectorOpIn, selection.Equals: metav1.LabelSelectorOpIn,
	selection.DoubleEquals: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn,
	selection.NotEquals: metav1.LabelSelectorOpNotIn, selection.Exists: metav1.LabelSelectorOpExists,
	selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist,
}

func labelSelector(selector labels.Selector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key(), Operator: operators[r.Operator()], Values: r.Values().List(),
		})
	}
	return out
}
