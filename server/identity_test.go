package server_test

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server"
)

func TestATokenIsNoUserOfAnAPIKey(t *testing.T) {
	i := newIssuer(t)
	var seen atomic.Pointer[server.User]
	note := func(_ context.Context, u *server.User, _ *server.Action) (server.Filter, error) {
		seen.Store(u)
		return server.Filter{}, nil
	}
	c := start(t, server.Graph(booking(t)), quiet(), server.NamedAPIKeys(server.APIKey{Name: "anna", Key: newKey}), server.Authorize(note), server.Authenticate(byHeader),
		server.JWT(server.JWTConfig{Issuer: i.URL, Audience: "superstep", Keys: []crypto.PublicKey{&i.key.PublicKey}}))
	for id, want := range map[string]int{"api-key:anna": 401, "api-key": 401, "api-key:": 401, "api-keys": 200, "anna": 200} {
		end := time.Now().Add(time.Hour).Truncate(time.Second)
		token := i.token(t, "RS256", "k1", map[string]any{"sub": id, "exp": end.Unix()})
		if status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "Authorization", "Bearer "+token); status != want {
			t.Errorf("a token of %s: %d %s", id, status, text)
		} else if u := seen.Load(); want == 200 && (u.ID != id || !u.Expires.Equal(end)) {
			t.Errorf("a token of %s until %v is of %s until %v", id, end, u.ID, u.Expires)
		}
		if status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "X-Test-User", id); status != want {
			t.Errorf("a function's %s: %d %s", id, status, text)
		}
	}
	if status, _, text := c.ask(t.Context(), "POST", "/threads/search", "{}", "X-Api-Key", newKey); status != 200 {
		t.Errorf("the key: %d %s", status, text)
	}
}

func TestSeveralIssuersNeedAWayToTellTheirUsersApart(t *testing.T) {
	of := func(issuer string, user func(map[string]any) (*server.User, error)) server.Option {
		return server.JWT(server.JWTConfig{Issuer: issuer, Audience: "superstep", Keys: []crypto.PublicKey{&newIssuer(t).key.PublicKey}, User: user})
	}
	own := func(map[string]any) (*server.User, error) { return nil, errors.New("nobody") }
	for name, tt := range map[string]struct {
		opts []server.Option
		ok   bool
	}{
		"two with subjects":       {[]server.Option{of("https://a", nil), of("https://b", nil)}, false},
		"the first with subjects": {[]server.Option{of("https://a", nil), of("https://b", own)}, false},
		"the last with subjects":  {[]server.Option{of("https://a", own), of("https://b", nil)}, false},
		"none with subjects":      {[]server.Option{of("https://a", own), of("https://b", own)}, true},
		"one issuer twice":        {[]server.Option{of("https://a", nil), of("https://a", nil)}, true},
	} {
		s, err := server.New(t.Context(), append(tt.opts, quiet())...)
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "https://a, https://b") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			s.Close(context.Background())
		}
	}
}

// An asterisk stands for any label where namespaces are listed.
func TestAUserWhoseIDIsAPatternSeesOnlyTheirOwn(t *testing.T) {
	c := start(t, server.Graph(booking(t)), quiet(), server.Authenticate(byHeader), server.Authorize(server.OwnedByUser()))
	star := visitor{c, "*"}
	for _, v := range []visitor{{c, "alice"}, star} {
		v.json("PUT", "/store/items", `{"namespace":["of","`+v.user+`"],"key":"k","value":{"of":"`+v.user+`"}}`)
	}
	for _, body := range []string{`{}`, `{"prefix":["*"]}`, `{"prefix":["*","*"]}`, `{"suffix":["*"]}`} {
		if got := fmt.Sprint(star.json("POST", "/store/namespaces", body)); got != "map[namespaces:[[of *]]]" {
			t.Errorf("%s lists %s", body, got)
		}
	}
	if got := fmt.Sprint(star.json("POST", "/store/items/search", `{}`)); strings.Contains(got, "alice") || !strings.Contains(got, "of:*") {
		t.Errorf("a search finds %s", got)
	}
	careless := start(t, server.Graph(booking(t)), quiet(), server.Authenticate(byHeader), server.Authorize(func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		a.Prefix = []string{u.ID}
		return server.Filter{}, nil
	}))
	if status, text := (visitor{careless, "*"}).send("POST", "/store/namespaces", `{}`); status != 403 {
		t.Errorf("a prefix that is a pattern: %d %s", status, text)
	}
}

// What a proxy says in a header is not for clients to say in a body.
func TestHeadersAreConfiguredByHeadersAlone(t *testing.T) {
	b := graph.New[trip]("headers")
	b.AddNode("tell", func(ctx context.Context, s *trip) error {
		all, err := graph.Configured[map[string]json.RawMessage](ctx)
		if err != nil {
			return err
		}
		for _, name := range []string{"x-internal", "X-Internal", "user-agent", "city"} {
			v, ok := all[name]
			if !ok {
				v = json.RawMessage("-")
			}
			s.City += string(v) + " "
		}
		return nil
	})
	b.AddEdge(graph.Start, "tell")
	c := start(t, server.Graph(b.MustCompile(graph.Configurable(map[string]json.RawMessage{}))), quiet())
	said := object{"x-internal": "yes", "X-Internal": "yes", "user-agent": "yes", "city": "Ulm"}
	made := call[object](c, "POST", "/assistants", object{"graph_id": "headers", "config": object{"configurable": said}})["assistant_id"]
	for name, body := range map[string]object{
		"configurable": {"assistant_id": "headers", "config": object{"configurable": said}},
		"context":      {"assistant_id": "headers", "context": said},
		"an assistant": {"assistant_id": made},
	} {
		body["input"] = object{}
		data, _ := json.Marshal(body)
		for _, header := range []string{"", "from-proxy"} {
			headers, want := []string{"User-Agent", "test"}, `- - "test" "Ulm" `
			if header != "" {
				headers, want = append(headers, "X-Internal", header), `"from-proxy" - "test" "Ulm" `
			}
			_, _, text := c.ask(t.Context(), "POST", "/runs/wait", string(data), headers...)
			var out object
			if err := json.Unmarshal([]byte(text), &out); err != nil || out["city"] != want {
				t.Errorf("in %s with the header %q: %s", name, header, text)
			}
		}
	}
}

