package banking_test

import (
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/expr"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
)

func TestTheCodeFitsTheDialogues(t *testing.T) {
	p, err := program.Load(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	if err := code.Check(p); err != nil {
		t.Error(err)
	}
}

// The answers are those that the assistant's scenarios compare.
func TestAnswersAreFixed(t *testing.T) {
	for _, k := range []struct{ action, user, inputs, want string }{
		{"load_profile", "alice", `{}`, `{"customer_name":"Alice Johnson","tier":"premium"}`},
		{"load_profile", "std-bob", `{}`, `{"customer_name":"Bob Miller","tier":"standard"}`},
		{"get_balance", "", `{"account_type":"savings"}`, `{"balance":15230,"currency":"EUR"}`},
		{"get_balance", "", `{"account_type":"gold"}`, `not_found`},
		{"list_transactions", "", `{"account_type":"checking","transaction_period":"last week","page":2}`, `{"has_more":false,"transactions":["2024-11-19 Coffee bar -4.60"]}`},
		{"list_transactions", "", `{"account_type":"checking","transaction_period":"last month","page":9}`, `{"has_more":false,"transactions":[]}`},
		{"lookup_iban", "", `{"iban":"ES9121000418450200051332"}`, `{"bank_name":"ES-2100"}`},
		{"lookup_iban", "", `{"iban":"ES"}`, `invalid`},
		{"check_transfer_limits", "", `{"amount":10000}`, `{"code_required":false}`},
		{"check_transfer_limits", "", `{"amount":10000.01}`, `{"code_required":true}`},
		{"verify_security_code", "", `{"security_code":"000000"}`, `{"code_accepted":false}`},
		{"execute_transfer", "", `{"source_account":"checking","beneficiary_name":"Bob","iban":"ES","amount":3847.52}`, `{"transaction_id":"TRF-B31156B5"}`},
		{"execute_transfer", "", `{"source_account":"savings","beneficiary_name":"Bob","iban":"ES","amount":15230,"transfer_fee":0.01}`, `refused: the account does not hold this amount`},
		{"block_card", "", `{"card_type":"debit","card_last_4":"0042"}`, `{"block_id":"BLK-C0F03ACE"}`},
		{"order_card", "", `{"card_type":"debit","delivery_address":"1 High Street"}`, `{"request_id":"CARD-35958DE9"}`},
		{"lookup_bill", "", `{"bill_type":"water","bill_reference":"INV-2024-1"}`, `{"bill_amount":31.75,"bill_due":"2024-12-31","bill_found":true,"bill_issuer":"City Water"}`},
		{"lookup_bill", "", `{"bill_type":"water","bill_reference":"INV-2024-00000"}`, `{"bill_found":false}`},
		{"pay_bill", "", `{"bill_type":"water","bill_reference":"INV-2024-1","bill_amount":31.75}`, `{"payment_id":"PAY-DC50DA92"}`},
		{"cancel_payment", "", `{"payment_id":"PAY-00000000"}`, `not_found`},
		{"count_alerts", "", `{}`, `{"alert_total":3}`},
		{"get_alert", "", `{"alert_index":1}`, `{"alert_time":"2024-11-21T19:40:00Z","alert_title":"Large card payment"}`},
		{"get_alert", "", `{"alert_index":3}`, `not_found`},
	} {
		code, err := new(banking.Bank).Code()
		if err != nil {
			t.Fatal(err)
		}
		r := code.Do(action.WithCaller(t.Context(), action.Caller{User: k.user}), call(t, k.action, k.action+"/key", k.inputs))
		if got := text(t, r); got != k.want {
			t.Errorf("%s %s: got %s, want %s", k.action, k.inputs, got, k.want)
		}
	}
}

func TestAKeyIsGoodForOneEffect(t *testing.T) {
	b := new(banking.Bank)
	code, err := b.Code()
	if err != nil {
		t.Fatal(err)
	}
	pay := call(t, "pay_bill", "t/f/pay/1", `{"bill_type":"water","bill_reference":"INV-2024-1","bill_amount":31.75}`)
	first := text(t, code.Do(t.Context(), pay))
	if again := text(t, code.Do(t.Context(), pay)); again != first {
		t.Errorf("the same key gives %s, then %s", first, again)
	}
	if ledger := b.Ledger(); len(ledger) != 1 || ledger[0].Key != pay.ID || ledger[0].Action != "pay_bill" || string(ledger[0].Inputs) != `{"bill_type":"water","bill_reference":"INV-2024-1","bill_amount":31.75}` {
		t.Errorf("the ledger is %+v", ledger)
	}
	if got := text(t, code.Do(t.Context(), call(t, "cancel_payment", "t/f/back/1", first))); got != `{}` {
		t.Errorf("the payment can't be taken back: %s", got)
	}
	pay.ID = "t/f/pay/2"
	if other := text(t, code.Do(t.Context(), pay)); other == first || len(b.Ledger()) != 3 {
		t.Errorf("another key gives %s, and %d entries", other, len(b.Ledger()))
	}
}

func call(t *testing.T, name, key, inputs string) dialogue.ActionCall {
	t.Helper()
	c := dialogue.ActionCall{ID: key, Action: name, Inputs: map[string]expr.Value{}}
	if err := json.Unmarshal([]byte(inputs), &c.Inputs); err != nil {
		t.Fatal(err)
	}
	return c
}

func text(t *testing.T, r dialogue.Result) string {
	t.Helper()
	if r.Error != nil {
		return r.Error.Error()
	}
	data, err := json.Marshal(r.Outputs)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
