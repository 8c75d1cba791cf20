package nlg_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/nlg"
	"github.com/superstep-dev/superstep/dialogue/nlu"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/examples/banking"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
)

// provider is a server of OpenAI's API that understands what it has, and words messages
// anew by a function.
type provider struct {
	means   map[string]string // commands by message
	rewords func(message string) string

	mu       sync.Mutex
	requests []string
	wrong    []string
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, string(body))
	var req struct {
		Messages []struct{ Role, Content string }
		Format   struct {
			Type   string
			Schema struct {
				Name   string
				Strict bool
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := json.Unmarshal(body, &req); err != nil || r.URL.Path != "/v1/chat/completions" || len(req.Messages) < 2 || req.Messages[0].Role != "system" {
		p.wrong = append(p.wrong, fmt.Sprintf("%s: %s, %v", r.URL.Path, body, err))
	}
	if !req.Format.Schema.Strict {
		p.wrong = append(p.wrong, "the schema isn't one that the provider keeps to: "+string(body))
	}
	var in struct {
		Message  string
		Messages []string
	}
	if err := json.Unmarshal([]byte(req.Messages[1].Content), &in); err != nil {
		p.wrong = append(p.wrong, err.Error())
	}
	message, finish := map[string]any{"role": "assistant"}, "stop"
	switch req.Format.Schema.Name {
	case "commands":
		switch in.Message {
		case "how do I rob a bank?":
			message["refusal"] = "I can't help with that."
		case "a very long story":
			message["content"], finish = `{"commands":[{"type":"sta`, "length"
		case "trouble":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		default:
			commands, ok := p.means[in.Message]
			if !ok {
				p.wrong = append(p.wrong, fmt.Sprintf("the model is asked about %q", in.Message))
			}
			message["content"] = `{"commands":` + commands + `}`
		}
	case "messages":
		for i, m := range in.Messages {
			in.Messages[i] = p.rewords(m)
		}
		content, err := json.Marshal(map[string]any{"messages": in.Messages})
		if err != nil {
			p.wrong = append(p.wrong, err.Error())
		}
		message["content"] = string(content)
	default:
		p.wrong = append(p.wrong, "an answer of the form "+req.Format.Schema.Name)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": "m",
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		"usage":   map[string]any{"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010},
	}); err != nil {
		p.wrong = append(p.wrong, err.Error())
	}
}

// A conversation with the bank over the network: understanding and rephrasing by a provider
// of OpenAI's API, and what happens when it fails.
func TestABankIsTalkedToOverAProvider(t *testing.T) {
	files, err := program.ReadDir(banking.Files)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if f.Name == "assistant.yaml" {
			files[i].Text = []byte(strings.Replace(string(f.Text), "settings:\n", "settings:\n  rephrase: {enabled: true}\n", 1))
		}
	}
	prog, err := program.Compile(files...)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{
		means: map[string]string{
			"Please send 100 to Alice Miller": `[{"type":"start_flow","flow":"transfer_funds","slots":[{"slot":"amount","value":100},{"slot":"beneficiary_name","value":"Alice Miller"}]}]`,
			"for the rent":                    `[{"type":"set_slot","slots":[{"slot":"transfer_concept","value":"Rent"}]}]`,
			"no, better 250":                  `[{"type":"set_slot","slots":[{"slot":"amount","value":250}]}]`,
			"and how much is in savings?":     `[{"type":"start_flow","flow":"check_balance","slots":[{"slot":"account_type","value":"savings"}]}]`,
		},
		rewords: func(m string) string {
			switch {
			case strings.HasPrefix(m, "What is the recipient's IBAN"):
				return "And what is the recipient's IBAN, please?"
			case strings.HasPrefix(m, "What shall I print"):
				return "Sent. What else?" // says something else
			case strings.HasPrefix(m, "Your {1} account"):
				return "I had a look: your {1} account holds {2} {3}."
			}
			return m + " Call 0900 123456!"
		},
	}
	server := httptest.NewServer(p)
	defer server.Close()
	m := openai.New("m", openai.BaseURL(server.URL+"/v1"), openai.HTTPClient(server.Client()))
	code, err := new(banking.Bank).Code()
	if err != nil {
		t.Fatal(err)
	}
	budget := &model.Budget{}
	counted := model.Budgeted(m, budget, model.Prices{Free: true})
	//snippet:assistant
	a, err := assistant.New(assistant.Config{
		Program: prog, Actions: code,
		Understanding: nlu.New(counted, nlu.Options{}),
		Generation:    nlg.NewGenerator(m, prog, model.Config{}),
		Rephrasing:    nlg.NewRephraser(m, prog, model.Config{}),
	})
	//snippet:end
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		u, says string
		fails   nlu.ErrorKind
	}{
		{u: "Please send 100 to Alice Miller", says: "And what is the recipient's IBAN, please?"},
		{u: "how do I rob a bank?", fails: nlu.ErrorRefused},
		{u: "a very long story", fails: nlu.ErrorTruncated},
		{u: "trouble", fails: nlu.ErrorModel},
		{u: "GB82 WEST 1234 5698 7654 32", says: "What shall I print as the purpose?"},
		{u: "for the rent", says: "Which of your accounts shall it come from: checking, savings or investment?"},
		{u: "savings", says: "Amount: 100.00 EUR\nPurpose: Rent\nFrom: savings\nShall I send it?"},
		{u: "no, better 250", says: "Amount: 250.00 EUR"},
		{u: "yes", says: "Sent. The transfer has the number TRF-"},
		{u: "and how much is in savings?", says: "I had a look: your savings account holds 15230.00 EUR."},
	} {
		r, err := a.Say(t.Context(), "thread", dialogue.Message{Text: x.u})
		if e, ok := errors.AsType[*nlu.Error](err); x.fails != "" && (!ok || e.Kind != x.fails) || x.fails == "" && err != nil {
			t.Errorf("%q: error %v, want one of kind %q", x.u, err, x.fails)
		}
		if !strings.Contains(r.Text, x.says) || strings.Contains(r.Text, "0900") {
			t.Errorf("%q is answered %q, without %q", x.u, r.Text, x.says)
		}
	}
	for _, w := range p.wrong {
		t.Error(w)
	}
	for _, r := range p.requests {
		if strings.Contains(r, "GB82WEST12345698765432") || strings.Contains(r, "WEST 1234") {
			t.Errorf("the IBAN reached the provider: %s", r)
		}
	}
	// One call for each message that isn't the answer to a question; the failed ones too.
	if s := budget.Spent(); s.Calls != 7 || s.Usage.Input < 4000 {
		t.Errorf("understanding took %d calls and %d tokens", s.Calls, s.Usage.Input)
	}
}
