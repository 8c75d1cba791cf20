package otlp

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// The messages of OTLP, as JSON: IDs are hexadecimal, numbers of 64 bits are strings, and
// enumerations are numbers.
type (
	export struct {
		ResourceSpans []*resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource      `json:"resource"`
		ScopeSpans []*scopeSpans `json:"scopeSpans"`
		SchemaURL  string        `json:"schemaUrl,omitempty"`
	}
	resource struct {
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	scopeSpans struct {
		Scope     scope  `json:"scope"`
		Spans     []span `json:"spans"`
		SchemaURL string `json:"schemaUrl,omitempty"`
	}
	scope struct {
		Name       string     `json:"name,omitempty"`
		Version    string     `json:"version,omitempty"`
		Attributes []keyValue `json:"attributes,omitempty"`
	}
	span struct {
		TraceID           string     `json:"traceId"`
		SpanID            string     `json:"spanId"`
		TraceState        string     `json:"traceState,omitempty"`
		ParentSpanID      string     `json:"parentSpanId,omitempty"`
		Flags             uint32     `json:"flags,omitempty"`
		Name              string     `json:"name"`
		Kind              int        `json:"kind,omitempty"`
		Start             int64      `json:"startTimeUnixNano,string"`
		End               int64      `json:"endTimeUnixNano,string"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
		Events            []event    `json:"events,omitempty"`
		DroppedEvents     int        `json:"droppedEventsCount,omitempty"`
		Links             []link     `json:"links,omitempty"`
		DroppedLinks      int        `json:"droppedLinksCount,omitempty"`
		Status            status     `json:"status"`
	}
	event struct {
		Time              int64      `json:"timeUnixNano,string"`
		Name              string     `json:"name"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
	}
	link struct {
		TraceID           string     `json:"traceId"`
		SpanID            string     `json:"spanId"`
		TraceState        string     `json:"traceState,omitempty"`
		Attributes        []keyValue `json:"attributes,omitempty"`
		DroppedAttributes int        `json:"droppedAttributesCount,omitempty"`
		Flags             uint32     `json:"flags,omitempty"`
	}
	status struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"`
	}
	keyValue struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
)

// request returns the message that has spans, by resource and scope, in their order.
func request(spans []trace.ReadOnlySpan) *export {
	type part struct {
		resource attribute.Distinct
		scope    instrumentation.Scope
	}
	out := &export{}
	resources := map[attribute.Distinct]*resourceSpans{}
	scopes := map[part]*scopeSpans{}
	for _, s := range spans {
		at := part{s.Resource().Equivalent(), s.InstrumentationScope()}
		in := scopes[at]
		if in == nil {
			of := resources[at.resource]
			if of == nil {
				of = &resourceSpans{Resource: resource{attributes(s.Resource().Attributes())}, SchemaURL: s.Resource().SchemaURL()}
				resources[at.resource] = of
				out.ResourceSpans = append(out.ResourceSpans, of)
			}
			in = &scopeSpans{Scope: scope{at.scope.Name, at.scope.Version, attributes(at.scope.Attributes.ToSlice())}, SchemaURL: at.scope.SchemaURL}
			scopes[at] = in
			of.ScopeSpans = append(of.ScopeSpans, in)
		}
		in.Spans = append(in.Spans, spanOf(s))
	}
	return out
}

func spanOf(s trace.ReadOnlySpan) span {
	own, parent := s.SpanContext(), s.Parent()
	out := span{
		TraceID: own.TraceID().String(), SpanID: own.SpanID().String(), TraceState: own.TraceState().String(), Flags: flags(own, parent),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: s.StartTime().UnixNano(), End: s.EndTime().UnixNano(),
		Attributes: attributes(s.Attributes()), DroppedAttributes: s.DroppedAttributes(), DroppedEvents: s.DroppedEvents(), DroppedLinks: s.DroppedLinks(),
		Status: status{Message: s.Status().Description},
	}
	if id := parent.SpanID(); id.IsValid() {
		out.ParentSpanID = hex.EncodeToString(id[:])
	}
	switch s.Status().Code {
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status.Code = 2
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, event{e.Time.UnixNano(), e.Name, attributes(e.Attributes), e.DroppedAttributeCount})
	}
	for _, l := range s.Links() {
		c := l.SpanContext
		out.Links = append(out.Links, link{c.TraceID().String(), c.SpanID().String(), c.TraceState().String(), attributes(l.Attributes), l.DroppedAttributeCount, flags(c, c)})
	}
	return out
}

// flags are those of W3C, that it is known whether another span is of another process,
// and whether it is.
func flags(of, other api.SpanContext) uint32 {
	f := uint32(of.TraceFlags()) | 0x100
	if other.IsRemote() {
		f |= 0x200
	}
	return f
}

func attributes(kvs []attribute.KeyValue) (out []keyValue) {
	for _, kv := range kvs {
		out = append(out, keyValue{string(kv.Key), value(kv.Value)})
	}
	return out
}

// value is one that says its kind.
type value attribute.Value

// MarshalJSON implements json.Marshaler.
func (v value) MarshalJSON() ([]byte, error) {
	of := attribute.Value(v)
	switch of.Type() {
	case attribute.BOOL:
		return one("boolValue", of.AsBool())
	case attribute.INT64:
		return one("intValue", strconv.FormatInt(of.AsInt64(), 10))
	case attribute.FLOAT64:
		return one("doubleValue", double(of.AsFloat64()))
	case attribute.STRING:
		return one("stringValue", of.AsString())
	case attribute.BOOLSLICE:
		return array(of.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return array(of.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return array(of.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		return array(of.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		return array(of.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.BYTESLICE:
		return one("bytesValue", of.AsByteSlice()) // as base64
	case attribute.MAP:
		return one("kvlistValue", map[string][]keyValue{"values": attributes(of.AsMap())})
	case attribute.EMPTY:
		return []byte("{}"), nil
	}
	return one("stringValue", of.String())
}

func one[T any](kind string, v T) ([]byte, error) { return json.Marshal(map[string]T{kind: v}) }

func array[T any](list []T, of func(T) attribute.Value) ([]byte, error) {
	values := make([]value, len(list))
	for i, v := range list {
		values[i] = value(of(v))
	}
	return one("arrayValue", map[string][]value{"values": values})
}

// double is a number, or the name of what JSON has none for.
type double float64

// MarshalJSON implements json.Marshaler.
func (d double) MarshalJSON() ([]byte, error) {
	switch f := float64(d); {
	case math.IsNaN(f):
		return []byte(`"NaN"`), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(f)
	}
}
