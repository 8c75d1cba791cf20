package scripted

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxDiffs bounds what a difference is described with.
const maxDiffs = 5

// diff says where a request differs from a recorded one. Both are canonical.
func diff(recorded, now json.RawMessage) []string {
	a, err := decode(recorded)
	if err != nil {
		return []string{err.Error()}
	}
	b, err := decode(now)
	if err != nil {
		return []string{err.Error()}
	}
	var d []string
	compare("", a, b, &d)
	if len(d) > maxDiffs {
		d = append(d[:maxDiffs], fmt.Sprintf("and %d more", len(d)-maxDiffs))
	}
	return d
}

func compare(path string, a, b any, d *[]string) {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok {
			break
		}
		keys := slices.Sorted(maps.Keys(a))
		for k := range b {
			if _, ok := a[k]; !ok {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			at := k
			if path != "" {
				at = path + "." + k
			}
			av, inA := a[k]
			bv, inB := b[k]
			switch {
			case !inA:
				*d = append(*d, fmt.Sprintf("%s: not recorded, now %s", at, text(bv)))
			case !inB:
				*d = append(*d, fmt.Sprintf("%s: recorded %s, now missing", at, text(av)))
			default:
				compare(at, av, bv, d)
			}
		}
		return
	case []any:
		b, ok := b.([]any)
		if !ok {
			break
		}
		for i := range min(len(a), len(b)) {
			compare(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], d)
		}
		if len(a) != len(b) {
			*d = append(*d, fmt.Sprintf("%s: recorded %d, now %d", path, len(a), len(b)))
		}
		return
	default:
		if a == b { // strings, numbers, bools and null
			return
		}
	}
	*d = append(*d, fmt.Sprintf("%s: recorded %s, now %s", path, text(a), text(b)))
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return short(string(data))
}
