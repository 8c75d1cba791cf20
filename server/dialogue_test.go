package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/dialogue"
	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/assistant"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/expr"
	flows "github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/server"
)

// opera is an assistant that sells seats.
const opera = `
version: "2.0"
name: opera
languages: {default: en, also: [de]}
slots:
  seats: {type: integer, minimum: 1, maximum: 8, ask: {text: "How many seats?", de: "Wie viele Plätze?"}}
  card:  {type: string, sensitive: true, validate: card_number, ask: {text: "Which card?", de: "Welche Karte?"}}
  guest: {type: string, ask: {text: "Who comes?"}}
  whose: {type: string}
actions:
  sell:  {effect: irreversible, inputs: [seats, card], outputs: {order: string}}
  whoami: {effect: read, inputs: [], outputs: {whose: string}}
flows:
  buy:
    description: Buy seats.
    steps:
    - collect: seats
    - collect: card
    - {confirm: [seats, card], ask: {text: "{seats} seats by {card}?", buttons: [{label: "Buy", commands: [{type: affirm}]}]}}
    - action: sell
    - say: {text: "Sold: {order}."}
    - say: {text: "Enjoy it."}
  identify:
    description: Say who I am.
    steps:
    - action: whoami
    - say: {text: "You are {whose}."}
  invite:
    description: Invite somebody.
    steps:
    - {collect: guest, deadline: 300ms, on_deadline: late}
    - {say: {text: "{guest} is invited."}, next: end}
    - {step: late, say: {text: "Too late."}}
`

// boxOffice is the code of the opera.
type boxOffice struct {
	mu    sync.Mutex
	calls []action.Call
	sell  func(ctx context.Context) error // before it sells; nil: nothing
}

