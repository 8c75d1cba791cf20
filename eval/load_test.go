package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/eval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, text string) []eval.Case {
	t.Helper()
	cases, err := eval.Load(strings.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestAllThatIsWrongWithADataSetIsToldAtOnceByLine(t *testing.T) {
	want := map[int]string{
		1:  `unknown field "inptu"; did you mean "input"?`,
		3:  "no JSON, at byte 2",
		4:  `evaluator "exat"; did you mean "exact"?`,
		5:  `the case has no "name"; the case has no "input"; the case expects nothing`,
		6:  "want an object, not JSON of type array",
		7:  `field "tags" is of the wrong type: number`,
		8:  `the name "a" is that of line 1, too`,
		9:  `evaluator "trajectory": unknown mode "foo"`,
		10: `two evaluators are called "contains"`,
		11: `evaluator "matches": unknown field "regex"; there are: pattern`,
		12: `evaluator "judge": there is no model to judge`,
		13: `a call has no "tool"`,
		14: "the text is not UTF-8",
		15: "error parsing regexp",
		16: `evaluator "exact": the case has no "output"`,
		17: `an evaluator has no "type"`,
		18: "the schema",
		19: "it has no limit",
		20: `evaluator "tool_args": "tool" is missing`,
	}
	_, err := eval.Load(strings.NewReader(`{"name":"a","input":1,"output":1,"inptu":1}

nope
{"name":"d","input":1,"evaluators":["exat"]}
{}
[1]
{"name":"g","input":1,"output":1,"tags":3}
{"name":"a","input":1,"output":1}
{"name":"i","input":1,"trajectory":[],"evaluators":[{"type":"trajectory","mode":"foo"}]}
{"name":"j","input":1,"output":"x","evaluators":["contains","contains"]}
{"name":"k","input":1,"evaluators":[{"type":"matches","regex":"x"}]}
{"name":"l","input":1,"evaluators":[{"type":"judge","rubric":"x"}]}
{"name":"m","input":1,"trajectory":[{"args":{}}]}
`+"{\"name\":\"\xff\",\"input\":1}\n"+`{"name":"o","input":1,"evaluators":[{"type":"matches","pattern":"("}]}
{"name":"p","input":1,"evaluators":["exact"]}
{"name":"q","input":1,"evaluators":[{}]}
{"name":"r","input":1,"evaluators":[{"type":"schema","schema":{"type":3}}]}
{"name":"s","input":1,"evaluators":["limits"]}
{"name":"t","input":1,"evaluators":["tool_args"]}`), nil)
	var data *eval.DataError
	if !errors.As(err, &data) {
		t.Fatal(err)
	}
	for _, l := range data.Lines {
		if w := want[l.Line]; w == "" || !strings.Contains(l.Error(), w) {
			t.Errorf("%v, want %q", l, w)
		}
		delete(want, l.Line)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	var unknown *eval.UnknownError
	if !errors.As(err, &unknown) || unknown.Near != "input" {
		t.Errorf("the cause is %v", unknown)
	}
}

func TestADataSetWithoutCasesIsAnError(t *testing.T) {
	for _, text := range []string{"", "\n \n"} {
		if _, err := eval.Load(strings.NewReader(text), nil); !errors.Is(err, eval.ErrEmpty) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := eval.Run(t.Context(), nil, nil, eval.Options{}); !errors.Is(err, eval.ErrEmpty) {
		t.Error(err)
	}
}

func TestACaseWithoutEvaluatorsIsCheckedForWhatItExpects(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","input":1,"output":1}`:                    "exact",
		`{"name":"a","input":1,"trajectory":[]}`:               "trajectory",
		`{"name":"a","input":1,"output":1,"trajectory":["x"]}`: "exact trajectory",
	} {
		report, err := eval.Run(t.Context(), load(t, text), says(`1`), eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range report.Cases[0].Runs[0].Scores {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s is checked by %q, want %q", text, got, want)
		}
	}
}

// Brief is an evaluator of a program's own.
type Brief struct {
	Most int `json:"most"`
	unit string
}

func (b Brief) Evaluate(_ context.Context, _ eval.Case, r eval.Result) (eval.Score, error) {
	if n := len(r.Text()); n > b.Most {
		return eval.Failed("%d %s, more than %d", n, b.unit, b.Most), nil
	}
	return eval.Passed(), nil
}

func TestADataSetNamesEvaluatorsOfTheProgramsOwn(t *testing.T) {
	kinds := eval.Builtin(eval.Judge{})
	kinds["brief"] = eval.KindOf(Brief{unit: "bytes"})
	kinds["empty"] = eval.KindOf(eval.Func(func(_ context.Context, _ eval.Case, r eval.Result) (eval.Score, error) {
		return eval.Score{Value: 1, Pass: r.Text() == ""}, nil
	}))
	cases, err := eval.Load(strings.NewReader(`{"name":"a","input":1,"evaluators":[{"type":"brief","name":"short","most":3},"empty"]}`), kinds)
	if err != nil {
		t.Fatal(err)
	}
	report, err := eval.Run(t.Context(), cases, says(`"four"`), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(report.Cases[0].Runs[0].Failures(), "; "); got != "short: 4 bytes, more than 3; empty: it doesn't pass" {
		t.Error(got)
	}
	for _, spec := range []string{`{"type":"brief","unit":"x"}`, `{"type":"empty","most":1}`} {
		if _, err := eval.Load(strings.NewReader(`{"name":"a","input":1,"evaluators":[`+spec+`]}`), kinds); err == nil {
			t.Errorf("%s is taken", spec)
		}
	}
}

func TestACaseThatIsAppendedIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.jsonl")
	if err := os.WriteFile(file, []byte(`{"name":"old","input":1,"output":1}`), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(t, `{"name":"new","input":{"a":[1,2]},"output":"<b>","trajectory":[],"evaluators":["exact",{"type":"trajectory","mode":"subset"}],"tags":["x"],"metadata":{"k":"v"}}`)[0]
	if err := eval.Append(file, c); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(file)
	cases := load(t, string(data))
	got, _ := json.Marshal(cases[1])
	want, _ := json.Marshal(c)
	if len(cases) != 2 || string(got) != string(want) {
		t.Errorf("%s, want %s", got, want)
	}
	if err := eval.Append(file, c); err == nil || !strings.Contains(err.Error(), `line 2: there is a case "new" already`) {
		t.Error(err)
	}
	if now, _ := os.ReadFile(file); string(now) != string(data) {
		t.Error("a refused case was written")
	}
}

// Whatever a data set holds, it is read or refused, and what is read runs and is
// reported.
func FuzzADataSetNeverPanics(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","input":1,"output":{"a":[1,null]},"trajectory":["x",{"tool":"y","args":null}]}`,
		`{"name":"a","input":{"messages":[{"role":"user","content":"x"}]},"evaluators":[{"type":"contains","text":null,"not":["a"]},{"type":"matches","pattern":"a|b"}]}`,
		`{"name":"a","input":1,"trajectory":[],"evaluators":[{"type":"trajectory","mode":"unordered","tools":{"x":"subset"}},{"type":"tool_args","tool":"x","schema":{"$ref":"#/x"}}]}`,
		`{"name":"a","input":1,"evaluators":[{"type":"schema","schema":true},{"type":"schema","name":"b","schema":{"not":{"$ref":"#"}}},{"type":"limits","seconds":1e300},{"type":"state","want":1e999}]}`,
		"null\n[]\n\"\"\n{\"name\":null}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cases, err := eval.Load(strings.NewReader(text), nil)
		if err != nil {
			return
		}
		report, err := eval.Run(t.Context(), cases, func(_ context.Context, c eval.Case) (eval.Result, error) {
			return eval.StateResult(c, eval.StateInput(c), nil)
		}, eval.Options{})
		if err != nil {
			t.Fatalf("what was read can't be run: %v", err)
		}
		for name, list := range failures(report) {
			if strings.Contains(strings.Join(list, " "), "panic") && !strings.Contains(text, "panic") {
				t.Errorf("%s: %q", name, list)
			}
		}
		var b, again strings.Builder
		if err := errors.Join(report.WriteText(&b), report.WriteHTML(&b), report.Write(&again)); err != nil {
			t.Fatal(err)
		}
		if _, err := eval.ReadReport(strings.NewReader(again.String())); err != nil {
			t.Errorf("a report can't be read: %v", err)
		}
	})
}
