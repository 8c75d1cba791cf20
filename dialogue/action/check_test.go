package action_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

const contracts = `version: "2.0"
slots:
  amount: {type: number, ask: {text: "How much?"}, validate: [positive, rounded]}
  due: {type: date, ask: {text: "When?"}, validate: known}
actions:
  pay:
    inputs: {amount: number, "fee?": number, due: date}
    outputs: {receipt: string, "note?": string, count: integer}
  look: {effect: read, inputs: {amount: integer}, outputs: {found: boolean}}
  lost: {effect: read}
  open: {inputs: [anything], outputs: [whatever]}
flows:
  payment:
    description: Pay.
    steps:
    - collect: amount
    - {collect: due, validate: [future]}
    - action: pay
    - action: look
    - action: lost
    - {action: open, inputs: {anything: amount}}
    - say: {text: "{receipt} {note} {count} {found} {whatever}"}
`

func TestCodeThatFitsItsContractsIsFine(t *testing.T) {
	type pay struct {
		Amount float64   `json:"amount"`
		Fee    *float64  `json:"fee"`
		Due    time.Time `json:"due"`
		Extra  string    `json:"extra,omitempty"`
	}
	type paid struct {
		Receipt string `json:"receipt"`
		Note    string `json:"note,omitempty"`
		Count   int    `json:"count"`
		More    bool   `json:"more"`
	}
	type look struct {
		Amount float64 `json:"amount"`
	}
	type found struct {
		Found bool `json:"found"`
	}
	number := func(_ context.Context, v float64) (float64, error) { return v, nil }
	text := func(_ context.Context, v string) (string, error) { return v, nil }
	s, _ := newSet(t,
		action.New("pay", func(context.Context, pay) (paid, error) { return paid{}, nil }, action.Effect(program.Write)),
		action.New("look", func(context.Context, look) (found, error) { return found{}, nil }, action.Effect(program.Read)),
		action.New("lost", func(context.Context, none) (none, error) { return none{}, nil }),
		action.New("open", func(_ context.Context, in map[string]expr.Value) (map[string]expr.Value, error) { return in, nil }),
		action.New("unused", func(context.Context, none) (none, error) { return none{}, nil }),
		action.NewValidator("positive", number), action.NewValidator("rounded", number),
		action.NewValidator("known", text), action.NewValidator("future", text),
	)
	p, err := program.Compile(program.File{Name: "pay.yaml", Text: []byte(contracts)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(p); err != nil {
		t.Error(err)
	}
}

func TestEveryDifferenceOfCodeAndContractIsAFindingAtItsPlace(t *testing.T) {
	type pay struct {
		Amount  string  `json:"amount"`
		Fee     float64 `json:"fee"`
		DueDate string  `json:"due_date" format:"date"`
	}
	type paid struct {
		Receipt string  `json:"receipt,omitempty"`
		Count   float64 `json:"count"`
	}
	type look struct {
		Amount int    `json:"amount"`
		IBAN   string `json:"iban"`
	}
	type found struct {
		Found *bool `json:"found"`
	}
	s, _ := newSet(t,
		action.New("pay", func(context.Context, pay) (paid, error) { return paid{}, nil }),
		action.New("look", func(context.Context, look) (found, error) { return found{}, nil }, action.Effect(program.Irreversible)),
		action.New("list", func(context.Context, none) (none, error) { return none{}, nil }),
		action.New("open", func(context.Context, none) (none, error) { return none{}, nil }),
		action.NewValidator("positiv", func(_ context.Context, v float64) (float64, error) { return v, nil }),
		action.NewValidator("rounded", func(_ context.Context, v int) (int, error) { return v, nil }),
		action.NewValidator("known", func(_ context.Context, v time.Time) (time.Time, error) { return v, nil }),
	)
	p, err := program.Compile(program.File{Name: "pay.yaml", Text: []byte(contracts)})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Check(p)
	var findings program.Findings
	if !errors.As(err, &findings) || len(findings.Errors()) != len(findings) {
		t.Fatalf("got %v", err)
	}
	want := strings.TrimSpace(`
pay.yaml:3:3: error: slot "amount" is of type number, and the code of its validator "rounded" takes the type integer; give both one type
pay.yaml:3:3: error: slot "amount": validator "positive" has no code; did you mean "positiv"?
pay.yaml:4:3: error: slot "due" is of type date, and the code of its validator "known" takes the type datetime; let it take a string
pay.yaml:6:3: error: action "pay": its code has no input "due"; known are amount, due_date, fee
pay.yaml:6:3: error: action "pay": its code has no output "note"; known are count, receipt
pay.yaml:6:3: error: action "pay": its code needs the input "due_date"; add it to inputs
pay.yaml:6:3: error: action "pay": the input "amount" is of type number here, and of type string in its code; give both one type
pay.yaml:6:3: error: action "pay": the input "fee" may be missing here, and its code needs it; write it without the ?, or make it optional there
pay.yaml:6:3: error: action "pay": the output "count" is of type integer here, and of type number in its code; give both one type
pay.yaml:6:3: error: action "pay": the output "receipt" may be missing, says its code; write "receipt?"
pay.yaml:9:3: error: action "look": its code needs the input "iban"; add it to inputs
pay.yaml:9:3: error: action "look": its effect is read here and irreversible in its code; write effect: irreversible
pay.yaml:9:3: error: action "look": the output "found" may be missing, says its code; write "found?"
pay.yaml:10:3: error: action "lost" has no code; did you mean "list"?
pay.yaml:11:3: error: action "open": its code has no input "anything"; remove it here, or take it there
pay.yaml:11:3: error: action "open": its code has no output "whatever"; remove it here, or return it there
pay.yaml:17:7: error: flow "payment", step "collect_2": slot "due": validator "future" has no code; known are known, positiv, rounded`)
	if got := err.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestActionsOfOldVersionsNeedOnlyBeThere(t *testing.T) {
	p, err := program.Compile(program.File{Name: "old.yaml", Text: []byte(`version: "1.0"
slots: {city: {type: string, prompt: "Where?"}}
flows:
  weather:
    description: The weather.
    process:
    - {step: ask, type: collect, slot: city}
    - {step: get, type: action, call: get_weather}
    - {step: look, type: action, call: get_moon}
`)})
	if err != nil {
		t.Fatal(err)
	}
	type city struct {
		City string `json:"city"`
	}
	s, _ := newSet(t, action.New("get_weather", func(context.Context, city) (none, error) { return none{}, nil }))
	err = s.Check(p)
	if want := `old.yaml:9:40: error: action "get_moon" has no code; known are get_weather`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
