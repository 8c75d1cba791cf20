// Package banking is an assistant of a retail bank: its dialogues in YAML, and the code
// behind them. All answers are fixed, so that tests can compare them.
package banking

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Files are the assistant's dialogues.
//
//go:embed *.yaml
var Files embed.FS

// Bank runs the assistant's actions. Its zero value is ready; it may be used by any
// number of conversations at once.
type Bank struct {
	mu     sync.Mutex
	ledger []Entry
	done   map[string]dialogue.Result
}

// Entry is one thing that the bank did, once for each key.
type Entry struct {
	Key    string
	Action string
	Inputs map[string]expr.Value
}

// Ledger returns what the bank did, in order.
func (b *Bank) Ledger() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Entry(nil), b.ledger...)
}

// Actions returns the actions by name.
func (b *Bank) Actions() map[string]func(user string, call dialogue.ActionCall) dialogue.Result {
	actions := map[string]func(string, dialogue.ActionCall) dialogue.Result{}
	for name := range handlers {
		actions[name] = b.Act
	}
	return actions
}

// Act runs an action. One that changes something runs once for each key; asked again, it
// gives the answer that it gave.
func (b *Bank) Act(user string, call dialogue.ActionCall) dialogue.Result {
	h, ok := handlers[call.Action]
	if !ok {
		return dialogue.Result{ID: call.ID, Error: &dialogue.Failure{Type: "action_not_found"}}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.done[call.ID]; ok {
		return r
	}
	out, failure := h(b, user, call)
	r := dialogue.Result{ID: call.ID, Outputs: out, Error: failure}
	if failure == nil && call.Effect != program.Read {
		if b.done == nil {
			b.done = map[string]dialogue.Result{}
		}
		b.done[call.ID] = r
		b.ledger = append(b.ledger, Entry{Key: call.ID, Action: call.Action, Inputs: call.Inputs})
	}
	return r
}

type outputs = map[string]expr.Value

type handler func(b *Bank, user string, call dialogue.ActionCall) (outputs, *dialogue.Failure)

var balances = map[string]float64{"checking": 3847.52, "savings": 15230, "investment": 42150.75}

var handlers = map[string]handler{
	"load_profile": func(_ *Bank, user string, _ dialogue.ActionCall) (outputs, *dialogue.Failure) {
		if strings.HasPrefix(user, "std-") {
			return outputs{"customer_name": expr.Str("Bob Miller"), "tier": expr.Str("standard")}, nil
		}
		return outputs{"customer_name": expr.Str("Alice Johnson"), "tier": expr.Str("premium")}, nil
	},
	"get_balance": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		balance, ok := balances[text(call, "account_type")]
		if !ok {
			return nil, &dialogue.Failure{Type: "not_found"}
		}
		return outputs{"balance": expr.Num(balance), "currency": expr.Str("EUR")}, nil
	},
	"list_transactions": listTransactions,
	"lookup_iban": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		iban := text(call, "iban")
		if len(iban) < 8 {
			return nil, &dialogue.Failure{Type: "invalid"}
		}
		return outputs{"bank_name": expr.Str(iban[:2] + "-" + iban[4:8])}, nil
	},
	"check_transfer_limits": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"code_required": expr.Bool(number(call, "amount") > 10000)}, nil
	},
	"verify_security_code": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"code_accepted": expr.Bool(text(call, "security_code") != "000000")}, nil
	},
	"execute_transfer": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		sum := expr.Round(number(call, "amount"), 2) + expr.Round(number(call, "transfer_fee"), 2)
		if sum > balances[text(call, "source_account")] {
			return nil, &dialogue.Failure{Type: "refused", Message: "the account does not hold this amount"}
		}
		return outputs{"transaction_id": reference("TRF", call)}, nil
	},
	"block_card": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"block_id": reference("BLK", call)}, nil
	},
	"order_card": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"request_id": reference("CARD", call)}, nil
	},
	"lookup_bill": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		if strings.HasSuffix(text(call, "bill_reference"), "00000") {
			return outputs{"bill_found": expr.Bool(false)}, nil
		}
		bill, ok := bills[text(call, "bill_type")]
		if !ok {
			return outputs{"bill_found": expr.Bool(false)}, nil
		}
		return outputs{"bill_found": expr.Bool(true), "bill_issuer": expr.Str(bill.issuer), "bill_amount": expr.Num(bill.amount), "bill_due": expr.Str("2024-12-31")}, nil
	},
	"pay_bill": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"payment_id": reference("PAY", call)}, nil
	},
	"cancel_payment": func(b *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		for key, r := range b.done {
			if id, ok := r.Outputs["payment_id"]; ok && key != call.ID && id.Equal(call.Inputs["payment_id"]) {
				return nil, nil
			}
		}
		return nil, &dialogue.Failure{Type: "not_found"}
	},
	"count_alerts": func(*Bank, string, dialogue.ActionCall) (outputs, *dialogue.Failure) {
		return outputs{"alert_total": expr.Num(float64(len(alerts)))}, nil
	},
	"get_alert": func(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
		i := int(number(call, "alert_index"))
		if i < 0 || i >= len(alerts) {
			return nil, &dialogue.Failure{Type: "not_found"}
		}
		return outputs{"alert_title": expr.Str(alerts[i].title), "alert_time": expr.Str(alerts[i].at)}, nil
	},
}

