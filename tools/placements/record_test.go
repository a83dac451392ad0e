package scheduler

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/resources"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
)

type recNode struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	CPU    int64             `json:"cpu"`
	Pods   int64             `json:"pods"`
	Used   int64             `json:"used"`
	UsedPods int64           `json:"usedPods"`
	Taint  string            `json:"taint"`
}
type recSet struct {
	Name    string                       `json:"name"`
	Count   int32                        `json:"count"`
	CPU     int64                        `json:"cpu"`
	Request *kueue.PodSetTopologyRequest `json:"request"`
	Implied bool                         `json:"implied"`
	Selector map[string]string           `json:"selector"`
}
type recCase struct {
	Levels   []string  `json:"levels"`
	Nodes    []recNode `json:"nodes"`
	Sets     []recSet  `json:"sets"`
	Balanced bool      `json:"balanced"`
	Empty    bool      `json:"empty"`
	Unhealthy string   `json:"unhealthy"`
	Existing *utiltas.TopologyAssignment `json:"existing"`
}
type recResult struct {
	Placements map[string]*utiltas.TopologyAssignment `json:"placements"`
	Failures   map[string]string `json:"failures"`
}

func TestRecord(t *testing.T) {
	raw, err := os.ReadFile(os.Getenv("RECORD_IN"))
	if err != nil { t.Skip() }
	var cases []recCase
	if err := json.Unmarshal(raw, &cases); err != nil { t.Fatal(err) }
	out := make([]recResult, len(cases))
	for i, c := range cases {
		features.SetFeatureGateDuringTest(t, features.TASBalancedPlacement, c.Balanced)
		var nodes []*corev1.Node
		for _, n := range c.Nodes {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
			node.Status.Allocatable = corev1.ResourceList{
				corev1.ResourceCPU: *resource.NewMilliQuantity(n.CPU, resource.DecimalSI),
				corev1.ResourcePods: *resource.NewQuantity(n.Pods, resource.DecimalSI),
			}
			if n.Taint != "" {
				node.Spec.Taints = []corev1.Taint{{Key: n.Taint, Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			}
			nodes = append(nodes, node)
		}
		tree := newTopologyTree(c.Levels, nodes, 1)
		s := newTASFlavorSnapshot(logr.Discard(), "default", tree, nil, &defaultChecker{})
		for _, n := range c.Nodes {
			if n.Used > 0 || n.UsedPods > 0 {
				s.addTASUsage(tree.nodeToDomain[n.Name], resources.NewRequestsFromMap(map[corev1.ResourceName]int64{corev1.ResourceCPU: n.Used, corev1.ResourcePods: n.UsedPods}))
			}
		}
		var reqs FlavorTASRequests
		wl := &kueue.Workload{ObjectMeta: metav1.ObjectMeta{Name: "wl", Namespace: "ns"}}
		for _, set := range c.Sets {
			ps := &kueue.PodSet{Name: kueue.PodSetReference(set.Name), Count: set.Count, TopologyRequest: set.Request}
			ps.Template.Spec.NodeSelector = set.Selector
			var group *string
			if set.Request != nil { group = set.Request.PodSetGroupName }
			reqs = append(reqs, TASPodSetRequests{PodSet: ps, SinglePodRequests: resources.NewRequestsFromMap(map[corev1.ResourceName]int64{corev1.ResourceCPU: set.CPU}), Count: set.Count, Flavor: "f", Implied: set.Implied, PodSetGroupName: group})
		}
		opts := []FindTopologyAssignmentsOption{WithSimulateEmpty(c.Empty)}
		if c.Unhealthy != "" {
			wl.Status.UnhealthyNodes = []kueue.UnhealthyNode{{Name: c.Unhealthy}}
			wl.Status.Admission = &kueue.Admission{PodSetAssignments: []kueue.PodSetAssignment{{Name: kueue.PodSetReference(c.Sets[0].Name), TopologyAssignment: utiltas.V1Beta2From(c.Existing)}}}
			opts = append(opts, WithWorkload(wl))
		}
		res := s.FindTopologyAssignmentsForFlavor(context.Background(), reqs, opts...)
		r := recResult{Placements: map[string]*utiltas.TopologyAssignment{}, Failures: map[string]string{}}
		for name, v := range res {
			if v.FailureReason != "" { r.Failures[string(name)] = v.FailureReason } else { r.Placements[string(name)] = v.TopologyAssignment }
		}
		out[i] = r
	}
	b, _ := json.Marshal(out)
	if err := os.WriteFile(os.Getenv("RECORD_OUT"), b, 0o644); err != nil { t.Fatal(err) }
}
