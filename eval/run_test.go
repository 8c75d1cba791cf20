package eval_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/eval"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graphtest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// run evaluates a data set.
func run(t *testing.T, cases []eval.Case, target eval.Target, o eval.Options) *eval.Report {
	t.Helper()
	report, err := eval.Run(t.Context(), cases, target, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// failures are those of all runs, by case.
func failures(r *eval.Report) map[string][]string {
	out := map[string][]string{}
	for _, c := range r.Cases {
		for _, one := range c.Runs {
			out[c.Case.Name] = append(out[c.Case.Name], one.Failures()...)
		}
	}
	return out
}

func TestATargetOrEvaluatorThatFailsOrPanicsFailsItsRunAndTheRestGoesOn(t *testing.T) {
	cases := load(t, `{"name":"fails","input":1,"output":1}
{"name":"panics","input":2,"output":1}
{"name":"evaluator","input":3,"output":1}
{"name":"fine","input":4,"output":1}
{"name":"odd","input":5,"output":1}`)
	report := run(t, cases, func(_ context.Context, c eval.Case) (eval.Result, error) {
		switch c.Name {
		case "fails":
			return eval.Result{}, errors.New("no connection")
		case "panics":
			return eval.Result{Output: c.Answers[len(c.Input)]}, nil
		case "odd":
			return eval.Result{Output: json.RawMessage(`{`)}, nil
		}
		return eval.Result{Output: json.RawMessage(`1`)}, nil
	}, eval.Options{Evaluators: map[string]eval.Evaluator{
		"strange": eval.Func(func(_ context.Context, c eval.Case, _ eval.Result) (eval.Score, error) {
			if c.Name == "evaluator" {
				return eval.Score{Value: math.NaN(), Pass: true}, nil
			}
			return eval.Passed(), nil
		}),
		"wild": eval.Func(func(_ context.Context, c eval.Case, _ eval.Result) (eval.Score, error) {
			if c.Name == "evaluator" {
				panic("oh")
			}
			return eval.Passed(), nil
		}),
	}})
	want := map[string][]string{
		"fails":     {"the run failed: no connection"},
		"panics":    {"the run failed: panic: runtime error: index out of range [1] with length 0, in run_test.go:"},
		"evaluator": {"strange couldn't judge: the score NaN is not between 0 and 1", "wild couldn't judge: panic: oh, in run_test.go:"},
		"odd":       {"the run failed: the result can't be written as JSON"},
	}
	got := failures(report)
	for name, list := range want {
		if len(got[name]) != len(list) {
			t.Errorf("%s: %q", name, got[name])
			continue
		}
		for i := range list {
			if !strings.HasPrefix(got[name][i], list[i]) {
				t.Errorf("%s: %q, want %q", name, got[name][i], list[i])
			}
		}
	}
	if s := report.Summary; s.Passed != 1 || s.Cases != 5 || s.Evaluators[2].Name != "wild" || s.Evaluators[2].Errors != 1 {
		t.Errorf("%+v", s)
	}
	var b bytes.Buffer
	if err := report.Write(&b); err != nil {
		t.Error(err)
	}
}

func TestRepeatedRunsGivePassHatAndPassAt(t *testing.T) {
	cases := load(t, `{"name":"always","input":4,"output":1}
{"name":"half","input":2,"output":1}
{"name":"never","input":0,"output":1}`)
	var done [5]atomic.Int64
	var told atomic.Int64
	report := run(t, cases, func(_ context.Context, c eval.Case) (eval.Result, error) {
		var passes int
		if err := json.Unmarshal(c.Input, &passes); err != nil {
			return eval.Result{}, err
		}
		return eval.Result{Output: json.RawMessage(fmt.Sprint(min(1, max(0, passes-int(done[passes].Add(1))+1))))}, nil
	}, eval.Options{Repeat: 4, Done: func(eval.Case, eval.RunReport) { told.Add(1) }})
	s := report.Summary
	if s.Runs != 12 || s.RunsPassed != 6 || s.Passed != 1 || told.Load() != 12 {
		t.Errorf("%+v", s)
	}
	// Of 4 runs with 2 passes, 2 that are drawn both pass with 1/6, and one of them with 5/6.
	for k, want := range [][2]float64{{1.5 / 3, 1.5 / 3}, {(1 + 1./6) / 3, (1 + 5./6) / 3}, {1. / 3, 2. / 3}, {1. / 3, 2. / 3}} {
		if math.Abs(s.PassHat[k]-want[0]) > 1e-9 || math.Abs(s.PassAt[k]-want[1]) > 1e-9 {
			t.Errorf("pass^%d is %g, pass@%[1]d %g, want %g", k+1, s.PassHat[k], s.PassAt[k], want)
		}
	}
}

func TestRunsAreMeasuredAndLimitedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cases := load(t, `{"name":"a","input":1,"output":1}
{"name":"b","input":2,"output":1}
{"name":"slow","input":90,"output":1}`)
		start := time.Now()
		report := run(t, cases, func(ctx context.Context, c eval.Case) (eval.Result, error) {
			var seconds time.Duration
			if err := json.Unmarshal(c.Input, &seconds); err != nil {
				return eval.Result{}, err
			}
			select {
			case <-time.After(seconds * time.Second):
				return eval.Result{Output: json.RawMessage(`1`)}, nil
			case <-ctx.Done():
				return eval.Result{}, ctx.Err()
			}
		}, eval.Options{Timeout: 10 * time.Second, Concurrency: 1})
		if took := time.Since(start); took != 13*time.Second {
			t.Errorf("one at a time took %v", took)
		}
		if got := report.Summary.Latency; got != (eval.Distribution{P50: 2 * time.Second, P95: 10 * time.Second, Max: 10 * time.Second}) {
			t.Error(got)
		}
		if got := failures(report)["slow"]; !reflect.DeepEqual(got, []string{"the run failed: it took longer than 10s: context deadline exceeded"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestAnEvaluationThatIsStoppedReportsWhatWasDone(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	n := 0
	report, err := eval.Run(ctx, load(t, `{"name":"a","input":1,"output":1}
{"name":"b","input":1,"output":1}
{"name":"c","input":1,"output":1}`), func(ctx context.Context, _ eval.Case) (eval.Result, error) {
		if n++; n == 2 {
			cancel(enough)
			return eval.Result{}, ctx.Err()
		}
		return eval.Result{Output: json.RawMessage(`1`)}, nil
	}, eval.Options{Concurrency: 1})
	if !errors.Is(err, enough) || report.Stopped != "enough" || report.Summary.Runs != 1 || report.Summary.RunsPassed != 1 || len(report.Cases) != 3 {
		t.Errorf("%v, %+v", err, report)
	}
	var b bytes.Buffer
	if err := report.WriteText(&b); err != nil || !strings.Contains(b.String(), "-     b: not run\n") || !strings.Contains(b.String(), "stopped  after 1 of 3 runs: enough\n") {
		t.Errorf("%s, %v", b.String(), err)
	}
}

func TestWhatCannotBeRunIsAnErrorBeforeAnythingRuns(t *testing.T) {
	input := json.RawMessage(`1`)
	fine := eval.Case{Name: "a", Input: input, Output: input}
	for want, c := range map[string]struct {
		cases []eval.Case
		o     eval.Options
	}{
		"none may be negative":           {[]eval.Case{fine}, eval.Options{Repeat: -1}},
		"two cases have this name":       {[]eval.Case{fine, fine}, eval.Options{}},
		"the case expects nothing":       {[]eval.Case{{Name: "a", Input: input}}, eval.Options{}},
		`"x" was not made`:               {[]eval.Case{{Name: "a", Input: input, Evaluators: []eval.Check{{Name: "x"}}}}, eval.Options{}},
		`two evaluators are called "exa`: {[]eval.Case{fine}, eval.Options{Evaluators: map[string]eval.Evaluator{"exact": eval.Exact{}}}},
		"there is no model to judge":     {[]eval.Case{fine}, eval.Options{Evaluators: map[string]eval.Evaluator{"judge": eval.Judge{}}}},
	} {
		if _, err := eval.Run(t.Context(), c.cases, nil, c.o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// answered is a result whose answers are of models.
func answered(models ...string) eval.Result {
	r := eval.Result{Output: json.RawMessage(`1`)}
	for _, name := range models {
		m := chat.Assistant("x")
		m.Model = name
		if name != "silent" && name != "" {
			m.Usage = &chat.Usage{Input: 1_000_000}
		}
		r.Messages = append(r.Messages, m)
		r.Usage = append(r.Usage, agent.UsedBy("agent", &model.Response{Message: m})...)
	}
	return r
}

func TestACostThatIsUnknownIsSaidAndNotZero(t *testing.T) {
	prices := model.Table{"dear": {Prices: model.Prices{Input: 2}}, "free": {Prices: model.Prices{Free: true}}}
	for _, c := range []struct {
		models []string
		want   string
	}{
		{nil, "0"},
		{[]string{"dear", "dear-2025"}, "4"},
		{[]string{"free"}, "0"},
		{[]string{"dear", "new"}, "2 and an unknown rest (no price for new)"},
		{[]string{"new", "new"}, "unknown (no price for new)"},
		{[]string{"silent"}, "unknown (no usage from silent)"},
		{[]string{""}, "unknown (no usage from an unnamed model)"},
		{[]string{"dear", ""}, "2"}, // the program's own message
	} {
		report := run(t, load(t, `{"name":"a","input":1,"output":1}`), func(context.Context, eval.Case) (eval.Result, error) {
			return answered(c.models...), nil
		}, eval.Options{Prices: prices})
		if got := report.Summary.Cost.String(); got != c.want {
			t.Errorf("%q cost %s, want %s", c.models, got, c.want)
		}
	}
}

func TestTheCostOfAJudgeIsNotThatOfTheRuns(t *testing.T) {
	judge := eval.Judge{Rubric: "x", Model: scripted.New(verdict(`{"reason":"","score":1}`))}
	report := run(t, load(t, `{"name":"a","input":1,"output":1}`), says(`1`), eval.Options{Evaluators: map[string]eval.Evaluator{"judge": judge}})
	if s := report.Summary; s.Cost.String() != "0" || s.JudgeCost.String() != "0.000225" {
		t.Errorf("runs %s, judges %s", s.Cost, s.JudgeCost)
	}
}

// notes is a state with messages and more.
type notes struct {
	agent.State
	Saved graph.List[string] `json:"saved"`
}

// keeper is an agent that asks before it saves a note.
func keeper(t *testing.T, m model.Model) *graph.Graph[notes] {
	t.Helper()
	type note struct {
		Text string `json:"text"`
	}
	g, err := agent.New(agent.ReAct[notes]{Model: m, Approve: agent.Approve("save"), Tools: []tool.Tool{
		agent.NewStateTool("save", "Saves a note.", func(_ context.Context, s *notes, n note) (string, graph.Command, error) {
			s.Saved.Add(n.Text)
			return "saved", graph.Command{}, nil
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAGraphIsEvaluatedByItsMessagesStateAndAnswers(t *testing.T) {
	cases := load(t, `{"name":"saves","input":"milk!","answers":[{"decisions":[{"type":"approve"}]}],"output":"Noted.","trajectory":[{"tool":"save","args":{"text":"milk"}}],"evaluators":["exact","trajectory",{"type":"state","want":{"saved":["milk"]}}]}`)
	m := scripted.New(scripted.Call("save", `{"text":"milk"}`), scripted.Text("Noted."), scripted.Call("save", `{"text":"milk"}`))
	g := keeper(t, m)
	report := run(t, cases, eval.Graph(g), eval.Options{})
	if got := failures(report); len(got["saves"]) > 0 {
		t.Error(got)
	}
	if got := len(report.Cases[0].Runs[0].Result.Messages); got != 4 {
		t.Errorf("%d messages", got)
	}
	cases[0].Answers = nil
	got := failures(run(t, cases, eval.Graph(g), eval.Options{}))["saves"]
	if len(got) != 1 || !strings.HasPrefix(got[0], "the run failed: the run waits: ") || !strings.Contains(got[0], `give the case "answers"`) {
		t.Errorf("%q", got)
	}
}

func TestMessagesOfTheInputAreNoPartOfTheTrajectory(t *testing.T) {
	cases := load(t, `{"name":"later","input":{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"","tool_calls":[{"id":"1","name":"save","args":{}}]},{"role":"tool","tool_call_id":"1","content":"saved"},{"role":"assistant","content":"Hi."},{"role":"user","content":"bye"}]},"output":"Bye.","trajectory":[]}`)
	report := run(t, cases, eval.Graph(keeper(t, scripted.New(scripted.Text("Bye.")))), eval.Options{})
	if got := failures(report); len(got["later"]) > 0 {
		t.Error(got)
	}
	if got := report.Cases[0].Runs[0].Result.Messages; len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestAGraphWithoutMessagesGivesItsOutputOrState(t *testing.T) {
	type order struct {
		Item string             `json:"item"`
		Log  graph.List[string] `json:"log"`
	}
	b := graph.New[order]("order")
	b.AddNode("buy", func(_ context.Context, s *order) error { s.Log.Add("bought " + s.Item); return nil })
	b.SetEntryPoint("buy")
	cases := load(t, `{"name":"a","input":{"item":"tea"},"output":{"item":"tea","log":["bought tea"]}}`)
	if got := failures(run(t, cases, eval.Graph(b.MustCompile()), eval.Options{})); len(got["a"]) > 0 {
		t.Error(got)
	}
	type receipt struct {
		N int `json:"n"`
	}
	graph.SetOutput(b, func(s *order) receipt { return receipt{s.Log.Len()} })
	cases = load(t, `{"name":"a","input":{"item":"tea"},"output":{"n":1}}
{"name":"b","input":{"itme":"tea"},"output":{"n":1}}`)
	got := failures(run(t, cases, eval.Graph(b.MustCompile()), eval.Options{}))
	if len(got["a"]) > 0 || len(got["b"]) != 1 || !strings.Contains(got["b"][0], `"itme"`) {
		t.Error(got)
	}
}

func TestWhatTheInputHadUsedIsNotCountedAgain(t *testing.T) {
	c := eval.Case{Input: json.RawMessage(`{"messages":[],"model_usage":[{"path":"agent","model":"gpt-5","calls":1,"input_tokens":10,"output_tokens":1}]}`)}
	r, err := eval.StateResult(c, json.RawMessage(`{"messages":[{"role":"assistant","content":"x"}],"model_usage":[{"path":"agent","model":"gpt-5","calls":2,"input_tokens":15,"output_tokens":2}]}`), nil)
	if err != nil || r.Usage.Calls() != 1 || r.Usage.Total() != (chat.Usage{Input: 5, Output: 1}) {
		t.Errorf("%v, %v", r.Usage, err)
	}
}

// fixed is a report with something of everything.
func fixed(t *testing.T, better bool) *eval.Report {
	t.Helper()
	cases := load(t, `{"name":"sum","input":"what is 6*7","output":"42","trajectory":[{"tool":"calculator","args":{"expression":"6*7"}}],"tags":["arithmetic"]}
{"name":"greeting","input":"hello <script>","evaluators":[{"type":"contains","text":"Hello"}],"tags":["tone"]}
{"name":"down","input":"x","output":"y"}`)
	n := map[string]int{}
	report := run(t, cases, func(_ context.Context, c eval.Case) (eval.Result, error) {
		n[c.Name]++
		r := called(`calculator {"expression":"6*7"}`)
		r.Latency, r.Cost, r.Output = time.Duration(n[c.Name])*1234567*time.Microsecond, eval.Cost{Known: 0.25}, json.RawMessage(`"42"`)
		switch {
		case c.Name == "greeting" && better == (n[c.Name] == 2):
			r = eval.Result{Output: json.RawMessage(`"Hello\u001b[31m <b>you</b>"`), Cost: eval.Cost{Unknown: []string{"no price for new"}}, Latency: time.Millisecond}
		case c.Name == "down":
			r.Latency = time.Second
			return r, errors.New("no connection\nok    down")
		}
		return r, nil
	}, eval.Options{Name: "fixed.jsonl", Target: "assistant", Repeat: 3, Concurrency: 1})
	report.StartedAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	return report
}

func TestReportsAreWrittenForPeople(t *testing.T) {
	var text, page bytes.Buffer
	r := fixed(t, false)
	if err := errors.Join(r.WriteText(&text), r.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	graphtest.Golden(t, "report.txt", text.String())
	graphtest.Golden(t, "report.html", page.String())
	for _, no := range []string{"<b>you", "<script", "src=", "href="} {
		if strings.Contains(page.String(), no) {
			t.Errorf("the page has %s", no)
		}
	}
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	var b, again bytes.Buffer
	if err := fixed(t, false).Write(&b); err != nil {
		t.Fatal(err)
	}
	r, err := eval.ReadReport(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(&again); err != nil || again.String() != b.String() {
		t.Errorf("%v\n%s\nwas\n%s", err, again.String(), b.String())
	}
	for _, bad := range []string{"", "[]", "{}", `{"format":2}`, `{"format":1,"cases":[{"case":{"evaluators":[3]}}]}`} {
		var odd *eval.ReportError
		if _, err := eval.ReadReport(strings.NewReader(bad)); !errors.As(err, &odd) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAComparisonTellsWhatBecameOfEachCase(t *testing.T) {
	before, after := fixed(t, false), fixed(t, true)
	after.Cases[0].Case.Output = json.RawMessage(`"43"`)
	after.Cases = append(after.Cases[:2:2], eval.CaseReport{Case: eval.Case{Name: "new"}})
	c := eval.Compare(before, after)
	if got := c.Worse(); !reflect.DeepEqual(got, []string{"greeting"}) {
		t.Error(got)
	}
	if got := eval.Compare(after, before).Worse(); got != nil {
		t.Error(got)
	}
	var b bytes.Buffer
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	graphtest.Golden(t, "comparison.txt", b.String())
	if c := eval.Compare(before, before); len(c.Cases) != 3 || c.Cases[0].Verdict != eval.Same {
		t.Errorf("%+v", c.Cases)
	}
}
