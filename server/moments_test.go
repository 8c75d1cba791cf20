package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/superstep-dev/superstep/server"
)

// row says what comes of a route for somebody whose thread it isn't.
type row struct {
	body   string
	before int  // status while nobody has the thread
	after  int  // and when somebody else has
	stays  bool // it tells of the thread until the client leaves
	socket bool
	run    bool // of a run that went with the thread
	aside  bool // it isn't of a thread
}

const bookIt = `{"assistant_id":"booking","input":{"city":"Ulm"}}`

// rows has a row for each route that there is.
var rows = map[string]row{
	"GET /threads/{thread}":                        {before: 404, after: 404},
	"PATCH /threads/{thread}":                      {body: `{"metadata":{"a":1}}`, before: 404, after: 404},
	"DELETE /threads/{thread}":                     {before: 404, after: 404},
	"POST /threads/{thread}/copy":                  {before: 404, after: 404},
	"POST /threads/{thread}/events":                {body: `{"name":"paid"}`, before: 404, after: 404},
	"GET /threads/{thread}/state":                  {before: 404, after: 404},
	"GET /threads/{thread}/state/{checkpoint}":     {before: 404, after: 404},
	"POST /threads/{thread}/state/checkpoint":      {body: `{"checkpoint":{"checkpoint_id":"CHECKPOINT"}}`, before: 404, after: 404},
	"POST /threads/{thread}/state":                 {body: `{"values":{"city":"Ulm"}}`, before: 404, after: 404},
	"PATCH /threads/{thread}/state":                {body: `{"metadata":{"a":1}}`, before: 404, after: 404},
	"GET /threads/{thread}/history":                {before: 404, after: 404},
	"POST /threads/{thread}/history":               {body: `{}`, before: 404, after: 404},
	"GET /threads/{thread}/model_calls":            {before: 404, after: 404},
	"GET /threads/{thread}/tool_calls":             {before: 404, after: 404},
	"GET /threads/{thread}/recording":              {before: 404, after: 404},
	"POST /threads/{thread}/replay":                {body: `{}`, before: 404, after: 404},
	"GET /threads/{thread}/model_calls/{call}":     {before: 404, after: 404},
	"POST /threads/{thread}/model_calls/{call}":    {body: `{"request":{"messages":[{"role":"user","content":"x"}]}}`, before: 404, after: 404},
	"GET /threads/{thread}/feedback":               {before: 404, after: 404},
	"POST /threads/{thread}/feedback":              {body: `{"comment":"x"}`, before: 404, after: 404},
	"DELETE /threads/{thread}/feedback/{feedback}": {before: 404, after: 404},
	"POST /threads/{thread}/commands":              {body: `{"id":1,"method":"state.get"}`, before: 200, after: 404},
	"POST /threads/{thread}/runs":                  {body: bookIt, before: 404, after: 404},
	"POST /threads/{thread}/runs/stream":           {body: bookIt, before: 404, after: 404},
	"POST /threads/{thread}/runs/wait":             {body: bookIt, before: 404, after: 404},
	"GET /threads/{thread}/runs":                   {before: 404, after: 404},
	"GET /threads/{thread}/runs/{run}":             {before: 404, after: 404, run: true},
	"DELETE /threads/{thread}/runs/{run}":          {before: 404, after: 404, run: true},
	"GET /threads/{thread}/runs/{run}/join":        {before: 404, after: 404, run: true},
	"GET /threads/{thread}/runs/{run}/stream":      {before: 200, after: 200, run: true}, // the error is an event
	"POST /threads/{thread}/runs/{run}/cancel":     {before: 404, after: 404, run: true},
	"POST /threads/{thread}/runs/crons":            {body: `{"assistant_id":"booking","schedule":"@yearly"}`, before: 404, after: 404},
	"GET /runs/{run}/stream":                       {before: 200, after: 200, run: true},
	"GET /runs/{run}/join":                         {before: 404, after: 404, run: true},

	"POST /threads/{thread}/stream/events": {body: `{"channels":["values","lifecycle","updates"]}`, before: 200, after: 404, stays: true},
	"POST /threads/{thread}/stream":        {body: `{"channels":["values","lifecycle","updates"]}`, before: 200, after: 404, stays: true},
	"GET /threads/{thread}/stream":         {before: 404, after: 404, stays: true},
	"GET /threads/{thread}/stream/events":  {before: 101, after: 404, stays: true, socket: true},

	"POST /threads":                                     {body: `{"thread_id":"THREAD","if_exists":"do_nothing"}`, after: 409},
	"POST /threads/search":                              {body: `{"ids":["THREAD"]}`, before: 200, after: 200},
	"POST /threads/count":                               {body: `{}`, before: 200, after: 200},
	"POST /threads/prune":                               {body: `{"thread_ids":["THREAD"]}`, before: 200, after: 200},
	"POST /runs/cancel":                                 {body: `{"thread_id":"THREAD","status":"all"}`, before: 204, after: 204},
	"POST /runs/search":                                 {body: `{"thread_id":"THREAD"}`, before: 200, after: 200},
	"POST /runs/figures":                                {body: `{"thread_id":"THREAD","bucket_seconds":1}`, before: 200, after: 200},
	"POST /threads/import":                              {aside: true},
	"POST /runs/crons":                                  {aside: true},
	"POST /runs":                                        {aside: true},
	"POST /runs/stream":                                 {aside: true},
	"POST /runs/wait":                                   {aside: true},
	"POST /runs/batch":                                  {aside: true},
	"GET /ok":                                           {aside: true},
	"GET /ready":                                        {aside: true},
	"GET /info":                                         {aside: true},
	"GET /metrics":                                      {aside: true},
	"GET /openapi.json":                                 {aside: true},
	"POST /assistants":                                  {aside: true},
	"GET /store/items":                                  {aside: true},
	"PUT /store/items":                                  {aside: true},
	"DELETE /store/items":                               {aside: true},
	"POST /assistants/search":                           {aside: true},
	"POST /assistants/count":                            {aside: true},
	"GET /assistants/{assistant}":                       {aside: true},
	"PATCH /assistants/{assistant}":                     {aside: true},
	"DELETE /assistants/{assistant}":                    {aside: true},
	"GET /assistants/{assistant}/graph":                 {aside: true},
	"GET /assistants/{assistant}/schemas":               {aside: true},
	"POST /assistants/{assistant}/versions":             {aside: true},
	"POST /assistants/{assistant}/latest":               {aside: true},
	"GET /assistants/{assistant}/subgraphs":             {aside: true},
	"GET /assistants/{assistant}/subgraphs/{namespace}": {aside: true},
	"PATCH /runs/crons/{cron}":                          {aside: true},
	"DELETE /runs/crons/{cron}":                         {aside: true},
	"POST /runs/crons/search":                           {aside: true},
	"POST /runs/crons/count":                            {aside: true},
	"POST /store/items/search":                          {aside: true},
	"POST /store/namespaces":                            {aside: true},
	"GET /v1/models":                                    {aside: true},
	"GET /v1/models/{model}":                            {aside: true},
	"POST /v1/chat/completions":                         {body: `{"model":"booking","messages":[{"role":"user","content":"hello"}],"metadata":{"thread_id":"THREAD"}}`, after: 404},
	"POST /mcp":                                         {body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"booking","arguments":{"city":"Ulm","thread":"THREAD"}}}`, after: 200}, // with a result that says 404
	"POST /assistants/{assistant}/agui":                 {body: `{"threadId":"THREAD","runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`, after: 404},
	"POST /v1/responses":                                {body: `{"model":"booking","input":"hello","conversation":"conv_THREAD"}`, after: 404},
}

