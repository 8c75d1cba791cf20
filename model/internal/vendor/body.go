package vendor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/superstep-dev/superstep/internal/plainjson"
)

// IsObject reports whether JSON is an object's.
func IsObject(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(data, &fields) == nil && fields != nil
}

// Extend adds fields of the user's to the JSON of a request. Objects in both become
// one, and tools are added to those that there are. What else is there already and
// is given by a setting is not replaced: that is an error. Given has the settings by
// the paths of their fields, dots between.
func Extend(body []byte, extra map[string]any, given map[string]string) ([]byte, error) {
	if len(extra) == 0 {
		return body, nil
	}
	fields := make(map[string]json.RawMessage, len(extra))
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		v, err := plainjson.Marshal(extra[name])
		if err != nil {
			return nil, fmt.Errorf("the extra field %q has no JSON: %w", name, err)
		}
		fields[name] = v
	}
	return extend("", body, fields, given)
}

func extend(path string, object []byte, fields map[string]json.RawMessage, given map[string]string) ([]byte, error) {
	members, err := membersOf(object)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		full := path + name
		i := slices.IndexFunc(members, func(m member) bool { return m.name == name })
		if i < 0 {
			members = append(members, member{name, fields[name]})
			continue
		}
		have, more := &members[i].value, fields[name]
		var inner map[string]json.RawMessage
		var list, others []json.RawMessage
		switch {
		case same(*have, more):
		case IsObject(*have) && json.Unmarshal(more, &inner) == nil && inner != nil:
			if *have, err = extend(full+".", *have, inner, given); err != nil {
				return nil, err
			}
		case (full == "tools" || full == "toolConfig.tools") && json.Unmarshal(*have, &list) == nil && json.Unmarshal(more, &others) == nil && others != nil:
			if *have, err = plainjson.Marshal(append(list, others...)); err != nil {
				return nil, err
			}
		default:
			if by := given[full]; by != "" {
				return nil, fmt.Errorf("the extra field %q is given by %s", full, by)
			}
			*have = more
		}
	}
	return objectOf(members)
}

// objectOf returns the object with members.
func objectOf(members []member) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := plainjson.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func same(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

type member struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of an object in their order.
func membersOf(object []byte) ([]member, error) {
	var list []member
	dec := json.NewDecoder(bytes.NewReader(object))
	_, err := dec.Token()
	for err == nil && dec.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = dec.Token(); err == nil {
			err = dec.Decode(&value)
		}
		if s, ok := name.(string); ok && err == nil {
			list = append(list, member{s, value})
		}
	}
	return list, err
}
