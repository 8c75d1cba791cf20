package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

// calculator is a tool of a package of its own: two methods and no helper.
type calculator struct{ schema string }

func (c calculator) Spec() chat.ToolSpec {
	return chat.ToolSpec{Name: "calculator", Description: "adds", Schema: json.RawMessage(c.schema)}
}

func (calculator) Call(_ context.Context, args json.RawMessage) (tool.Result, error) {
	var in struct{ A, B int }
	if err := json.Unmarshal(args, &in); err != nil {
		return tool.Result{}, &tool.Error{Tool: "calculator", Kind: tool.ErrorArguments, Err: err}
	}
	out, err := json.Marshal(in.A + in.B)
	return tool.Text(string(out)), err
}

func TestAToolOfAUserIsInASet(t *testing.T) { // W5-02
	s, err := tool.NewSet(tool.New("z", "", nop[place]), calculator{`{"type":"object"}`}, tool.New("a", "", nop[place]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, spec := range s.Specs() {
		names = append(names, spec.Name)
	}
	if want := []string{"z", "calculator", "a"}; !reflect.DeepEqual(names, want) || s.Len() != 3 || len(s.Tools()) != 3 {
		t.Errorf("names are %q", names)
	}
	s.Specs()[0].Name = "changed"
	if s.Specs()[0].Name != "z" {
		t.Error("a caller can change the set")
	}
	c, err := s.Get("calculator")
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, c, `{"a":1,"b":2}`); got != "3" {
		t.Errorf("1+2 is %s", got)
	}
}

func TestASetReportsAllMistakesAtOnce(t *testing.T) { // W5-03
	_, err := tool.NewSet(
		tool.New("good", "", nop[place]), nil, tool.New("a b", "", nop[place]), calculator{`{"type":"string"}`}, calculator{`[]`},
		tool.New("good", "", nop[place]), (*tool.Function[place, string])(nil), tool.Limit(tool.New("", "", nop[place]), -1),
	)
	var d *tool.DefinitionError
	if !errors.As(err, &d) {
		t.Fatalf("error is %v", err)
	}
	want := []string{
		`tool "": the tool at index 1 is nil`,
		`tool "a b": the name has ' ', but may only have letters, digits, _ and -`,
		`tool "calculator": the schema's root must have "type": "object", not "string"`,
		`tool "calculator": the schema must be a JSON object, not []`,
		`tool "calculator": the tools at index 3 and 4 have the same name`,
		`tool "good": the tools at index 0 and 5 have the same name`,
		`tool "": the tool at index 6 is nil`,
		`tool "": the name is empty`,
		`tool "": a limit of -1 bytes: it must be positive`,
	}
	var got []string
	for _, m := range d.Mistakes {
		got = append(got, m.Error())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("mistakes are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := err.Error(); !strings.HasPrefix(text, "9 mistakes in the definition of tools:\n\t") || strings.Count(text, "\n") != 9 {
		t.Errorf("text is %s", text)
	}
	var m tool.Mistake
	if !errors.As(err, &m) || m.Tool != "" {
		t.Errorf("first mistake is %v", m)
	}
}

func TestAnUnknownToolIsAnErrorThatNamesTheNearest(t *testing.T) {
	get := func(name string, tools ...string) error {
		var list []tool.Tool
		for _, n := range tools {
			list = append(list, tool.New(n, "", nop[place]))
		}
		s, err := tool.NewSet(list...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Get(name)
		return err
	}
	many := []string{"read_file", "write_file", "list_files", "search", "weather", "time", "calculator"}
	for _, c := range []struct {
		name  string
		tools []string
		want  string
	}{
		{"serach", []string{"fetch", "search"}, `tool "serach": unknown tool: the tools are "search", "fetch"`},
		{"x", []string{"search"}, `tool "x": unknown tool: the only tool is "search"`},
		{"x", nil, `tool "x": unknown tool: there are no tools`},
		{"ReadFile", many, `tool "ReadFile": unknown tool: the nearest of 7 tools are "read_file", "write_file", "list_files", "search", "weather"`},
	} {
		err := get(c.name, c.tools...)
		var e *tool.Error
		if !errors.As(err, &e) || e.Kind != tool.ErrorUnknown || e.Tool != c.name || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
	long := strings.Repeat("ä", 1<<20)
	if err := get(long, many...); err == nil {
		t.Error("a long name is known")
	}
}

func TestLimitCutsTextAndSaysHowMuch(t *testing.T) {
	img := chat.Image{Source: chat.Source{Data: []byte{1}, MIME: "image/png"}}
	call := func(max int, parts ...chat.Part) []chat.Part {
		t.Helper()
		r, err := tool.Limit(returns(parts), max).Call(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Content
	}
	txt := func(s string) chat.Part { return chat.Text{Text: s} }
	for _, c := range []struct {
		name     string
		max      int
		in, want []chat.Part
	}{
		{"short enough", 5, []chat.Part{txt("hello")}, []chat.Part{txt("hello")}},
		{"one byte too long", 4, []chat.Part{txt("hello")}, []chat.Part{txt("hell\n[cut: 1 of 5 bytes are left out]")}},
		{"not within a rune", 4, []chat.Part{txt("añ€o")}, []chat.Part{txt("añ\n[cut: 4 of 7 bytes are left out]")}},
		{"all texts together, other parts pass", 7, []chat.Part{txt("hello"), img, txt("world"), txt("more"), img},
			[]chat.Part{txt("hello"), img, txt("wo\n[cut: 7 of 14 bytes are left out]"), img}},
		{"not even the first rune", 1, []chat.Part{txt("€uro")}, []chat.Part{txt("\n[cut: 6 of 6 bytes are left out]")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := call(c.max, c.in...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	big := strings.Repeat("€", 1<<20)
	got := call(1000, txt(big))[0].(chat.Text).Text
	if !utf8.ValidString(got) || len(got) > 1100 || !strings.HasSuffix(got, "[cut: 3144729 of 3145728 bytes are left out]") {
		t.Errorf("3 MB give %d bytes ending in %q", len(got), got[len(got)-50:])
	}
	if got := call(3, txt("\xff\xff\xff\xff\xff\xff"))[0].(chat.Text).Text; !strings.HasPrefix(got, "\xff\xff") {
		t.Errorf("what isn't UTF-8 gives %q", got)
	}

	cause := errors.New(strings.Repeat("x", 100))
	_, err := tool.Limit(fails(cause), 10).Call(t.Context(), nil)
	var e *tool.Error
	if !errors.As(err, &e) || !errors.Is(err, cause) || err.Error() != "tool \"f\": xxxxxxxxxx\n[cut: 90 of 100 bytes are left out]" {
		t.Errorf("error is %v", err)
	}
	if _, err := tool.Limit(fails(errors.New("short")), 10).Call(t.Context(), nil); err == nil || err.Error() != `tool "f": short` {
		t.Errorf("error is %v", err)
	}
}

func TestTimeout(t *testing.T) {
	sleeper := func(d time.Duration, heed bool) tool.Tool {
		return tool.New("f", "", func(ctx context.Context, _ struct{}) (string, error) {
			if !heed {
				time.Sleep(d)
				return "late", nil
			}
			select {
			case <-time.After(d):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	}
	for name, heed := range map[string]bool{"a tool that heeds its context": true, "a tool that doesn't": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := tool.WithTimeout(sleeper(time.Hour, heed), time.Minute).Call(t.Context(), nil)
				var e *tool.Error
				if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) || err.Error() != `tool "f": no answer within 1m0s: context deadline exceeded` {
					t.Errorf("error is %v", err)
				}
				if d := time.Since(start); d != time.Minute {
					t.Errorf("it took %v", d)
				}
				time.Sleep(2 * time.Hour) // the late tool ends
			})
		})
	}
	t.Run("a tool in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			if got := text(t, tool.WithTimeout(sleeper(time.Second, true), time.Minute), ""); got != "done" {
				t.Errorf("got %q", got)
			}
		})
	})
	t.Run("the caller's own deadline is not the tool's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := tool.WithTimeout(sleeper(time.Hour, false), time.Minute).Call(ctx, nil)
			if err != context.DeadlineExceeded {
				t.Errorf("error is %v", err)
			}
			time.Sleep(2 * time.Hour)
		})
	})
	t.Run("an error of the tool passes", func(t *testing.T) {
		cause := errors.New("cause")
		if _, err := tool.WithTimeout(fails(cause), time.Hour).Call(t.Context(), nil); !errors.Is(err, cause) {
			t.Errorf("error is %v", err)
		}
	})
}

// A program that has tools doesn't link what it doesn't use.
func TestToolsLinkNoSDK(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	want := []string{
		"github.com/google/jsonschema-go/jsonschema",
		"github.com/superstep-dev/superstep/chat",
		"github.com/superstep-dev/superstep/tool",
	}
	for _, dep := range want {
		if !strings.Contains(strings.Join(got, "\n"), dep) {
			t.Errorf("%s is missing in %q", dep, got)
		}
	}
	for _, dep := range got {
		if strings.Contains(dep, "modelcontextprotocol") {
			t.Errorf("tool links %s", dep)
		}
	}
}