func (o *boxOffice) code(t testing.TB) *action.Set {
	t.Helper()
	type sale struct {
		Seats int    `json:"seats"`
		Card  string `json:"card"`
	}
	type sold struct {
		Order string `json:"order"`
	}
	type self struct {
		Whose string `json:"whose"`
	}
	set, err := action.NewSet(
		action.New("sell", func(ctx context.Context, in sale) (sold, error) {
			o.mu.Lock()
			o.calls = append(o.calls, action.CallOf(ctx))
			sell := o.sell
			o.mu.Unlock()
			if sell != nil {
				if err := sell(ctx); err != nil {
					return sold{}, err
				}
			}
			return sold{fmt.Sprintf("T-%d", in.Seats)}, nil
		}, action.Effect(flows.Irreversible)),
		action.New("whoami", func(ctx context.Context, _ struct{}) (self, error) {
			return self{action.CallOf(ctx).User}, nil
		}, action.Effect(flows.Read)),
		action.NewValidator("card_number", func(_ context.Context, v string) (string, error) {
			if len(v) < 8 {
				return "", action.Refusal("that is too short for a card")
			}
			return v, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (o *boxOffice) keys() (keys []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.calls {
		keys = append(keys, c.ID)
	}
	return keys
}

// hears understands a few sentences.
type hears struct{}

var errDown = errors.New("model gpt-x at 10.0.0.7: 401 wrong key sk-123")

func (hears) Understand(_ context.Context, in dialogue.Understand) ([]dialogue.Command, error) {
	text := in.Message.Text
	for say, flow := range map[string]string{"Two seats, please": "buy", "Who am I?": "identify", "Invite somebody": "invite"} {
		if text == say {
			return []dialogue.Command{{Type: dialogue.StartFlow, Flow: flow}}, nil
		}
	}
	if card, ok := strings.CutPrefix(text, "by card "); ok {
		return []dialogue.Command{{Type: dialogue.SetSlot, Slot: "card", Value: expr.Str(card)}}, nil
	}
	if guest, ok := strings.CutPrefix(text, "guest "); ok {
		return []dialogue.Command{{Type: dialogue.SetSlot, Slot: "guest", Value: expr.Str(guest)}}, nil
	}
	if text == "mumble" {
		return nil, errDown
	}
	return nil, nil
}

func (o *boxOffice) assistant(t testing.TB) *assistant.Assistant {
	t.Helper()
	p, err := flows.Compile(flows.File{Name: "opera.yaml", Text: []byte(opera)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := assistant.New(assistant.Config{Program: p, Actions: o.code(t), Understanding: hears{}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// operaAt serves the opera.
func operaAt(t testing.TB, o *boxOffice, opts ...server.Option) client {
	t.Helper()
	return start(t, append([]server.Option{server.Dialogue(o.assistant(t))}, opts...)...)
}

// say has a user say something, and returns the reply.
func (c client) say(user, text string) object {
	c.t.Helper()
	return call[object](c, "POST", "/chat", object{"user_id": user, "message": text})
}

func TestAUserTalksOverHTTP(t *testing.T) {
	o := &boxOffice{}
	c := operaAt(t, o)
	first := c.say("u-1", "Two seats, please")
	for name, want := range map[string]any{
		"user_id": "u-1", "response": "How many seats?", "flow_state": "waiting_for_slot", "active_flow": "buy", "turn_count": 1.0, "language": "en",
	} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	if w := first["waiting"].(object); w["type"] != "collect" || w["slot"] != "seats" || w["step"] != "collect_1" || w["id"] == "" {
		t.Errorf("it waits for %v", w)
	}
	c.say("u-1", "2")
	if got := c.say("u-1", "by card 12")["response"]; got != "Invalid value: that is too short for a card\nWhich card?" {
		t.Errorf("a bad card: %v", got)
	}
	asked := c.say("u-1", "by card 4000123412341234")
	if asked["response"] != "2 seats by 4000123412341234?" {
		t.Fatalf("asked: %v", asked["response"])
	}
	button := asked["messages"].([]any)[0].(object)["options"].([]any)[0].(object)
	done := call[object](c, "POST", "/chat", object{"user_id": "u-1", "commands": button["commands"], "question": asked["waiting"].(object)["id"], "message_id": "m-buy"})
	if done["response"] != "Sold: T-2.\nEnjoy it." || done["message_id"] != "m-buy" || done["active_flow"] != nil || done["waiting"] != nil || done["flow_state"] != "completed" {
		t.Errorf("sold: %v", done)
	}
	if n := len(done["messages"].([]any)); n != 2 {
		t.Errorf("%d messages", n)
	}
	if keys := o.keys(); len(keys) != 1 {
		t.Errorf("sold %d times: %v", len(keys), keys)
	}
	// In another language, and by another channel, in a path of its own.
	if got := call[object](c, "POST", "/chat/u-2", object{"message": "Two seats, please", "language": "de", "channel": "voice"}); got["response"] != "Wie viele Plätze?" || got["language"] != "de" {
		t.Errorf("in German: %v", got)
	}
}

func TestAMessageSentTwiceIsAnsweredOnce(t *testing.T) {
	o := &boxOffice{}
	c := operaAt(t, o)
	c.say("u-1", "Two seats, please")
	c.say("u-1", "2")
	c.say("u-1", "by card 4000123412341234")
	yes := object{"user_id": "u-1", "message": "yes", "message_id": "m-7"}
	first := call[object](c, "POST", "/chat", yes)
	again := call[object](c, "POST", "/chat", yes)
	if fmt.Sprint(first) != fmt.Sprint(again) || len(o.keys()) != 1 {
		t.Errorf("first %v\nthen %v\nsold %v", first, again, o.keys())
	}
}

//
func TestSensitiveValuesAreMaskedInTheState(t *testing.T) {
	c := operaAt(t, &boxOffice{})
	c.say("u-1", "Two seats, please")
	c.say("u-1", "2")
	c.say("u-1", "by card 4000123412341234")
	status, _, text := c.do("GET", "/state/u-1", nil)
	if status != 200 || strings.Contains(text, "4000123412341234") {
		t.Fatalf("%d %s", status, text)
	}
	var s object
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if slots := s["slots"].(object); slots["card"] != "************1234" || slots["seats"] != 2.0 {
		t.Errorf("slots: %v", slots)
	}
	for name, want := range map[string]any{
		"user_id": "u-1", "flow_state": "confirming", "active_flow": "buy", "current_step": "confirm_3", "waiting_for_slot": "confirm:confirm_3",
		"turn_count": 3.0, "last_response": "2 seats by ************1234?", "error": nil,
	} {
		if s[name] != want {
			t.Errorf("%s is %v, want %v", name, s[name], want)
		}
	}
	if n := len(s["messages"].([]any)); n != 6 {
		t.Errorf("%d messages: %v", n, s["messages"])
	}
}

var reference = regexp.MustCompile(`ERR-[0-9A-F]{8}$`)

// Each route, with a conversation in each state, and with what is wrong in each way.
func TestRoutesOfTheDialogue(t *testing.T) {
	c := operaAt(t, &boxOffice{}, server.MaxBody(20_000))
	states := map[string]struct {
		says    []string
		deleted bool
		state   string // "": there is none
	}{
		"new":     {},
		"known":   {says: []string{"hello"}, state: "fallback"},
		"waiting": {says: []string{"Two seats, please"}, state: "waiting_for_slot"},
		"ended":   {says: []string{"Who am I?"}, state: "completed"},
		"deleted": {says: []string{"Two seats, please"}, deleted: true},
	}
	bad := []struct {
		what   string
		body   any
		status int
		text   string
	}{
		{"no body", nil, 422, "the body must be an object with user_id and message"},
		{"no JSON", `{"message"`, 400, "body is not JSON as expected: unexpected end of JSON input"},
		{"a list", `[]`, 422, "the body must be an object with user_id and message"},
		{"no message", object{}, 422, "message is required, or commands"},
		{"an empty message", object{"message": ""}, 422, "message must not be empty"},
		{"a blank message", object{"message": " \n"}, 422, "message must not be empty"},
		{"a message that is a number", object{"message": 5}, 422, "message must not be a JSON number"},
		{"a zero character", object{"message": "a\x00b"}, 422, "message must not have zero characters"},
		{"a misspelt member", object{"mesage": "hi"}, 422, `there is no "mesage" in a message; did you mean message?`},
		{"the time", object{"message": "hi", "time": "2030-01-01T00:00:00Z"}, 422, `there is no "time" in a message`},
		{"commands that are none", object{"commands": "affirm"}, 422, "commands must not be a JSON string"},
		{"a command without a type", object{"commands": []any{object{"slot": "seats"}}}, 422, `commands[0].type: there is no command ""`},
		{"an unknown command", object{"commands": []any{object{"type": "affirm"}, object{"type": "pay"}}}, 422, `commands[1].type: there is no command "pay"`},
		{"a long ID", object{"message": "hi", "message_id": strings.Repeat("m", 1001)}, 422, "message_id is longer than 1000 bytes"},
		{"too much", object{"message": strings.Repeat("m", 30_000)}, 413, "body is larger than 20000 bytes"},
		{"depth", `{"message": "hi", "commands": ` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, 422, "body is nested too deeply: more than 200 levels"},
	}
	for name, s := range states {
		t.Run(name, func(t *testing.T) {
			c := client{t, c.url}
			user := "user of " + name
			for _, text := range s.says {
				c.say(user, text)
			}
			if s.deleted {
				call[object](c, "DELETE", "/state/"+strings.ReplaceAll(user, " ", "%20"), nil)
			}
			path := strings.ReplaceAll(user, " ", "%20")
			before := func() (int, string) {
				status, _, text := c.do("GET", "/state/"+path, nil)
				return status, text
			}
			status, was := before()
			if s.state == "" {
				if status != 404 || was != `{"detail":"There is no conversation with user_id \"`+user+`\""}` {
					t.Errorf("GET: %d %s", status, was)
				}
				if status, _, text := c.do("DELETE", "/state/"+path, nil); status != 404 {
					t.Errorf("DELETE: %d %s", status, text)
				}
			} else if status != 200 || !strings.Contains(was, `"flow_state":"`+s.state+`"`) {
				t.Errorf("GET: %d %s", status, was)
			}
			for _, b := range bad {
				for _, route := range []string{"/chat", "/chat/" + path, "/chat/" + path + "/stream"} {
					body, text := b.body, b.text
					if o, ok := body.(object); ok && route == "/chat" {
						with := object{"user_id": user}
						for k, v := range o {
							with[k] = v
						}
						body = with
					}
					status, h, answer := c.do("POST", route, body)
					var told struct{ Detail string }
					if err := json.Unmarshal([]byte(answer), &told); err != nil || h.Get("Content-Type") != "application/json" {
						t.Errorf("%s to %s: %d %s: %q", b.what, route, status, h.Get("Content-Type"), answer)
					}
					if status != b.status || told.Detail != text {
						t.Errorf("%s to %s: %d %q, want %d %q", b.what, route, status, told.Detail, b.status, text)
					}
				}
			}
			if status, after := before(); s.state != "" && (status != 200 || after != was) {
				t.Errorf("bad input changed the state:\n%s\n%s", was, after)
			}
			// Whatever the state, a message is answered, and the state can be removed.
			if r := c.say(user, "Two seats, please"); r["response"] != "How many seats?" {
				t.Errorf("then: %v", r)
			}
			for range 2 {
				status, _, _ = c.do("DELETE", "/state/"+path, nil)
				if want := map[bool]int{true: 204, false: 404}[was != "gone"]; status != want {
					t.Errorf("DELETE: %d, want %d", status, want)
				}
				was = "gone"
			}
		})
	}
	for _, user := range []struct{ id, text string }{
		{"", "user_id is required"}, {" ", "user_id is blank"}, {strings.Repeat("u", 257), "user_id is longer than 256 bytes"}, {"a\nb", "user_id must be text without control characters"},
	} {
		status, _, text := c.do("POST", "/chat", object{"user_id": user.id, "message": "hi"})
		if want := `{"detail":"` + user.text + `"}`; status != 422 || text != want {
			t.Errorf("user %q: %d %s", user.id, status, text)
		}
	}
	if status, _, text := c.do("POST", "/chat/u-1/stream", object{"user_id": "u-2", "message": "hi"}); status != 422 || !strings.Contains(text, "user_id is another one than in the path") {
		t.Errorf("two users: %d %s", status, text)
	}
	for path, want := range map[string]string{
		"/health": `"status":"healthy"`, "/ready": `{"ready":true}`, "/startup": `{"started":true}`, "/version": `"assistant":"opera"`,
	} {
		if status, _, text := c.do("GET", path, nil); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, wrong := range []string{"GET /chat", "PUT /state/u-1", "POST /health"} {
		method, path, _ := strings.Cut(wrong, " ")
		if status, _, _ := c.do(method, path, nil); status != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", wrong, status)
		}
	}
}

func TestAServerWithoutADialogueHasNoneOfItsRoutes(t *testing.T) {
	c := start(t, server.Graph(booking(t)))
	for _, route := range []string{"POST /chat", "POST /chat/u-1/stream", "GET /state/u-1", "GET /health", "GET /version"} {
		method, path, _ := strings.Cut(route, " ")
		if status, _, _ := c.do(method, path, object{"user_id": "u-1", "message": "hi"}); status != http.StatusNotFound {
			t.Errorf("%s: %d", route, status)
		}
	}
	a := new(boxOffice).assistant(t)
	if _, err := server.New(t.Context(), server.Dialogue(a), server.Dialogue(a)); err == nil || !strings.Contains(err.Error(), "server.Graph(a.Graph())") {
		t.Errorf("two dialogues: %v", err)
	}
	if _, err := server.New(t.Context(), server.Dialogue(nil)); err == nil {
		t.Error("no dialogue is one")
	}
}

// T-17: what failed is told without its text, and loses nothing.
func TestAMessageThatIsNotUnderstoodCountsAsNotSent(t *testing.T) {
	var log bytes.Buffer
	c := operaAt(t, &boxOffice{}, server.Logger(slog.New(slog.NewTextHandler(&log, nil))))
	c.say("u-1", "Two seats, please")
	_, _, was := c.do("GET", "/state/u-1", nil)
	status, h, text := c.do("POST", "/chat", object{"user_id": "u-1", "message": "mumble"})
	var told struct{ Detail string }
	_ = json.Unmarshal([]byte(text), &told)
	if status != 503 || h.Get("Retry-After") == "" || !strings.HasPrefix(told.Detail, "The message could not be understood just now, and counts as not sent. Please send it again. Reference: ERR-") || strings.Contains(text, "sk-123") {
		t.Errorf("%d %v %s", status, h, text)
	}
	if ref := reference.FindString(told.Detail); ref == "" || !strings.Contains(log.String(), ref) || !strings.Contains(log.String(), "wrong key") {
		t.Errorf("the log doesn't say why:\n%s", log.String())
	}
	events := c.stream("u-1", object{"message": "mumble"})
	if last := events[len(events)-1]; last["type"] != "error" || last["status"] != 503.0 || strings.Contains(fmt.Sprint(last), "sk-123") {
		t.Errorf("the stream ends with %v", last)
	}
	_, _, is := c.do("GET", "/state/u-1", nil)
	var a, b object
	_ = json.Unmarshal([]byte(was), &a)
	_ = json.Unmarshal([]byte(is), &b)
	for _, name := range []string{"turn_count", "messages", "waiting_for_slot", "slots", "last_response"} {
		if fmt.Sprint(a[name]) != fmt.Sprint(b[name]) {
			t.Errorf("%s was %v and is %v", name, a[name], b[name])
		}
	}
	if r := c.say("u-1", "2"); r["response"] != "Which card?" {
		t.Errorf("then: %v", r)
	}
}

// stream has a user say something, and returns what is told.
func (c client) stream(user string, body object) (events []object) {
	c.t.Helper()
	data, _ := json.Marshal(body)
	resp, err := http.Post(c.url+"/chat/"+user+"/stream", "application/json", bytes.NewReader(data))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e object
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				c.t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	return events
}

func TestAStreamTellsWhatHappensInATurn(t *testing.T) {
	c := operaAt(t, &boxOffice{})
	var happened []string
	for _, text := range []string{"Two seats, please", "2", "by card 4000123412341234", "yes"} {
		happened = nil
		said := ""
		for _, e := range c.stream("u-1", object{"message": text, "message_id": "m of " + text}) {
			switch e["type"] {
			case "token":
				said += e["content"].(string)
			case "start", "done":
				happened = append(happened, e["type"].(string))
				if e["message_id"] != "m of "+text || e["user_id"] != "u-1" {
					t.Errorf("%v", e)
				}
				if e["type"] == "done" && e["response"] != said {
					t.Errorf("tokens %q, response %q", said, e["response"])
				}
			default:
				happened = append(happened, fmt.Sprint(e["type"], " ", e["name"], " ", e["status"]))
				if text == "by card 4000123412341234" && strings.Contains(fmt.Sprint(e), "4000") {
					t.Errorf("the stream shows the card: %v", e)
				}
			}
		}
		if text == "by card 4000123412341234" && !slices.Contains(happened, "validator card_number completed") {
			t.Errorf("no validator: %q", happened)
		}
	}
	want := []string{
		"start", "node understand started", "node understand completed", "node validate_slot started", "node validate_slot completed",
		"node execute_action started", "action sell started", "action sell completed", "node execute_action completed",
		"node generate_response started", "node generate_response completed", "done",
	}
	if !slices.Equal(happened, want) {
		t.Errorf("it happened:\n%q, want\n%q", happened, want)
	}
}

// A turn goes on when its client leaves, and the reply is there for who comes back.
func TestATurnOutlivesItsClient(t *testing.T) {
	for _, route := range []string{"/chat", "/chat/u-1/stream"} {
		t.Run(route, func(t *testing.T) {
			begun, go_ := make(chan struct{}), make(chan struct{})
			o := &boxOffice{sell: func(ctx context.Context) error {
				close(begun)
				<-go_
				return ctx.Err()
			}}
			c := operaAt(t, o)
			c.say("u-1", "Two seats, please")
			c.say("u-1", "2")
			c.say("u-1", "by card 4000123412341234")
			body := object{"user_id": "u-1", "message": "yes", "message_id": "m-yes"}
			data, _ := json.Marshal(body)
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "POST", c.url+route, bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}()
			<-begun
			leave()
			<-gone
			close(go_)
			if r := call[object](c, "POST", "/chat", body); r["response"] != "Sold: T-2.\nEnjoy it." || len(o.keys()) != 1 {
				t.Errorf("%v, sold %v", r, o.keys())
			}
		})
	}
}

func TestAConversationIsDeletedInTheMiddleOfATurn(t *testing.T) {
	begun := make(chan struct{})
	o := &boxOffice{sell: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	c := operaAt(t, o)
	c.say("u-1", "Two seats, please")
	c.say("u-1", "2")
	c.say("u-1", "by card 4000123412341234")
	answer := make(chan string)
	go func() {
		status, _, text := c.do("POST", "/chat", object{"user_id": "u-1", "message": "yes"})
		answer <- fmt.Sprint(status, " ", text)
	}()
	<-begun
	if status, _, text := c.do("DELETE", "/state/u-1", nil); status != 204 {
		t.Errorf("DELETE: %d %s", status, text)
	}
	if got := <-answer; !strings.HasPrefix(got, "409 ") {
		t.Errorf("the message that was under way: %s", got)
	}
	if r := c.say("u-1", "Who am I?"); r["response"] != "You are u-1." || r["turn_count"] != 1.0 {
		t.Errorf("then: %v", r)
	}
}

// Messages to one conversation wait for each other, whoever sends them.
func TestMessagesAtOnceAreAllAnswered(t *testing.T) {
	c := operaAt(t, &boxOffice{})
	var all sync.WaitGroup
	for user := range 4 {
		for n := range 5 {
			all.Go(func() {
				name := fmt.Sprint("u-", user)
				r := call[object](c, "POST", "/chat", object{"user_id": name, "message": "Who am I?", "message_id": fmt.Sprint("m-", n)})
				if want := "You are " + name + "."; r["response"] != want {
					t.Errorf("%v, want %s", r, want)
				}
			})
		}
	}
	all.Wait()
	for user := range 4 {
		if s := call[object](c, "GET", fmt.Sprint("/state/u-", user), nil); s["turn_count"] != 5.0 {
			t.Errorf("%v turns", s["turn_count"])
		}
	}
}

func TestADeadlineRunsWithoutAUser(t *testing.T) {
	c := operaAt(t, &boxOffice{})
	if r := c.say("u-1", "Invite somebody"); r["response"] != "Who comes?" {
		t.Fatalf("%v", r)
	}
	for {
		s := call[object](c, "GET", "/state/u-1", nil)
		if s["last_response"] == "Too late." && s["active_flow"] == nil {
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%v", s)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// as sends the requests of a user with a key.
func (c client) as(key string) client {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), r.Method, c.url+r.URL.String(), r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		req.Header.Set("X-Api-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			c.t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		var text bytes.Buffer
		_, _ = text.ReadFrom(resp.Body)
		_, _ = w.Write(text.Bytes())
	}))
	c.t.Cleanup(proxy.Close)
	return client{c.t, proxy.URL}
}

func TestWhoMaySpeakForAUser(t *testing.T) {
	keys := server.APIKeys("one=key-of-the-first-one", "two=key-of-the-second-one")
	t.Run("without rules every key may speak for every user", func(t *testing.T) {
		c := operaAt(t, &boxOffice{}, keys)
		if status, _, text := c.do("POST", "/chat", object{"user_id": "u-1", "message": "hi"}); status != 401 || !strings.HasPrefix(text, `{"detail":`) {
			t.Errorf("without a key: %d %s", status, text)
		}
		if status, _, _ := c.do("GET", "/health", nil); status != 200 {
			t.Errorf("health needs a key: %d", status)
		}
		one, two := c.as("key-of-the-first-one"), c.as("key-of-the-second-one")
		if r := one.say("u-1", "Who am I?"); r["response"] != "You are u-1." {
			t.Errorf("%v", r)
		}
		if s := call[object](two, "GET", "/state/u-1", nil); s["turn_count"] != 1.0 {
			t.Errorf("%v", s)
		}
	})
	t.Run("where users have what is theirs, nobody speaks for another", func(t *testing.T) {
		c := operaAt(t, &boxOffice{}, keys, server.Authorize(server.OwnedByUser()))
		one, two := c.as("key-of-the-first-one"), c.as("key-of-the-second-one")
		if r := one.say("u-1", "Who am I?"); r["response"] != "You are api-key:one." {
			t.Errorf("%v", r)
		}
		if status, _, text := two.do("GET", "/state/u-1", nil); status != 404 {
			t.Errorf("the state of another's: %d %s", status, text)
		}
		if status, _, text := two.do("DELETE", "/state/u-1", nil); status != 404 {
			t.Errorf("removing another's: %d %s", status, text)
		}
		thread := call[object](one, "GET", "/state/u-1", nil)["thread_id"].(string)
		for _, what := range []string{"/turns", "/test"} {
			if status, _, text := two.do("GET", "/threads/"+thread+what, nil); status != 404 {
				t.Errorf("another's %s: %d %s", what, status, text)
			}
			if status, _, text := one.do("GET", "/threads/"+thread+what, nil); status != 200 {
				t.Errorf("its own %s: %d %s", what, status, text)
			}
		}
		if r := two.say("u-1", "Who am I?"); r["response"] != "You are api-key:two." || r["turn_count"] != 1.0 {
			t.Errorf("%v", r)
		}
		if s := call[object](one, "GET", "/state/u-1", nil); s["turn_count"] != 1.0 {
			t.Errorf("%v", s)
		}
		found := call[[]object](one, "POST", "/threads/search", object{"metadata": object{"user_id": "u-1"}})
		if len(found) != 1 || found[0]["metadata"].(object)["owner"] != "api-key:one" {
			t.Errorf("threads: %v", found)
		}
	})
	t.Run("users may be left the dialogue alone", func(t *testing.T) {
		c := operaAt(t, &boxOffice{}, keys, server.Authorize(func(ctx context.Context, u *server.User, a *server.Action) (server.Filter, error) {
			if a.Resource != server.Chats || a.Verb == server.Delete {
				return server.Filter{}, fmt.Errorf("%w: you may only talk", server.ErrForbidden)
			}
			return server.OwnedByUser()(ctx, u, a)
		}))
		one := c.as("key-of-the-first-one")
		if r := one.say("u-1", "Two seats, please"); r["response"] != "How many seats?" {
			t.Errorf("%v", r)
		}
		thread := call[object](one, "GET", "/state/u-1", nil)["thread_id"].(string)
		for _, route := range []string{"GET /threads/" + thread + "/state", "POST /threads/" + thread + "/runs", "DELETE /state/u-1"} {
			method, path, _ := strings.Cut(route, " ")
			if status, _, text := one.do(method, path, object{"assistant_id": "opera", "input": object{"text": "hi"}}); status != 403 || !strings.Contains(text, "you may only talk") {
				t.Errorf("%s: %d %s", route, status, text)
			}
		}
	})
}

// A turn that was under way when its server ended goes on with the next one, and its
// action is told that it is the same.
func TestATurnOutlivesItsServer(t *testing.T) {
	data := server.Data("sqlite:" + filepath.Join(t.TempDir(), "talks.db"))
	begun := make(chan struct{})
	o := &boxOffice{sell: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}}
	s, err := server.New(t.Context(), server.Dialogue(o.assistant(t)), data)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	c := client{t, h.URL}
	c.say("u-1", "Two seats, please")
	c.say("u-1", "2")
	c.say("u-1", "by card 4000123412341234")
	yes := object{"user_id": "u-1", "message": "yes", "message_id": "m-yes"}
	answer := make(chan string)
	go func() {
		status, _, text := c.do("POST", "/chat", yes)
		answer <- fmt.Sprint(status, " ", text)
	}()
	<-begun
	now, cancel := context.WithCancel(t.Context())
	cancel()
	s.Drain(now)
	if got := <-answer; !strings.HasPrefix(got, "503 ") || !strings.Contains(got, "message_id") {
		t.Errorf("the message that was under way: %s", got)
	}
	if status, _, text := c.do("POST", "/chat", yes); status != 503 {
		t.Errorf("a message to a server that drains: %d %s", status, text)
	}
	h.Close()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	o.sell = nil
	c = operaAt(t, o, data)
	if r := call[object](c, "POST", "/chat", yes); r["response"] != "Sold: T-2.\nEnjoy it." {
		t.Errorf("%v", r)
	}
	if keys := o.keys(); len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("sold by %q", keys)
	}
}

// To LangGraph's clients the dialogue is a graph like any.
func TestTheDialogueIsAGraph(t *testing.T) {
	o := &boxOffice{}
	c := operaAt(t, o)
	thread := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	run := func(body object) object {
		t.Helper()
		body["assistant_id"] = "opera"
		return call[object](c, "POST", "/threads/"+thread+"/runs/wait", body)
	}
	user := func(id, text string) object {
		return object{"input": object{"messages": []any{object{"role": "user", "content": text, "id": id}}}}
	}
	question := func(out object) object {
		t.Helper()
		asked, _ := out["__interrupt__"].([]any)
		if len(asked) != 1 {
			t.Fatalf("questions: %v", out)
		}
		return asked[0].(object)["value"].(object)
	}
	q := question(run(user("m-1", "Two seats, please")))
	if q["type"] != "collect" || q["slot"] != "seats" || q["prompt"] != "How many seats?" || q["schema"].(object)["maximum"] != 8.0 {
		t.Errorf("question: %v", q)
	}
	// A question is answered by its value, by a text, or by a message like any other.
	q = question(run(object{"command": object{"resume": "3"}}))
	if q["slot"] != "card" {
		t.Errorf("after the answer: %v", q)
	}
	q = question(run(user("m-3", "by card 4000123412341234")))
	if q["type"] != "confirm" {
		t.Errorf("after the message: %v", q)
	}
	out := run(object{"command": object{"resume": object{"commands": []any{object{"type": "affirm"}}, "question": q["id"]}}})
	if out["__interrupt__"] != nil || out["last_response"] != "Sold: T-3.\nEnjoy it." {
		t.Errorf("after the button: %v", out)
	}
	var said []string
	for _, m := range out["messages"].([]any) {
		m := m.(object)
		said = append(said, fmt.Sprint(m["type"], " ", m["id"], " ", m["content"]))
	}
	if len(said) != 8 || said[0] != "human m-1 Two seats, please" || said[1] != "ai turn-1-1 How many seats?" || strings.Contains(strings.Join(said, "\n"), "4000123412341234") {
		t.Errorf("messages:\n%s", strings.Join(said, "\n"))
	}
	state := call[object](c, "GET", "/threads/"+thread+"/state", nil)
	if state["values"].(object)["turn_count"] != 4.0 || len(state["next"].([]any)) != 0 {
		t.Errorf("state: %v", state)
	}
	if n := len(call[[]any](c, "POST", "/threads/"+thread+"/history", object{"limit": 100})); n < 12 {
		t.Errorf("%d checkpoints", n)
	}
	for _, bad := range []struct {
		input  any
		status int
		text   string
	}{
		{object{"txt": "hi"}, 422, `field "txt": unknown field; did you mean "text"?`},
		{object{"messages": []any{object{"role": "assistant", "content": "hi"}}}, 200, "the last of messages is the user's"},
		{object{"text": "hi", "user_message": "hi"}, 200, "has several things that begin a turn"},
	} {
		status, _, text := c.do("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "opera", "input": bad.input})
		if status != bad.status || !strings.Contains(text, bad.text) || status == 200 && !strings.Contains(text, `"error":"InputError"`) {
			t.Errorf("%v: %d %s", bad.input, status, text)
		}
	}
	if q := question(run(user("m-5", "Two seats, please"))); q["slot"] != "seats" {
		t.Errorf("after bad input: %v", q)
	}
}

// SONI-28: one function builds the graph that servers, command lines and tests run.
func TestTheServerRunsTheGraphThatTheBuilderMade(t *testing.T) {
	o := &boxOffice{}
	drawn := call[object](operaAt(t, o), "GET", "/assistants/opera/graph", nil)
	edges := func(list []any) (have []string) {
		for _, e := range list {
			e := e.(object)
			have = append(have, fmt.Sprint(e["source"], " ", e["target"]))
		}
		slices.Sort(have)
		return have
	}
	var want []string
	for _, e := range o.assistant(t).Graph().Drawing(0).Edges {
		want = append(want, e.From+" "+e.To)
	}
	slices.Sort(want)
	if have := edges(drawn["edges"].([]any)); !slices.Equal(have, want) || len(have) < 18 {
		t.Errorf("the server draws %q, the builder made %q", have, want)
	}
	// Nothing else builds one.
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../dialogue/assistant/") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && regexp.MustCompile(`graph\.New\[\w+\.State\]\(`).Match(text) && bytes.Contains(text, []byte(`superstep/dialogue/assistant"`)) {
			t.Errorf("%s builds a graph over the state of an assistant", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Those who watch see the flows, why a conversation went as it did, and itself as a test.
func TestAConversationIsExplainedOverHTTP(t *testing.T) {
	c := operaAt(t, &boxOffice{}, server.Graph(hinting(t)))
	if info := call[object](c, "GET", "/info", nil); info["dialogue"] != "opera" {
		t.Errorf("the server says that its dialogue is %v", info["dialogue"])
	}
	all := call[object](c, "GET", "/assistants/opera/flows?layout=TB", nil)
	if f := all["flows"].([]any); len(f) != 3 || f[0].(object)["name"] != "buy" || f[0].(object)["description"] != "Buy seats." {
		t.Errorf("flows: %v", f)
	}
	if l, _ := all["graph"].(object)["layout"].(object); l == nil || len(l["nodes"].([]any)) != 4 {
		t.Errorf("the flows are at %v", l)
	}
	buy := call[object](c, "GET", "/assistants/opera/flows/buy?layout=TB", nil)
	if l, _ := buy["layout"].(object); l == nil || len(l["nodes"].([]any)) != len(buy["nodes"].([]any)) {
		t.Errorf("the flow is drawn as %v", buy)
	}
	for _, text := range []string{"Two seats, please", "2", "by card 4000123412341234", "yes", "Who am I?"} {
		c.say("u-1", text)
	}
	thread := call[object](c, "GET", "/state/u-1", nil)["thread_id"].(string)
	at := "/threads/" + thread
	got := call[object](c, "GET", at+"/turns", nil)
	var lines []string
	for _, turn := range got["turns"].([]any) {
		turn := turn.(object)
		line := fmt.Sprint(turn["user"], " ", turn["state"])
		for _, e := range turn["trace"].([]any) {
			if e := e.(object); e["kind"] == "command" || e["kind"] == "slot_set" {
				line += fmt.Sprintf(", %v %v%v %v", e["kind"], e["command"], e["slot"], e["reason"])
			}
		}
		for _, f := range turn["stack"].([]any) {
			f := f.(object)
			line += fmt.Sprintf(", %v at %v", f["flow"], f["step"])
		}
		for _, a := range asList(turn["actions"]) {
			a := a.(object)
			line += fmt.Sprintf(", ran %v %v", a["action"], a["outputs"])
		}
		lines = append(lines, strings.ReplaceAll(line, "<nil>", ""))
	}
	want := []string{
		"[Two seats, please] waiting_for_slot, command start_flow user, buy at collect_1",
		"[2] waiting_for_slot, slot_set seats user, command set_slotseats user, buy at collect_2",
		"[by card ************1234] confirming, slot_set card user, command set_slotcard user, buy at confirm_3",
		"[yes] completed, command affirm user, slot_set order action, ran sell map[order:T-2]",
		"[Who am I?] completed, command start_flow user, slot_set whose action, ran whoami map[whose:u-1]",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("turns:\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if got["more"] != false {
		t.Errorf("there is more: %v", got["more"])
	}
	page := call[object](c, "GET", at+"/turns?limit=2&before=4", nil)
	if turns := page["turns"].([]any); len(turns) != 2 || turns[0].(object)["turn"] != 2.0 || page["more"] != true {
		t.Errorf("two turns before the fourth: %v", page)
	}
	status, head, text := c.do("GET", at+"/test", nil)
	if status != 200 || head.Get("Content-Type") != "application/yaml" || !strings.Contains(head.Get("Content-Disposition"), thread+".yaml") || strings.Contains(text, "4000123412341234") || strings.Contains(text, "It doesn't hold") {
		t.Errorf("the test: %d %v\n%s", status, head, text)
	}
	list, err := dialoguetest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r := &dialoguetest.Runner{Assistant: func(string) ([]flows.File, error) {
		return []flows.File{{Name: "opera.yaml", Text: []byte(opera)}}, nil
	}}
	for _, f := range r.Run(list[0], list) {
		t.Errorf("the test: %s", f)
	}
	other := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	if turns := call[object](c, "GET", "/threads/"+other+"/turns", nil); len(turns["turns"].([]any)) != 0 {
		t.Errorf("a new thread has turns: %v", turns)
	}
	another := call[object](c, "POST", "/threads", object{})["thread_id"].(string)
	call[any](c, "POST", "/threads/"+another+"/runs/wait", object{"assistant_id": "hinting", "input": object{}})
	for _, bad := range []struct {
		path   string
		status int
		text   string
	}{
		{"/assistants/opera/flows/buyy", 404, "did you mean buy?"},
		{"/assistants/opera/flows/pattern_correction", 200, ""}, // built in
		{"/assistants/opera/flows/buy?version=none", 404, `at version "none"`},
		{"/assistants/opera/flows/buy?layout=RL", 422, "layout must be TB or LR"},
		{"/assistants/hinting/flows", 404, `"hinting" has no flows`},
		{at + "/turns?limit=0", 422, "limit must be a number from 1 to 1000"},
		{at + "/turns?before=x", 422, "before must be"},
		{"/threads/" + other + "/test", 409, "there is nothing to test"},
		{"/threads/" + another + "/turns", 409, `graph "hinting" ran on it`},
		{"/threads/" + another + "/test", 409, `graph "hinting" ran on it`},
		{"/threads/00000000-0000-4000-8000-000000000000/turns", 404, "not found"},
	} {
		if status, _, text := c.do("GET", bad.path, nil); status != bad.status || !strings.Contains(text, bad.text) {
			t.Errorf("%s: %d %s", bad.path, status, text)
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}
