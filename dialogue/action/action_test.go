package action_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/tool"
)

type none = struct{}

// newSet returns a set that logs to the buffer.
func newSet(t *testing.T, parts ...action.Part) (*action.Set, *bytes.Buffer) {
	t.Helper()
	s, err := action.NewSet(parts...)
	if err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	return s, log
}

// values reads inputs and outputs as tests write them.
func values(t *testing.T, object string) map[string]expr.Value {
	t.Helper()
	var v map[string]expr.Value
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// do runs an action and returns its outputs as JSON, or its failure.
func do(t *testing.T, s *action.Set, name, inputs string) string {
	t.Helper()
	r := s.Do(t.Context(), dialogue.ActionCall{ID: "t/f_1/s/1", Action: name, FlowID: "f_1", Step: "s", Inputs: values(t, inputs)})
	if r.ID != "t/f_1/s/1" {
		t.Errorf("the result has the ID %q", r.ID)
	}
	if r.Error != nil {
		if r.Error.Action != name || r.Outputs != nil {
			t.Errorf("the failure of %s: %+v", name, r)
		}
		return r.Error.Error()
	}
	text, err := json.Marshal(r.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestInputsAndOutputsAreGoTypes(t *testing.T) {
	type nested struct {
		Street string `json:"street"`
		Number int    `json:"number"`
	}
	type everything struct {
		Text     string            `json:"text"`
		Whole    int               `json:"whole"`
		Fraction float64           `json:"fraction"`
		Yes      bool              `json:"yes"`
		Moment   time.Time         `json:"moment"`
		Day      time.Time         `json:"day" format:"date"`
		Clock    time.Time         `json:"clock" format:"time"`
		Written  string            `json:"written" format:"date"`
		Pause    time.Duration     `json:"pause"`
		List     []string          `json:"list"`
		Object   nested            `json:"object"`
		Map      map[string]int    `json:"map"`
		Any      expr.Value        `json:"any"`
		Maybe    *string           `json:"maybe"`
		Perhaps  int               `json:"perhaps,omitempty"`
		Later    *time.Time        `json:"later,omitempty"`
		Open     map[string]string `json:"open,omitempty"`
	}
	var got everything
	s, _ := newSet(t, action.New("echo", func(_ context.Context, in everything) (everything, error) {
		got = in
		return in, nil
	}))
	in := `{"any":[1,{"a":null}],"clock":"08:15:00","day":"2024-12-31","fraction":0.1,"list":["a","b"],"map":{"x":1},` +
		`"moment":"2024-11-20T08:15:00Z","object":{"number":7,"street":"High Street"},"pause":1.5,"text":"0042","whole":9007199254740992,"written":"2024-12-31","yes":true}`
	out := do(t, s, "echo", in)
	if want := in[:strings.Index(in, `"moment"`)] + `"maybe":null,` + in[strings.Index(in, `"moment"`):]; out != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
	if got.Whole != 1<<53 || got.Text != "0042" || got.Pause != 1500*time.Millisecond || got.Fraction != 0.1 || got.Object.Number != 7 || got.Maybe != nil {
		t.Errorf("the function got %+v", got)
	}
	if want := time.Date(2024, 12, 31, 0, 0, 0, 0, time.UTC); !got.Day.Equal(want) {
		t.Errorf("the day is %v, want %v", got.Day, want)
	}
	out = do(t, s, "echo", strings.NewReplacer(`2024-11-20T08:15:00Z`, `2024-11-20 08:15`, `08:15:00`, `08:15`, `"yes":true`, `"yes":true,"maybe":"m","perhaps":3,"later":"2025-01-01"`).Replace(in))
	for _, want := range []string{`"moment":"2024-11-20T08:15:00Z"`, `"clock":"08:15:00"`, `"maybe":"m"`, `"perhaps":3`, `"later":"2025-01-01T00:00:00Z"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

func TestInputsThatDoNotFitAreInvalidAndNotTold(t *testing.T) {
	type address struct {
		Street string `json:"street"`
	}
	type in struct {
		IBAN    string        `json:"iban"`
		Count   int           `json:"count,omitempty" maximum:"10"`
		Due     time.Time     `json:"due,omitzero"`
		Pause   time.Duration `json:"pause,omitzero"`
		Address address       `json:"address,omitzero"`
	}
	s, log := newSet(t, action.New("act", func(context.Context, in) (none, error) { return none{}, nil }))
	for given, want := range map[string]string{
		`{"iban":"X"}`:                  `{}`,
		`{}`:                            `invalid: the input "iban" is missing`,
		`{"iban":null}`:                 `invalid: the input "iban" is missing`,
		`{"iban":7}`:                    `invalid: the input "iban": it has to be a string, not a number`,
		`{"iban":"X","count":1.5}`:      `invalid: the input "count": it has to be a whole number`,
		`{"iban":"X","count":1e300}`:    `invalid: the inputs are not what the code takes: count`,
		`{"iban":"X","count":11}`:       `invalid: the inputs are not what the code takes: count`,
		`{"iban":"X","due":"tomorrow"}`: `invalid: the input "due": it is not a datetime`,
		`{"iban":"X","pause":1e30}`:     `invalid: the input "pause": it is no number of seconds that a duration can have`,
		`{"iban":"X","address":{"street":"DE89 secret"}}`: `{}`,
		`{"iban":"X","address":{"strasse":"secret"}}`:     `invalid: the inputs are not what the code takes: address.street, address.strasse`,
		`{"iban":"X","amount":3}`:                         `invalid: there is no input "amount"`,
	} {
		if got := do(t, s, "act", given); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", given, got, want)
		}
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("a value was logged: %s", log)
	}
}

func TestNilListsAndMapsAreEmpty(t *testing.T) {
	type out struct {
		List  []string       `json:"list"`
		Map   map[string]int `json:"map"`
		Maybe *[]string      `json:"maybe"`
	}
	s, _ := newSet(t, action.New("get", func(context.Context, none) (out, error) { return out{}, nil }))
	if got := do(t, s, "get", `{}`); got != `{"list":[],"map":{},"maybe":null}` {
		t.Error(got)
	}
}

func TestMapsTakeAndReturnAnything(t *testing.T) {
	s, _ := newSet(t, action.New("echo", func(_ context.Context, in map[string]expr.Value) (map[string]expr.Value, error) { return in, nil }))
	if got := do(t, s, "echo", `{"a":1,"b":[true]}`); got != `{"a":1,"b":[true]}` {
		t.Error(got)
	}
}

func TestOutputsOfTheWrongShapeAreInvalidOutput(t *testing.T) {
	returns := func(name string, v expr.Value) *action.Action {
		return action.New(name, func(context.Context, none) (map[string]expr.Value, error) {
			return map[string]expr.Value{"text": v}, nil
		})
	}
	type number struct {
		N float64 `json:"n"`
	}
	type account struct {
		ID json.Number `json:"id"`
	}
	type order struct {
		ID uint64 `json:"id"`
	}
	s, log := newSet(t,
		returns("fits", expr.Str(strings.Repeat("x", 100_000))),
		returns("mega", expr.Str(strings.Repeat("x", 1<<20))),
		action.New("nan", func(context.Context, none) (number, error) { return number{math.NaN()}, nil }),
		action.New("account", func(context.Context, none) (account, error) { return account{"9007199254740993"}, nil }),
		action.New("order", func(context.Context, none) (order, error) { return order{1<<63 + 1}, nil }),
		action.New("power", func(context.Context, none) (order, error) { return order{1 << 63}, nil }),
		action.New("round", func(context.Context, none) (order, error) { return order{9e18}, nil }),
		action.New("huge", func(context.Context, none) (account, error) { return account{"1e999"}, nil }),
	)
	for name, want := range map[string]string{
		"mega":    `invalid_output: the output "text" has 1048578 bytes, more than 262144`,
		"nan":     `invalid_output: they have no JSON`,
		"account": `invalid_output: the output "id": an integer has too many digits; return it as a string`,
		"order":   `invalid_output: the output "id": an integer has too many digits; return it as a string`,
		"power":   `invalid_output: the output "id": an integer has too many digits; return it as a string`,
		"round":   `{"id":9000000000000000000}`,
		"huge":    `invalid_output: the output "id": a number is too large`,
	} {
		if got := do(t, s, name, `{}`); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := do(t, s, "fits", `{}`); len(got) < 100_000 {
		t.Error(got)
	}
	if !strings.Contains(log.String(), "unsupported value: NaN") {
		t.Errorf("the log: %s", log)
	}
}

func TestErrorsAreTypesOfFailures(t *testing.T) {
	fails := func(name string, err error) *action.Action {
		return action.New(name, func(context.Context, none) (none, error) { return none{}, err })
	}
	s, log := newSet(t,
		fails("refused", &dialogue.Failure{Type: "refused", Message: "the account does not hold this amount"}),
		fails("untyped", &dialogue.Failure{Message: "no"}),
		fails("wrapped", fmt.Errorf("row 7: %w", &dialogue.Failure{Type: "not_found"})),
		fails("late", fmt.Errorf("dial db7: %w", context.DeadlineExceeded)),
		fails("plain", errors.New("password authentication failed for db7")),
		fails("nil", (*dialogue.Failure)(nil)),
		action.New("panic", func(context.Context, none) (none, error) { panic("oh no") }),
		action.New("gone", func(context.Context, none) (none, error) { runtime.Goexit(); return none{}, nil }),
	)
	for _, k := range []struct{ name, want, logged string }{
		{"refused", "refused: the account does not hold this amount", ""},
		{"untyped", "unknown: no", ""},
		{"wrapped", "not_found", `row 7: not_found`},
		{"late", "timeout", "dial db7"},
		{"plain", "unknown", "password authentication failed for db7"},
		{"nil", "unknown", "nil *dialogue.Failure"},
		{"panic", "unknown", "action_test.go"},
		{"gone", "unknown", "ended its goroutine"},
		{"plane", "action_not_found: it has no code", ""},
	} {
		log.Reset()
		if got := do(t, s, k.name, `{}`); got != k.want {
			t.Errorf("%s: got %q, want %q", k.name, got, k.want)
		}
		if k.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), k.logged) {
			t.Errorf("%s: %q should be logged, not %s", k.name, k.logged, log)
		}
	}
}

func TestAnActionThatHangsTimesOutAndTheProcessGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan none)
		defer close(release)
		s, _ := newSet(t,
			action.New("deaf", func(context.Context, none) (none, error) { <-release; return none{}, nil }),
			action.New("polite", func(ctx context.Context, _ none) (none, error) {
				deadline, ok := ctx.Deadline()
				if !ok || time.Until(deadline) != 5*time.Second {
					t.Errorf("the deadline is %v, %v", deadline, ok)
				}
				<-ctx.Done()
				return none{}, ctx.Err()
			}),
		)
		for _, name := range []string{"deaf", "polite"} {
			start := time.Now()
			r := s.Do(t.Context(), dialogue.ActionCall{Action: name, Timeout: 5 * time.Second})
			if r.Error == nil || r.Error.Type != "timeout" || time.Since(start) != 5*time.Second {
				t.Errorf("%s: %+v after %v", name, r.Error, time.Since(start))
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if r := s.Do(ctx, dialogue.ActionCall{Action: name, Timeout: 5 * time.Second}); r.Error == nil || r.Error.Type != "cancelled" {
				t.Errorf("%s, cancelled: %+v", name, r.Error)
			}
		}
	})
}

func TestOneCallIsOneAttempt(t *testing.T) {
	n := 0
	s, _ := newSet(t, action.New("fail", func(context.Context, none) (none, error) { n++; return none{}, &dialogue.Failure{Type: "unavailable"} }))
	s.Do(t.Context(), dialogue.ActionCall{Action: "fail", Retry: program.Retry{MaxAttempts: 5}})
	if n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func TestAnActionKnowsWhichCallItAnswers(t *testing.T) {
	var got action.Call
	see := func(ctx context.Context, _ none) (none, error) { got = action.CallOf(ctx); return none{}, nil }
	s, _ := newSet(t, action.New("see", see),
		action.NewValidator("see", func(ctx context.Context, v string) (string, error) { got = action.CallOf(ctx); return v, nil }),
		action.Tool(tool.New("tool", "", func(ctx context.Context, _ none) (none, error) {
			if key := tool.InfoOf(ctx).IdempotencyKey; key != "a/b/pay_1_f/send/2" {
				t.Errorf("the tool's key is %q", key)
			}
			return none{}, nil
		})))
	call := dialogue.ActionCall{ID: "a/b/pay_1_f/send/2", Action: "see", Effect: program.Irreversible, FlowID: "pay_1_f", Step: "send"}
	s.Do(t.Context(), call)
	want := action.Call{ID: call.ID, Action: "see", Effect: program.Irreversible, FlowID: "pay_1_f", Step: "send", Caller: action.Caller{Thread: "a/b"}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Caller = action.Caller{User: "alice", Thread: "other", Language: "de"}
	ctx := action.WithCaller(t.Context(), want.Caller)
	if s.Do(ctx, call); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s.Validate(ctx, dialogue.Validation{Validator: "see", Value: expr.Str("x"), Language: "en"}); got != (action.Call{Caller: want.Caller}) {
		t.Errorf("a validator got %+v", got)
	}
	if s.Validate(t.Context(), dialogue.Validation{Validator: "see", Value: expr.Str("x"), Language: "en"}); got.Language != "en" {
		t.Errorf("a validator got %+v", got)
	}
	call.Action = "tool"
	if r := s.Do(t.Context(), call); r.Error != nil {
		t.Error(r.Error)
	}
}

func TestValidatorsKeepAValueOrRefuseIt(t *testing.T) {
	s, log := newSet(t,
		action.NewValidator("name", func(_ context.Context, v string) (string, error) {
			if strings.ContainsAny(v, "0123456789") {
				return "", action.Refusal("a name has no digits")
			}
			return strings.TrimSpace(v), nil
		}),
		action.NewValidator("even", func(_ context.Context, v int) (int, error) {
			if v%2 != 0 {
				return 0, action.Refusal("")
			}
			return v, nil
		}),
		action.NewValidator("first", func(_ context.Context, v []string) ([]string, error) { return v[:1], nil }),
		action.NewValidator("broken", func(context.Context, string) (string, error) { return "", errors.New("db7 is down") }),
		action.NewValidator("panic", func(context.Context, string) (string, error) { panic("oh no") }),
		action.NewValidator("busy", func(context.Context, string) (string, error) {
			return "", &dialogue.Failure{Type: "unavailable", Message: "try later"}
		}),
	)
	for _, k := range []struct{ validator, value, want, reason, failure string }{
		{"name", `" Bob "`, `"Bob"`, "", ""},
		{"name", `"B0b"`, `null`, "a name has no digits", ""},
		{"even", `2`, `2`, "", ""},
		{"even", `3`, `null`, "it is refused", ""},
		{"even", `2.5`, `null`, "", `invalid: the input "value": it has to be a whole number`},
		{"first", `["a","b"]`, `["a"]`, "", ""},
		{"first", `[]`, `null`, "", "unknown: it can't be checked now"},
		{"broken", `"x"`, `null`, "", "unknown: it can't be checked now"},
		{"panic", `"x"`, `null`, "", "unknown: it can't be checked now"},
		{"busy", `"x"`, `null`, "", "unavailable: try later"},
		{"missing", `"x"`, `null`, "", "action_not_found: it can't be checked now"},
	} {
		v := values(t, `{"v":`+k.value+`}`)["v"]
		got := s.Validate(t.Context(), dialogue.Validation{ID: "v1", Validator: k.validator, Value: v})
		text, err := json.Marshal(got.Value)
		if err != nil {
			t.Fatal(err)
		}
		failure := ""
		if got.Error != nil {
			failure = got.Error.Error()
		}
		if got.ID != "v1" || string(text) != k.want || got.Reason != k.reason || failure != k.failure {
			t.Errorf("%s of %s: %+v, %s", k.validator, k.value, got, failure)
		}
	}
	if !strings.Contains(log.String(), "db7 is down") || !strings.Contains(log.String(), "oh no") {
		t.Errorf("the log: %s", log)
	}
}

func TestWhatIsDefinedWronglyIsSaidAtOnce(t *testing.T) {
	good := action.New("good", func(context.Context, none) (none, error) { return none{}, nil })
	_, err := action.NewSet(good, good, nil, (*action.Action)(nil), (*action.Validator)(nil),
		action.New("to-do", func(context.Context, none) (none, error) { return none{}, nil }),
		action.New("", func(context.Context, none) (none, error) { return none{}, nil }),
		action.New[none, none]("nil", nil),
		action.New("text", func(context.Context, string) (none, error) { return none{}, nil }),
		action.New("list", func(context.Context, none) ([]string, error) { return nil, nil }),
		action.New("chan", func(context.Context, none) (struct{ C chan int }, error) { return struct{ C chan int }{}, nil }),
		action.NewValidator[string]("nobody", nil),
		action.NewValidator("v", func(_ context.Context, v string) (string, error) { return v, nil }),
		action.NewValidator("v", func(_ context.Context, v string) (string, error) { return v, nil }),
		action.Tool(nil),
	)
	var definition *action.DefinitionError
	if !errors.As(err, &definition) || definition.Name != "good" {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`action "good": there are two actions of this name; rename one`,
		`a part of the set is nil`, `an action is nil`, `a validator is nil`,
		`action "to-do": a program can't name it; call it "to_do"`,
		`action "": `, `the name is empty`,
		`action "nil": the function is nil`,
		`action "text": `, `must be a JSON object`,
		`action "list": the outputs: they must be a JSON object; use a struct`,
		`field "C": JSON doesn't decode into a chan`,
		`action "nobody": the function is nil`,
		`action "v": there are two validators of this name; rename one`,
		`the tool is nil`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	var zero action.Set
	if r := zero.Do(t.Context(), dialogue.ActionCall{Action: "x"}); r.Error == nil || r.Error.Type != "action_not_found" {
		t.Errorf("an empty set: %+v", r)
	}
}

func TestNumbersPassExactlyOrNotAtAll(t *testing.T) {
	type numbers struct {
		Fraction float64 `json:"fraction"`
		Whole    int64   `json:"whole"`
	}
	var got, give numbers
	s, _ := newSet(t, action.New("echo", func(_ context.Context, in numbers) (numbers, error) { got = in; return give, nil }))
	rapid.Check(t, func(r *rapid.T) {
		give = numbers{rapid.Float64().Draw(r, "fraction"), rapid.Int64().Draw(r, "whole")}
		in := numbers{rapid.Float64().Draw(r, "fraction given"), rapid.Int64Range(-1<<53, 1<<53).Draw(r, "whole given")}
		res := s.Do(t.Context(), dialogue.ActionCall{Action: "echo", Inputs: map[string]expr.Value{"fraction": expr.Num(in.Fraction), "whole": expr.Num(float64(in.Whole))}})
		if got != in {
			r.Fatalf("gave %v, it got %v", in, got)
		}
		held := strconv.FormatFloat(float64(give.Whole), 'f', -1, 64) == strconv.FormatInt(give.Whole, 10)
		switch {
		case res.Error != nil && (held || res.Error.Type != "invalid_output"):
			r.Fatalf("%v: %v", give, res.Error)
		case res.Error == nil && (!held || !res.Outputs["fraction"].Same(expr.Num(give.Fraction)) || !res.Outputs["whole"].Same(expr.Num(float64(give.Whole)))):
			r.Fatalf("returned %v, it gave %v", give, res.Outputs)
		}
	})
}
