package metrics

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const interval = 150 * time.Millisecond

// Follow copies the metrics of a server into the collectors of this package, which the specs read.
func Follow(ctx context.Context, where func() (url, token string, authority []byte)) {
	f := &follower{known: map[string]*followed{}}
	for ctx.Err() == nil {
		if url, token, authority := where(); url != "" {
			if families, err := f.read(ctx, url, token, authority); err == nil {
				f.copy(families)
			}
		}
		time.Sleep(interval)
	}
}

type follower struct {
	known     map[string]*followed
	client    *http.Client
	authority string
}

// followed is one series: how it is written, and the sum that was added to a counter or histogram.
type followed struct {
	vector any
	labels prometheus.Labels
	added  float64
	seen   bool
}

func (f *follower) read(ctx context.Context, url, token string, authority []byte) (map[string]*dto.MetricFamily, error) {
	if f.client == nil || f.authority != string(authority) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		f.authority = string(authority)
		f.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, http.ErrNotSupported
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(res.Body)
}

func (f *follower) copy(families map[string]*dto.MetricFamily) {
	for _, s := range f.known {
		s.seen = false
	}
	for _, collector := range vectors() {
		if reflect.ValueOf(collector).IsNil() {
			continue
		}
		name, variable := description(collector)
		for _, metric := range families[name].GetMetric() {
			f.set(name, collector, variable, metric)
		}
	}
	for key, s := range f.known {
		if !s.seen {
			s.drop()
			delete(f.known, key)
		}
	}
}

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

func description(collector prometheus.Collector) (name string, variable []string) {
	descriptions := make(chan *prometheus.Desc, 1)
	collector.Describe(descriptions)
	found := described.FindStringSubmatch((<-descriptions).String())
	if found == nil {
		return "", nil
	}
	return found[1], strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' })
}

func (f *follower) set(name string, collector prometheus.Collector, variable []string, metric *dto.Metric) {
	labels := prometheus.Labels{}
	for _, label := range variable {
		labels[label] = ""
	}
	for _, pair := range metric.GetLabel() {
		if _, ok := labels[pair.GetName()]; ok {
			labels[pair.GetName()] = pair.GetValue()
		}
	}
	key := name
	for _, label := range variable {
		key += "\xff" + labels[label]
	}
	s := f.known[key]
	if s == nil || s.vector != any(collector) {
		s = &followed{vector: collector, labels: labels}
		f.known[key] = s
	}
	s.seen = true
	s.set(metric)
}

func (s *followed) set(metric *dto.Metric) {
	switch vector := s.vector.(type) {
	case *prometheus.GaugeVec:
		vector.With(s.labels).Set(metric.GetGauge().GetValue())
	case *prometheus.CounterVec:
		value := metric.GetCounter().GetValue()
		s.restart(value)
		vector.With(s.labels).Add(value - s.added)
		s.added = value
	case *prometheus.HistogramVec:
		count := float64(metric.GetHistogram().GetSampleCount())
		s.restart(count)
		for ; s.added < count; s.added++ { // the specs count observations, and do not look at their values
			vector.With(s.labels).Observe(0)
		}
	}
}

// restart begins anew where a sum became smaller: the server is another one.
func (s *followed) restart(value float64) {
	if value < s.added {
		s.drop()
		s.added = 0
	}
}

func (s *followed) drop() {
	if vector, ok := s.vector.(interface{ Delete(prometheus.Labels) bool }); ok {
		vector.Delete(s.labels)
	}
}
