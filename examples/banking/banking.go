// Package banking is an assistant of a retail bank: its dialogues in YAML, and the code
// behind them. All answers are fixed, so that tests can compare them.
package banking

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// Files are the assistant's dialogues.
//
//go:embed *.yaml
var Files embed.FS

//go:embed demo/patterns.yaml
var patterns []byte

// Patterns understand what customers say in English and German by its form, without a
// model: well enough for a demonstration.
func Patterns() (*nlu.Patterns, error) { return nlu.ParsePatterns(patterns) }

// Bank is what the assistant's actions work on. Its zero value is ready; it may be used by
// any number of conversations at once.
type Bank struct {
	mu     sync.Mutex
	ledger []Entry
	done   map[string]any // outputs by key
}

// Entry is one thing that the bank did, once for each key.
type Entry struct {
	Key    string
	Action string
	Inputs json.RawMessage
}

// Ledger returns what the bank did, in order.
func (b *Bank) Ledger() []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ledger)
}

// Code returns the assistant's actions and validators.
func (b *Bank) Code() (*action.Set, error) {
	return action.NewSet(
		action.New("load_profile", loadProfile, action.Effect(program.Read)),
		action.New("get_balance", getBalance, action.Effect(program.Read)),
		action.New("list_transactions", listTransactions, action.Effect(program.Read)),
		action.New("lookup_iban", lookupIBAN, action.Effect(program.Read)),
		action.New("check_transfer_limits", checkTransferLimits, action.Effect(program.Read)),
		once(b, "verify_security_code", program.Write, verifySecurityCode),
		once(b, "execute_transfer", program.Irreversible, executeTransfer),
		once(b, "block_card", program.Irreversible, blockCard),
		once(b, "order_card", program.Irreversible, orderCard),
		action.New("lookup_bill", lookupBill, action.Effect(program.Read)),
		once(b, "pay_bill", program.Irreversible, payBill),
		once(b, "cancel_payment", program.Write, b.cancelPayment),
		action.New("count_alerts", countAlerts, action.Effect(program.Read)),
		action.New("get_alert", getAlert, action.Effect(program.Read)),
		action.NewValidator("person_name", personName),
		action.NewValidator("postal_address", postalAddress),
		action.NewValidator("bill_reference", checkBillReference),
	)
}

// once makes an action that changes something: it runs once for each key, and asked again
// it gives the answer that it gave.
func once[In, Out any](b *Bank, name string, effect program.Effect, fn func(context.Context, In) (Out, error)) *action.Action {
	return action.New(name, func(ctx context.Context, in In) (Out, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		key := action.CallOf(ctx).ID
		if out, ok := b.done[key].(Out); ok {
			return out, nil
		}
		out, err := fn(ctx, in)
		if err != nil {
			return out, err
		}
		inputs, err := json.Marshal(in)
		if err != nil {
			return out, err
		}
		if b.done == nil {
			b.done = map[string]any{}
		}
		b.done[key] = out
		b.ledger = append(b.ledger, Entry{Key: key, Action: name, Inputs: inputs})
		return out, nil
	}, action.Effect(effect))
}

type none struct{}

type profile struct {
	CustomerName string `json:"customer_name"`
	Tier         string `json:"tier"`
}

func loadProfile(ctx context.Context, _ none) (profile, error) {
	if strings.HasPrefix(action.CallOf(ctx).User, "std-") {
		return profile{"Bob Miller", "standard"}, nil
	}
	return profile{"Alice Johnson", "premium"}, nil
}

var balances = map[string]float64{"checking": 3847.52, "savings": 15230, "investment": 42150.75}

type account struct {
	AccountType string `json:"account_type"`
}

type balance struct {
	Balance  float64 `json:"balance"`
	Currency string  `json:"currency"`
}

func getBalance(_ context.Context, in account) (balance, error) {
	amount, ok := balances[in.AccountType]
	if !ok {
		return balance{}, &dialogue.Failure{Type: "not_found"}
	}
	return balance{amount, "EUR"}, nil
}

type iban struct {
	IBAN string `json:"iban"`
}

type bank struct {
	BankName string `json:"bank_name"`
}

func lookupIBAN(_ context.Context, in iban) (bank, error) {
	if len(in.IBAN) < 8 {
		return bank{}, &dialogue.Failure{Type: "invalid"}
	}
	return bank{in.IBAN[:2] + "-" + in.IBAN[4:8]}, nil
}

type amount struct {
	Amount float64 `json:"amount"`
}

type limits struct {
	CodeRequired bool `json:"code_required"`
}

func checkTransferLimits(_ context.Context, in amount) (limits, error) {
	return limits{in.Amount > 10000}, nil
}

type code struct {
	SecurityCode string `json:"security_code"`
}

type verdict struct {
	CodeAccepted bool `json:"code_accepted"`
}

func verifySecurityCode(_ context.Context, in code) (verdict, error) {
	return verdict{in.SecurityCode != "000000"}, nil
}

type transfer struct {
	SourceAccount   string  `json:"source_account"`
	BeneficiaryName string  `json:"beneficiary_name"`
	IBAN            string  `json:"iban"`
	Amount          float64 `json:"amount"`
	TransferConcept string  `json:"transfer_concept,omitempty"`
	TransferFee     float64 `json:"transfer_fee,omitempty"`
}

type transferred struct {
	TransactionID string `json:"transaction_id"`
}