// A function for Authenticate may read what browsers send by themselves.
func TestWithAFunctionPagesOfOthersAreRefusedUnlessTheyAreNamed(t *testing.T) {
	cookie := func(r *http.Request) (*server.User, error) {
		c, err := r.Cookie("session")
		if err != nil {
			return nil, nil
		}
		return &server.User{ID: c.Value}, nil
	}
	none := start(t, server.Graph(booking(t)), quiet(), server.Authenticate(cookie))
	named := start(t, server.Graph(booking(t)), quiet(), server.Authenticate(cookie), server.AllowOrigins("https://chat.example.com"))
	keys := start(t, server.Graph(booking(t)), quiet(), server.APIKeys(newKey))
	for _, tt := range []struct {
		name    string
		c       client
		headers []string
		want    int
	}{
		{"no page", none, nil, 200},
		{"its own page", none, []string{"Origin", none.url}, 200},
		{"another page", none, []string{"Origin", "https://evil.example"}, 403},
		{"a page of this machine", none, []string{"Origin", "http://localhost:3000"}, 403},
		{"a form of another site", none, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page that is named", named, []string{"Origin", "https://chat.example.com"}, 200},
		{"a page that isn't", named, []string{"Origin", "https://evil.example"}, 403},
		{"any page, where there are keys alone", keys, []string{"Origin", "https://evil.example", "X-Api-Key", newKey}, 200},
	} {
		if status, _, text := tt.c.ask(t.Context(), "POST", "/threads/search", "{}", append(tt.headers, "Cookie", "session=ada")...); status != tt.want {
			t.Errorf("%s: %d %s", tt.name, status, text)
		}
	}
}

// A cron that a colleague has changed does what the colleague may do.
func TestACronRunsForWhoChangedItLast(t *testing.T) {
	c := start(t, server.Graph(informing(t)), quiet(), server.Authenticate(byHeader))
	ada, bob := visitor{c, "ada/pay"}, visitor{c, "bob"}
	cron := ada.json("POST", "/runs/crons", `{"assistant_id":"telling","schedule":"@every 1s","input":{},"on_run_completed":"keep","enabled":false}`).(object)
	path := "/runs/crons/" + cron["cron_id"].(string)
	if got := bob.json("PATCH", path, `{"input":{"pay":"bob"},"enabled":true}`).(object)["user_id"]; got != "bob" {
		t.Errorf("after bob changed it, it is for %v", got)
	}
	var values object
	waitFor(t, "it has run", func() bool {
		for _, one := range bob.json("POST", "/threads/search", `{"status":"idle"}`).([]any) {
			if v, ok := one.(object)["values"].(object); ok {
				values = v
			}
		}
		return values["user_id"] != nil
	})
	if values["user_id"] != `"bob"` || values["permissions"] != "[]" || values["pay"] != "bob" {
		t.Errorf("its run knows %v", values)
	}
}

// Who can't start runs on a cron's thread can't change what it runs there.
func TestACronIsNotChangedWithoutTheRightToRunIt(t *testing.T) {
	team := func(_ context.Context, u *server.User, a *server.Action) (server.Filter, error) {
		if a.Resource == server.Crons || a.Resource == server.Assistants {
			return server.Filter{}, nil
		}
		a.Set("owner", u.ID)
		return server.Where("owner", u.ID), nil
	}
	c := start(t, server.Graph(booking(t)), quiet(), server.Authenticate(byHeader), server.Authorize(team))
	ada, bob := visitor{c, "ada"}, visitor{c, "bob"}
	thread := ada.json("POST", "/threads", `{}`).(object)["thread_id"].(string)
	cron := ada.json("POST", "/threads/"+thread+"/runs/crons", `{"assistant_id":"booking","schedule":"@yearly","input":{}}`).(object)["cron_id"].(string)
	if status, text := bob.send("PATCH", "/runs/crons/"+cron, `{"input":{"city":"Ulm"}}`); status != 404 {
		t.Errorf("bob changes what runs on ada's thread: %d %s", status, text)
	}
	if got := ada.json("PATCH", "/runs/crons/"+cron, `{"input":{"city":"Ulm"}}`).(object)["user_id"]; got != "ada" {
		t.Errorf("it is for %v", got)
	}
	ada.json("DELETE", "/threads/"+thread, "")
	if got := bob.json("PATCH", "/runs/crons/"+cron, `{"enabled":false}`).(object)["enabled"]; got != false {
		t.Errorf("one whose thread is gone can't be switched off: %v", got)
	}
}