// commandRows are the parameters of commands that are somebody else's to send.
var commandRows = map[string]object{
	"run.start": {"assistant_id": "booking", "input": object{"city": "Ulm"}}, "input.respond": {"interrupt_id": "INTERRUPT", "response": true},
	"state.get": {}, "state.listCheckpoints": {}, "state.fork": {"checkpoint_id": "CHECKPOINT", "assistant_id": "booking"}, "agent.getTree": {},
}

// watched is a request whose answer is read until it ends.
type watched struct {
	pattern string
	status  int
	ended   chan struct{}
	conn    *websocket.Conn // of a socket

	mu   sync.Mutex
	text strings.Builder
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

// String returns what came so far.
func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// theatre is a server on which a thread passes from hand to hand.
type theatre struct {
	testing.TB
	client
	s       *server.Server
	expires sync.Map // when a user's credentials end
}

func newTheatre(t testing.TB, opts ...server.Option) *theatre {
	t.Helper()
	th := &theatre{TB: t}
	who := func(r *http.Request) (*server.User, error) {
		u, err := byHeader(r)
		if at, ok := th.expires.Load(r.Header.Get("X-Test-User")); ok && u != nil {
			u.Expires = at.(time.Time)
		}
		return u, err
	}
	opts = append([]server.Option{server.Graph(booking(t)), server.Authenticate(who), server.Authorize(server.OwnedByUser()), quiet()}, opts...)
	s, err := server.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	th.s, th.client = s, client{t, h.URL}
	return th
}

func (th *theatre) as(user string) visitor { return visitor{th.client, user} }

// open sends a request of a route. The answer has begun when it returns.
func (th *theatre) open(user, pattern string, fill *strings.Replacer) *watched {
	th.Helper()
	one, w := rows[pattern], &watched{pattern: pattern, ended: make(chan struct{})}
	method, path, _ := strings.Cut(pattern, " ")
	path = strings.Replace(fill.Replace(path), "{assistant}", "booking", 1)
	if one.socket {
		conn, resp, err := websocket.Dial(th.Context(), strings.Replace(th.url, "http", "ws", 1)+path, &websocket.DialOptions{HTTPHeader: http.Header{"X-Test-User": {user}}})
		if resp != nil {
			w.status = resp.StatusCode
		}
		if err != nil {
			close(w.ended)
			return w
		}
		conn.SetReadLimit(64 << 20)
		th.Cleanup(func() { conn.CloseNow() })
		w.conn = conn
		go func() {
			defer close(w.ended)
			for {
				_, data, err := conn.Read(th.Context())
				if err != nil {
					fmt.Fprintln(w, err)
					return
				}
				fmt.Fprintln(w, string(data))
			}
		}()
		w.command(th, "subscription.subscribe", object{"channels": []string{"values", "lifecycle", "updates"}}, strings.NewReplacer())
		return w
	}
	r, err := http.NewRequestWithContext(th.Context(), method, th.url+path, strings.NewReader(fill.Replace(one.body)))
	if err != nil {
		th.Fatal(err)
	}
	r.Header.Set("X-Test-User", user)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		th.Fatalf("%s: %v", pattern, err)
	}
	w.status = answer.StatusCode
	go func() {
		defer close(w.ended)
		defer answer.Body.Close()
		_, _ = io.Copy(w, answer.Body) // a stream may be cut off
	}()
	return w
}

