package program_test

import (
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func TestOldSpellingsMeanWhatTheNewOnesMean(t *testing.T) {
	p, err := program.Compile(program.File{Name: "soni.yaml", Text: []byte(`version: "1.0"
settings:
  flow_management: {max_stack_depth: 5, on_limit_reached: reject_new}
  memory_management: {max_history_messages: 20}
conversation_patterns:
  human_handoff: {queue: desk}
slots:
  - {name: origin, type: text, prompt: "Where from?"}
  - {name: seats, type: int, prompt: "How many?"}
  - {name: sure, type: bool}
responses:
  bye: {default: Bye., variations: [See you., Ciao.]}
flows:
  book_flight:
    description: Book a flight.
    trigger: {intents: ["Book a flight"]}
    process:
    - {step: where, type: collect, slot: origin}
    - {step: many, type: collect, slot: seats}
    - {step: search, type: action, call: search_flights, map_outputs: {}}
    - {step: which, type: branch, slot: seats, cases: {">9": __end__, default: ask}}
    - {step: ask, type: confirm, slot: sure, message: "{seats} from {origin}?", on_confirm: done, on_deny: cancel_flow}
    - {step: done, type: say, response: bye, jump_to: end}
`)})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Settings; s.StackDepth != 5 || s.StackOnLimit != "reject_new" || s.HistoryMessages != 20 || p.Patterns.Queue != "desk" {
		t.Errorf("settings %+v, queue %q", s, p.Patterns.Queue)
	}
	if p.Slots["seats"].Type != program.Integer || len(p.Responses["bye"].Entries) != 3 {
		t.Errorf("slot %+v, response %+v", p.Slots["seats"], p.Responses["bye"])
	}
	step, _ := p.Flows["book_flight"].Step("ask")
	c, ok := step.Body.(*program.Confirm)
	if !ok || len(c.Slots) != 2 || c.Store != "sure" || c.OnNo.Kind != program.ToCancel {
		t.Errorf("confirm %+v", step.Body)
	}
}
