// Prints objects of Kubernetes' own kinds twice: as its Go types write them in protobuf, and in JSON once they have been
// read from there again.
//
// The objects are made up by walking the types: one with every field set, one with every optional field set to its zero
// value, and several where chance decides (always the same chance). So no field of no message goes untested.
//
// Run by hand: go run . >../../../tests/server/protobuf/data/samples.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	node "k8s.io/api/node/v1"
	scheduling "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type sample struct {
	Name     string          `json:"name"`
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

var kinds = []struct {
	group  schema.GroupVersion
	kind   string
	object runtime.Object
}{
	{core.SchemeGroupVersion, "Binding", &core.Binding{}},
	{core.SchemeGroupVersion, "ConfigMap", &core.ConfigMap{}},
	{core.SchemeGroupVersion, "Event", &core.Event{}},
	{core.SchemeGroupVersion, "LimitRange", &core.LimitRange{}},
	{core.SchemeGroupVersion, "Namespace", &core.Namespace{}},
	{core.SchemeGroupVersion, "Node", &core.Node{}},
	{core.SchemeGroupVersion, "Pod", &core.Pod{}},
	{core.SchemeGroupVersion, "PodTemplate", &core.PodTemplate{}},
	{core.SchemeGroupVersion, "Secret", &core.Secret{}},
	{core.SchemeGroupVersion, "ServiceAccount", &core.ServiceAccount{}},
	{authentication.SchemeGroupVersion, "SelfSubjectReview", &authentication.SelfSubjectReview{}},
	{authorization.SchemeGroupVersion, "SelfSubjectAccessReview", &authorization.SelfSubjectAccessReview{}},
	{authorization.SchemeGroupVersion, "SelfSubjectRulesReview", &authorization.SelfSubjectRulesReview{}},
	{authorization.SchemeGroupVersion, "SubjectAccessReview", &authorization.SubjectAccessReview{}},
	{batch.SchemeGroupVersion, "Job", &batch.Job{}},
	{coordination.SchemeGroupVersion, "Lease", &coordination.Lease{}},
	{meta.SchemeGroupVersion, "DeleteOptions", &meta.DeleteOptions{}},
	{node.SchemeGroupVersion, "RuntimeClass", &node.RuntimeClass{}},
	{scheduling.SchemeGroupVersion, "PriorityClass", &scheduling.PriorityClass{}},
}

func main() {
	var samples []sample
	for _, one := range kinds {
		samples = append(samples, made(one.group, one.kind, "every field set", one.object, &filler{
			optional: func() bool { return true },
			zero:     func() bool { return false },
			length:   func() int { return 1 },
		}))
		samples = append(samples, made(one.group, one.kind, "every optional field zero", one.object, &filler{
			optional: func() bool { return true },
			zero:     func() bool { return true },
			length:   func() int { return 1 },
		}))
		samples = append(samples, made(one.group, one.kind, "nothing set", one.object, &filler{
			optional: func() bool { return false },
			zero:     func() bool { return true },
			length:   func() int { return 0 },
		}))
		chance := rand.New(rand.NewSource(7))
		for round := 1; round <= 2; round++ {
			samples = append(samples, made(one.group, one.kind, fmt.Sprintf("chance %d", round), one.object, &filler{
				optional: func() bool { return chance.Intn(4) == 0 },
				zero:     func() bool { return chance.Intn(3) == 0 },
				length:   func() int { return max(0, chance.Intn(6)-3) },
			}))
		}
	}
	print(samples)
}

// print writes one sample per line.
func print(samples []sample) {
	var out bytes.Buffer
	for index, one := range samples {
		line, err := json.Marshal(one)
		check(err)
		out.WriteString([]string{"[\n", ",\n"}[min(index, 1)])
		out.Write(line)
	}
	out.WriteString("\n]\n")
	_, err := os.Stdout.Write(out.Bytes())
	check(err)
}

func made(group schema.GroupVersion, kind, name string, empty runtime.Object, with *filler) sample {
	object := empty.DeepCopyObject()
	with.fill(reflect.ValueOf(object).Elem())
	object.GetObjectKind().SetGroupVersionKind(group.WithKind(kind))
	var wire bytes.Buffer
	check(protobuf.NewSerializer(nil, nil).Encode(object, &wire))
	text, err := json.Marshal(read(object, empty.DeepCopyObject().(message)))
	check(err)
	return sample{Name: kind + ": " + name, Protobuf: wire.Bytes(), JSON: text}
}

type message interface {
	runtime.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// read is what a server has of an object that was sent to it in protobuf.
func read(object runtime.Object, empty message) runtime.Object {
	raw, err := object.(message).Marshal()
	check(err)
	check(empty.Unmarshal(raw))
	empty.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	return empty
}

// filler decides what becomes of each field.
type filler struct {
	optional func() bool // whether a pointer is set
	zero     func() bool // whether a value stays zero
	length   func() int  // how many items a list or a map has
	count    int64       // makes every value another one
}

func (f *filler) fill(value reflect.Value) {
	f.count++
	if f.special(value) {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for index := range value.NumField() {
			f.fill(value.Field(index))
		}
	case reflect.Pointer:
		if f.optional() {
			value.Set(reflect.New(value.Type().Elem()))
			f.fill(value.Elem())
		}
	case reflect.Slice:
		for range f.length() {
			item := reflect.New(value.Type().Elem()).Elem()
			f.fill(item)
			value.Set(reflect.Append(value, item))
		}
	case reflect.Map:
		for range f.length() {
			if value.IsNil() {
				value.Set(reflect.MakeMap(value.Type()))
			}
			item := reflect.New(value.Type().Elem()).Elem()
			f.fill(item)
			key := reflect.ValueOf(fmt.Sprintf("key-%d", f.count)).Convert(value.Type().Key())
			value.SetMapIndex(key, item)
		}
	default:
		if !f.zero() {
			f.scalar(value)
		}
	}
}

func (f *filler) scalar(value reflect.Value) {
	switch value.Kind() {
	case reflect.String:
		value.SetString(fmt.Sprintf("text %d ä€😀", f.count))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32:
		value.SetInt([]int64{f.count, -f.count, 1<<31 - 1, -1 << 31}[f.count%4])
	case reflect.Int64:
		value.SetInt([]int64{f.count, -f.count, 1<<53 + 1, -1 << 53}[f.count%4])
	default:
		panic("a field of an unknown kind: " + value.Type().String())
	}
}

// special fills the types that write themselves in their own way.
func (f *filler) special(value reflect.Value) bool {
	moment := time.Unix(1_700_000_000+f.count*1001, f.count%1_000_000*1000).UTC()
	var found any
	switch value.Interface().(type) {
	case meta.TypeMeta:
		return true
	case meta.Time:
		found = meta.NewTime(moment.Truncate(time.Second))
	case meta.MicroTime:
		found = meta.NewMicroTime(moment)
	case resource.Quantity:
		found = resource.MustParse([]string{"100m", "2Gi", "-3", "1e3", "0.5"}[f.count%5])
	case intstr.IntOrString:
		found = []intstr.IntOrString{intstr.FromInt32(int32(f.count)), intstr.FromString("http")}[f.count%2]
	case meta.FieldsV1:
		found = *meta.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{}}}}`)
	case []byte:
		found = []byte{0, 255, byte(f.count)}
	default:
		return false
	}
	if !f.zero() {
		value.Set(reflect.ValueOf(found))
	}
	return true
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