var alerts = []struct{ title, at string }{
	{"Sign-in from a new device", "2024-11-20T08:15:00Z"},
	{"Large card payment", "2024-11-21T19:40:00Z"},
	{"Password change requested", "2024-11-22T06:05:00Z"},
}

var bills = map[string]struct {
	issuer string
	amount float64
}{
	"electricity": {"Northern Power", 84.30},
	"water":       {"City Water", 31.75},
	"gas":         {"Blue Flame Gas", 56.10},
	"internet":    {"Fibre & Co", 39.99},
}

var transactions = []string{
	"2024-11-22 Grocery store -54.20",
	"2024-11-21 Bus ticket -2.80",
	"2024-11-20 Salary 2450.00",
	"2024-11-19 Coffee bar -4.60",
	"2024-11-14 Bookshop -23.95",
	"2024-11-12 Pharmacy -11.40",
	"2024-11-08 Rent -890.00",
	"2024-11-05 Cinema -18.00",
	"2024-11-03 Refund 35.50",
	"2024-11-01 Insurance -72.15",
}

func listTransactions(_ *Bank, _ string, call dialogue.ActionCall) (outputs, *dialogue.Failure) {
	const size = 3
	list := transactions
	if text(call, "transaction_period") == "last week" {
		list = list[:4]
	}
	from := (int(number(call, "page")) - 1) * size
	if from < 0 || from > len(list) {
		from = len(list)
	}
	to := min(from+size, len(list))
	items := []expr.Value{}
	for _, t := range list[from:to] {
		items = append(items, expr.Str(t))
	}
	return outputs{"transactions": expr.ListOf(items...), "has_more": expr.Bool(to < len(list))}, nil
}

func text(call dialogue.ActionCall, name string) string { return call.Inputs[name].String() }

func number(call dialogue.ActionCall, name string) float64 {
	n, _ := call.Inputs[name].Num()
	return n
}

// reference makes a number for a paper out of the key alone.
func reference(prefix string, call dialogue.ActionCall) expr.Value {
	sum := sha256.Sum256([]byte(call.ID))
	return expr.Str(prefix + "-" + strings.ToUpper(hex.EncodeToString(sum[:4])))
}

// Validators are the assistant's validators by name.
var Validators = map[string]func(expr.Value) (kept expr.Value, reason string){
	"person_name": func(v expr.Value) (expr.Value, string) {
		s := strings.Join(strings.Fields(v.String()), " ")
		letters := 0
		for _, r := range s {
			switch {
			case unicode.IsLetter(r):
				letters++
			case unicode.Is(unicode.Mn, r), strings.ContainsRune(" -'.", r):
			default:
				return expr.Value{}, fmt.Sprintf("a name has no %q", r)
			}
		}
		if letters < 2 {
			return expr.Value{}, "a name has at least two letters"
		}
		return expr.Str(s), ""
	},
	"postal_address": func(v expr.Value) (expr.Value, string) {
		s := strings.Join(strings.Fields(v.String()), " ")
		switch {
		case len([]rune(s)) < 10:
			return expr.Value{}, "the address is too short"
		case !strings.ContainsAny(s, "0123456789"):
			return expr.Value{}, "the address has no house number"
		case !strings.Contains(s, " "):
			return expr.Value{}, "the address has only one word"
		}
		return expr.Str(s), ""
	},
	"bill_reference": func(v expr.Value) (expr.Value, string) {
		s := strings.ToUpper(strings.TrimSpace(v.String()))
		if !billReference.MatchString(s) {
			return expr.Value{}, "a reference looks like INV-2024-12345"
		}
		return expr.Str(s), ""
	},
}

var billReference = regexp.MustCompile(`^[A-Z]{2,5}-[0-9]{4}-[0-9]{1,8}$`)
