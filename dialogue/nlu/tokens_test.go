package nlu_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/nlu"
)

func TestTheEstimateIsRatherTooHigh(t *testing.T) {
	text, err := os.ReadFile("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums := [3]int{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		o200k, err1 := strconv.Atoi(fields[0])
		cl100k, err2 := strconv.Atoi(fields[1])
		words, err3 := strconv.Unquote(fields[2])
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(line, err1, err2, err3)
		}
		got := nlu.EstimateTokens(words)
		low, high := o200k*3/4, max(o200k, cl100k)*3/2+2
		if strings.Contains(words, `"type"`) { // of a prompt
			low, high = o200k, o200k*6/5
		}
		if got < low || got > high {
			t.Errorf("%d tokens estimated, not between %d and %d: %s", got, low, high, words)
		}
		sums[0], sums[1], sums[2] = sums[0]+o200k, sums[1]+cl100k, sums[2]+got
	}
	if sums[2] < sums[0] || sums[2] < sums[1] {
		t.Errorf("%d tokens estimated in all; by o200k_base there are %d, by cl100k_base %d", sums[2], sums[0], sums[1])
	}
}

// The prompt has at most 1,500 tokens with 10 flows and 2,000 with 1,000; -v prints the
// table of docs/dialogues.md.
func TestAPromptKeepsToItsBudget(t *testing.T) {
	t.Logf("%-28s %6s %8s %6s", "assistant", "flows", "offered", "tokens")
	check := func(name string, in dialogue.Understand, most, atLeast int) {
		t.Helper()
		n := tokens(t, in)
		o := offers(t, in)
		t.Logf("%-28s %6d %8d %6d", name, len(in.Flows), len(o.Flows), n)
		if n > most {
			t.Errorf("%s: %d tokens, more than %d", name, n, most)
		}
		if len(o.Flows) < atLeast {
			t.Errorf("%s: only %d of %d flows are offered", name, len(o.Flows), len(in.Flows))
		}
	}
	bank := load(t)
	check("banking, idle", after(t, bank, "Send 100 to Alice"), 2000, 11)
	check("banking, an amount is asked", after(t, bank, "five hundred, please", []dialogue.Command{start("transfer_funds"), toConfirm[1][0], toConfirm[1][1]}), 2000, 11)
	check("banking, at a confirm", after(t, bank, "no, make it 200", toConfirm...), 2000, 11)
	for _, n := range []int{10, 100, 1000} {
		p := compile(t, many(n))
		most := map[int]int{10: 1500, 100: 2000, 1000: 2000}[n]
		check("generated, idle", after(t, p, "I would like to renew my passport, please"), most, min(n, 10))
		check("generated, a value is asked", after(t, p, "and renew my passport", []dialogue.Command{start("cancel_parcel_at_home")}), most, min(n, 10))
	}
}

func TestABudgetOfOnesOwnIsKept(t *testing.T) {
	in := after(t, compile(t, many(1000)), "I would like to renew my passport, please")
	for _, budget := range []int{1000, 3000, 8000} {
		words := func(s string) int { return len(strings.Fields(s)) + len(s)/5 }
		req := request(t, in, nlu.Options{Budget: budget, Tokens: words})
		if n := nlu.CountTokens(req, words); n > budget || n < budget*8/10 {
			t.Errorf("budget %d: the prompt has %d tokens", budget, n)
		}
	}
	req := request(t, in, nlu.Options{Budget: 1})
	if got := strings.Count(req.Messages[1].Text(), `"flow":`); got != 3 {
		t.Errorf("%d flows are offered where there is no room, want 3", got)
	}
}

func TestTheFlowsThatFitBestAreOffered(t *testing.T) {
	p := compile(t, many(1000))
	for _, x := range []struct{ text, flow string }{
		{"I would like to renew my passport abroad", "renew_passport_abroad"},
		{"cancelling the gym membership for our company", "cancel_gym_membership_for_a_company"},
		{"Could you explain the invoices I got at home?", "explain_invoice_at_home"},
	} {
		got := offers(t, after(t, p, x.text)).Flows
		if !slices.Contains(got[:5], x.flow) {
			t.Errorf("%q: the first flows offered are %q, without %s", x.text, got[:5], x.flow)
		}
	}
	// Whatever the message is about, what is on the stack is offered, and its slots.
	o := offers(t, after(t, p, "I would like to renew my passport abroad", []dialogue.Command{start("return_donation_in_a_branch")}))
	if o.Flows[0] != "return_donation_in_a_branch" {
		t.Errorf("the first flow offered is %s, not the running one", o.Flows[0])
	}
}