// command sends a command over a socket, which may be closed by now.
func (w *watched) command(t testing.TB, method string, params object, fill *strings.Replacer) {
	data, _ := json.Marshal(object{"id": 1, "method": method, "params": params})
	_ = w.conn.Write(t.Context(), websocket.MessageText, []byte(fill.Replace(string(data))))
}

// over checks that an answer has come to its end, or does now, and shows nothing of a
// user.
func (th *theatre) over(when string, w *watched, hides string) {
	th.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		th.Errorf("%s: %s goes on", when, w.pattern)
		return
	}
	if text := w.String(); strings.Contains(text, secret+hides) || strings.Contains(text, `"`+hides+`"`) {
		th.Errorf("%s: %s shows what is %s's: %s", when, w.pattern, hides, text)
	}
}

// has makes a user have a thread of an ID, with a secret in it.
func (th *theatre) has(user, thread string) (run, checkpoint string) {
	v := th.as(user)
	v.json("POST", "/threads", `{"thread_id":"`+thread+`","graph_id":"booking","metadata":{"x":"`+secret+user+`"}}`)
	v.json("POST", "/threads/"+thread+"/state", `{"values":{"city":"`+secret+user+`"},"as_node":"plan"}`)
	return th.runs(user, thread)
}

// runs has a user run the thread, which asks.
func (th *theatre) runs(user, thread string) (run, checkpoint string) {
	v := th.as(user)
	v.json("POST", "/threads/"+thread+"/runs/wait", `{"assistant_id":"booking","input":{"city":"`+secret+user+`"}}`)
	run = v.json("GET", "/threads/"+thread+"/runs", "").([]any)[0].(object)["run_id"].(string)
	state := v.json("GET", "/threads/"+thread+"/state", "").(object)
	return run, state["checkpoint"].(object)["checkpoint_id"].(string)
}

// all checks each route but the streams that stay.
func (th *theatre) all(when, user, hides string, fill *strings.Replacer, want func(row) int) {
	th.Helper()
	for _, pattern := range server.Routes(th.s) {
		one := rows[pattern]
		if one.aside || want(one) == 0 || one.stays && want(one) < 300 {
			continue
		}
		w := th.open(user, pattern, fill)
		if w.status != want(one) {
			th.Errorf("%s: %s is %d, not %d", when, pattern, w.status, want(one))
		}
		th.over(when, w, hides)
	}
}

// Each route and each command of a socket, for a user whose thread it isn't: while
// there is none, when somebody else has made it, when it was the user's and is
// somebody else's now, and when the user's credentials have expired.
func TestWhoseThreadItIsDecidesByEachRouteAtAnyTime(t *testing.T) {
	for name, data := range map[string]func(testing.TB) string{"memory": func(testing.TB) string { return "memory" }, "postgres": ownSchema} {
		t.Run(name, func(t *testing.T) { everyMoment(t, server.Data(data(t))) })
	}
}

