package jsonscan_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/superstep-dev/superstep/internal/jsonscan"
)

type thing struct {
	n    int
	sure bool
	l    []int64
}

// take is all of a thing, written and read.
func (v *thing) take(c *jsonscan.Codec) {
	jsonscan.Integer(c, "n", &v.n, 7)
	jsonscan.Take(c, "sure", &v.sure, true, strconv.AppendBool, (*jsonscan.Codec).Bool)
	if c.Has("l", len(v.l) > 0) {
		c.List(len(v.l), func(i int) {
			if c.Writing {
				c.B = strconv.AppendInt(c.B, v.l[i], 10)
			} else {
				v.l = append(v.l, c.Int())
			}
		})
		c.Step()
	}
}

func read(text string, skip func([]byte) bool) (v thing, c jsonscan.Codec) {
	c = jsonscan.Codec{B: []byte(text), Skip: skip}
	c.Begin()
	v.take(&c)
	if c.Next != nil {
		c.Fail()
	}
	if c.Expect('}'); c.I != len(c.B) {
		c.Fail()
	}
	return v, c
}

func TestWhatGoesWithoutSayingIsNotWrittenAndIsRead(t *testing.T) {
	for want, v := range map[string]thing{
		`{}`:                               {n: 7, sure: true},
		`{"n":0,"sure":false}`:             {},
		`{"n":-1,"sure":false,"l":[1,-2]}`: {n: -1, l: []int64{1, -2}},
		`{"l":[3]}`:                        {n: 7, sure: true, l: []int64{3}},
	} {
		c := jsonscan.Codec{Writing: true}
		v.take(&c)
		got := string(append(append([]byte{'{'}, c.B[min(1, len(c.B)):]...), '}'))
		if got != want {
			t.Errorf("%+v was written as %s, want %s", v, got, want)
		}
		back, r := read(got, nil)
		if r.Err != nil || back.n != v.n || back.sure != v.sure || !slices.Equal(back.l, v.l) {
			t.Errorf("%s was read as %+v, %v, want %+v", got, back, r.Err, v)
		}
	}
}

func TestWhatIsNotAsItIsWrittenCannotBeRead(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `{}}`, `{"n":1`, `{"n":1,}`, `{"n":"1"}`, `{"n":1.5}`, `{"n":99999999999999999999}`, `{"sure":1}`, `{"sure":true,"n":1}`,
		`{"n":1,"n":2}`, `{"other":1}`, `{"l":[}`, `{"l":[1,]}`, `{"l":[1}`, `{"l":1}`, `{"n":1 }`, `{n:1}`, `{"l":["x"]}`,
	} {
		if v, c := read(text, nil); c.Err == nil {
			t.Errorf("%s was read as %+v", text, v)
		}
	}
}

func TestMembersThatArePassedOver(t *testing.T) {
	skip := func(key []byte) bool { return string(key) == "new" }
	for _, text := range []string{`{"new":1,"n":2}`, `{"n":2,"new":{"n":[3]}}`, `{"new":1,"new":2,"n":2,"new":3}`} {
		if v, c := read(text, skip); c.Err != nil || v.n != 2 {
			t.Errorf("%s was read as %+v, %v", text, v, c.Err)
		}
	}
	if _, c := read(`{"new":1,"other":1}`, skip); c.Err == nil {
		t.Error("another member was passed over")
	}
}
