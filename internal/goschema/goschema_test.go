package goschema_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/goschema"
)

type (
	inner struct {
		A int
		B string `json:"b,omitempty"`
		C bool   `json:"c"`
	}
	Left  struct{ Same, L int }
	right struct{ Same, R int }
	named struct {
		inner `json:"at"`
		C     int
	}
	outer struct {
		inner
		*Left
		right
		named
		Over string `json:"A"`
		Low  int    `json:"low,string"`
		When *time.Time
		skip int
		No   int `json:"-"`
		//lint:ignore SA5008 it is the name "-"
		Dash int `json:"-,"`
		//lint:ignore SA5008 it is no name
		Odd int `json:"a\"b"`
	}
)

func TestASchemaHasTheMembersThatEncodingJSONWrites(t *testing.T) {
	_ = outer{}.skip
	for _, v := range []any{inner{B: "b"}, named{}, outer{inner: inner{B: "b"}, Left: &Left{}}, struct{ inner }{inner{B: "b"}}} {
		data, err := json.Marshal(v)
		var written map[string]any
		if err == nil {
			err = json.Unmarshal(data, &written)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []goschema.Kind{goschema.State, goschema.Answer} {
			s, err := goschema.Of(reflect.TypeOf(v), kind)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := slices.Sorted(maps.Keys(s.Properties)), slices.Sorted(maps.Keys(written)); !slices.Equal(got, want) {
				t.Errorf("%T has %q, want %q", v, got, want)
			}
			if err := goschema.Decode("it", data, s, reflect.New(reflect.TypeOf(v)).Interface()); err != nil {
				t.Errorf("%s: %v", data, err)
			}
		}
	}
}

type tree struct {
	Name     string
	Children []tree
}

func TestWhatATypeThatHoldsItselfHasBesideIsChecked(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[tree](), goschema.Answer)
	if err != nil {
		t.Fatal(err)
	}
	var v tree
	if err := goschema.Decode("tree", []byte(`{"Name":"a","Children":[{"Name":"b","Children":null}]}`), s, &v); err != nil || v.Children[0].Name != "b" {
		t.Error(v, err)
	}
	if err := goschema.Decode("tree", []byte(`{"Name":1,"Children":[]}`), s, &v); err == nil || !strings.Contains(err.Error(), `field "Name": must be a string, not a number`) {
		t.Error(err)
	}
	if _, err := goschema.Of(reflect.TypeFor[tree](), goschema.Output); err == nil || !strings.Contains(err.Error(), `field "Children": type goschema_test.tree holds itself`) {
		t.Error(err)
	}
}

func TestTextsThatAreNoTimesOrBytesAreExplained(t *testing.T) {
	type in struct {
		At   time.Time
		Data []byte
		By   map[int]string
		Size string `pattern:"^[SML]$"`
	}
	s, err := goschema.Of(reflect.TypeFor[in](), goschema.Answer)
	if err != nil {
		t.Fatal(err)
	}
	err = goschema.Decode("in", []byte(`{"At":"noon","Data":"?","By":{"x":"y"},"Size":"XL"}`), s, new(in))
	const want = `field "At": must be a time as RFC 3339 has it, such as 2006-01-02T15:04:05Z
field "Data": must be bytes in base64
field "By.x": its name must be an integer
field "Size": must match the regular expression ^[SML]$`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