func executeTransfer(ctx context.Context, in transfer) (transferred, error) {
	if expr.Round(in.Amount, 2)+expr.Round(in.TransferFee, 2) > balances[in.SourceAccount] {
		return transferred{}, &dialogue.Failure{Type: "refused", Message: "the account does not hold this amount"}
	}
	return transferred{reference(ctx, "TRF")}, nil
}

type card struct {
	CardType  string `json:"card_type"`
	CardLast4 string `json:"card_last_4"`
}

type blocked struct {
	BlockID string `json:"block_id"`
}

func blockCard(ctx context.Context, _ card) (blocked, error) {
	return blocked{reference(ctx, "BLK")}, nil
}

type newCard struct {
	CardType        string `json:"card_type"`
	DeliveryAddress string `json:"delivery_address"`
}

type ordered struct {
	RequestID string `json:"request_id"`
}

func orderCard(ctx context.Context, _ newCard) (ordered, error) {
	return ordered{reference(ctx, "CARD")}, nil
}

type bill struct {
	BillType      string `json:"bill_type"`
	BillReference string `json:"bill_reference"`
}

type billFound struct {
	BillFound  bool    `json:"bill_found"`
	BillIssuer string  `json:"bill_issuer,omitempty"`
	BillAmount float64 `json:"bill_amount,omitempty"`
	BillDue    string  `json:"bill_due,omitempty" format:"date"`
}

func lookupBill(_ context.Context, in bill) (billFound, error) {
	b, ok := bills[in.BillType]
	if !ok || strings.HasSuffix(in.BillReference, "00000") {
		return billFound{}, nil
	}
	return billFound{BillFound: true, BillIssuer: b.issuer, BillAmount: b.amount, BillDue: "2024-12-31"}, nil
}

type payment struct {
	BillType      string  `json:"bill_type"`
	BillReference string  `json:"bill_reference"`
	BillAmount    float64 `json:"bill_amount"`
}

type paid struct {
	PaymentID string `json:"payment_id"`
}

func payBill(ctx context.Context, _ payment) (paid, error) {
	return paid{reference(ctx, "PAY")}, nil
}

func (b *Bank) cancelPayment(_ context.Context, in paid) (none, error) {
	for _, out := range b.done {
		if out == any(in) {
			return none{}, nil
		}
	}
	return none{}, &dialogue.Failure{Type: "not_found"}
}

type alertCount struct {
	AlertTotal int `json:"alert_total"`
}

func countAlerts(context.Context, none) (alertCount, error) {
	return alertCount{len(alerts)}, nil
}

type alertIndex struct {
	AlertIndex int `json:"alert_index"`
}

type alert struct {
	AlertTitle string    `json:"alert_title"`
	AlertTime  time.Time `json:"alert_time"`
}

func getAlert(_ context.Context, in alertIndex) (alert, error) {
	if in.AlertIndex < 0 || in.AlertIndex >= len(alerts) {
		return alert{}, &dialogue.Failure{Type: "not_found"}
	}
	return alerts[in.AlertIndex], nil
}

var alerts = []alert{
	{"Sign-in from a new device", time.Date(2024, 11, 20, 8, 15, 0, 0, time.UTC)},
	{"Large card payment", time.Date(2024, 11, 21, 19, 40, 0, 0, time.UTC)},
	{"Password change requested", time.Date(2024, 11, 22, 6, 5, 0, 0, time.UTC)},
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

type period struct {
	AccountType       string `json:"account_type"`
	TransactionPeriod string `json:"transaction_period"`
	Page              int    `json:"page"`
}

type transactionPage struct {
	Transactions []string `json:"transactions"`
	HasMore      bool     `json:"has_more"`
}

func listTransactions(_ context.Context, in period) (transactionPage, error) {
	const size = 3
	list := transactions
	if in.TransactionPeriod == "last week" {
		list = list[:4]
	}
	from := (in.Page - 1) * size
	if from < 0 || from > len(list) {
		from = len(list)
	}
	to := min(from+size, len(list))
	return transactionPage{list[from:to], to < len(list)}, nil
}

// reference makes a number for a paper out of the key alone.
func reference(ctx context.Context, prefix string) string {
	sum := sha256.Sum256([]byte(action.CallOf(ctx).ID))
	return prefix + "-" + strings.ToUpper(hex.EncodeToString(sum[:4]))
}

func personName(_ context.Context, v string) (string, error) {
	s := strings.Join(strings.Fields(v), " ")
	letters := 0
	for _, r := range s {
		switch {
		case unicode.IsLetter(r):
			letters++
		case unicode.Is(unicode.Mn, r), strings.ContainsRune(" -'.", r):
		default:
			return "", action.Refusal(fmt.Sprintf("a name has no %q", r))
		}
	}
	if letters < 2 {
		return "", action.Refusal("a name has at least two letters")
	}
	return s, nil
}

func postalAddress(_ context.Context, v string) (string, error) {
	s := strings.Join(strings.Fields(v), " ")
	switch {
	case len([]rune(s)) < 10:
		return "", action.Refusal("the address is too short")
	case !strings.ContainsAny(s, "0123456789"):
		return "", action.Refusal("the address has no house number")
	case !strings.Contains(s, " "):
		return "", action.Refusal("the address has only one word")
	}
	return s, nil
}

var billReference = regexp.MustCompile(`^[A-Z]{2,5}-[0-9]{4}-[0-9]{1,8}$`)

func checkBillReference(_ context.Context, v string) (string, error) {
	s := strings.ToUpper(strings.TrimSpace(v))
	if !billReference.MatchString(s) {
		return "", action.Refusal("a reference looks like INV-2024-12345")
	}
	return s, nil
}