func everyMoment(t *testing.T, opts ...server.Option) {
	th := newTheatre(t, opts...)
	for _, pattern := range server.Routes(th.s) {
		if _, ok := rows[pattern]; !ok {
			t.Errorf("add a row for %s", pattern)
		}
	}
	for _, method := range server.Commands() {
		if commandRows[method] == nil {
			t.Errorf("add a row for the command %s", method)
		}
	}
	streams := func(user string, fill *strings.Replacer, want func(row) int) (open []*watched) {
		for _, pattern := range server.Routes(th.s) {
			if one := rows[pattern]; one.stays && want(one) < 300 {
				w := th.open(user, pattern, fill)
				_, expires := th.expires.Load(user)
				if w.status != want(one) && !(expires && w.status == http.StatusUnauthorized) { // that soon
					t.Errorf("%s is %d, not %d: %s", pattern, w.status, want(one), w)
				}
				if w.conn != nil {
					waitFor(t, "the socket is subscribed", func() bool { return w.String() != "" })
				}
				open = append(open, w)
			}
		}
		return open
	}
	replacer := func(thread, run, checkpoint string) *strings.Replacer {
		return strings.NewReplacer("{thread}", thread, "THREAD", thread, "{run}", run, "{checkpoint}", checkpoint, "CHECKPOINT", checkpoint)
	}
	// send sends each command over the sockets among streams.
	send := func(open []*watched, fill *strings.Replacer) (n int) {
		for _, w := range open {
			for _, method := range server.Commands() {
				if w.conn == nil {
					continue
				}
				w.command(t, method, commandRows[method], fill)
				n++
			}
		}
		return n
	}

	// Nobody has it, and then alice.
	thread, none := newThread(), newThread()
	nothing := replacer(thread, none, none)
	th.all("before", "bob", "alice", nothing, func(r row) int { return r.before })
	early := streams("bob", nothing, func(r row) int { return r.before })
	alice := th.as("alice")
	alice.json("POST", "/threads", `{"thread_id":"`+thread+`","graph_id":"booking","metadata":{"x":"`+secret+`alice"}}`)
	alice.json("POST", "/threads/"+thread+"/state", `{"values":{"city":"`+secret+`alice"},"as_node":"plan"}`)
	state := alice.json("GET", "/threads/"+thread+"/state", "").(object)
	fill := replacer(thread, none, state["checkpoint"].(object)["checkpoint_id"].(string))
	if send(early, fill) == 0 {
		t.Error("no socket was open before there was a thread")
	}
	for _, w := range early {
		if w.conn != nil {
			waitFor(t, "all commands are answered", func() bool { return strings.Count(w.String(), `"id":1`) > len(commandRows) })
		}
	}
	run, checkpoint := th.runs("alice", thread)
	for _, w := range early {
		th.over("after somebody else has made it", w, "alice")
		if w.conn != nil && strings.Count(w.String(), `"type":"error"`) != len(commandRows) {
			t.Errorf("commands to somebody else's thread are answered with %s", w)
		}
	}
	fill = replacer(thread, run, checkpoint)
	th.all("when somebody else has it", "bob", "alice", fill, func(r row) int { return r.after })

	// Bob has it, and then alice.
	thread = newThread()
	run, checkpoint = th.has("bob", thread)
	fill = replacer(thread, run, checkpoint)
	following := streams("bob", fill, func(r row) int {
		if r.socket {
			return 101
		}
		return 200
	})
	th.as("bob").json("DELETE", "/threads/"+thread, "")
	th.has("alice", thread)
	send(following, fill)
	for _, w := range following {
		th.over("after it was removed", w, "alice")
	}
	th.all("when it is somebody else's now", "bob", "alice", fill, func(r row) int { return r.after })
	if n := len(alice.json("POST", "/threads/"+thread+"/history", `{}`).([]any)); n == 0 {
		t.Error("alice has lost her thread")
	}

	// Carl's credentials come to their end.
	thread = newThread()
	run, checkpoint = th.has("carl", thread)
	th.expires.Store("carl", time.Now().Add(200*time.Millisecond))
	for _, w := range streams("carl", replacer(thread, run, checkpoint), func(r row) int {
		if r.socket {
			return 101
		}
		return 200
	}) {
		th.over("after the credentials have expired", w, "alice")
		if w.conn != nil && !strings.Contains(w.String(), "credentials have expired") {
			t.Errorf("a socket ends with %s", w)
		}
	}
}
