package scripted_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(text string) *model.Request {
	return &model.Request{Messages: []chat.Message{chat.User(text)}}
}

func generate(t *testing.T, m model.Model, req *model.Request) chat.Message {
	t.Helper()
	resp, err := m.Generate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Message
}

// chunks returns what a stream yields.
func chunks(ctx context.Context, m model.Model, req *model.Request) ([]chat.Chunk, error) {
	var all []chat.Chunk
	for c, err := range m.Stream(ctx, req) {
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func TestRepliesComeInOrder(t *testing.T) {
	m := scripted.New(scripted.Text("one"), scripted.Text("two").Times(2), scripted.Text("ever").Repeat())
	for i, want := range []string{"one", "two", "two", "ever", "ever", "ever"} {
		if got := generate(t, m, ask("?")).Text(); got != want {
			t.Errorf("reply %d: %q, want %q", i, got, want)
		}
	}
	if m.Left() != 0 {
		t.Errorf("%d replies left", m.Left())
	}
}

func TestAScriptThatIsOverSaysSo(t *testing.T) {
	m := scripted.New(scripted.Text("one"), scripted.Text("two"))
	generate(t, m, ask("a"))
	generate(t, m, ask("b"))
	_, err := m.Generate(t.Context(), ask("what now"))
	var e *scripted.ScriptError
	if !errors.Is(err, scripted.ErrScriptOver) || !errors.As(err, &e) {
		t.Fatalf("error %v", err)
	}
	if e.Call != 3 || e.Replies != 2 || e.Left != 0 {
		t.Errorf("%+v", e)
	}
	if want := `scripted: call 3: the script is over: it has 2 replies; the user said "what now"`; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if _, err := chunks(t.Context(), m, ask("and now")); !errors.Is(err, scripted.ErrScriptOver) {
		t.Errorf("stream: %v", err)
	}
	if model.Temporary(err) {
		t.Error("it would be retried")
	}
}

func TestALongRequestIsShortenedInTheError(t *testing.T) {
	_, err := scripted.New().Generate(t.Context(), ask(strings.Repeat("a", 119)+"öö"))
	if want := `it has 0 replies; the user said "` + strings.Repeat("a", 119) + `…"`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}

func TestAReplyWaitsForItsRequest(t *testing.T) {
	m := scripted.New(
		scripted.Text("tea").When(scripted.Says("drink")),
		scripted.Text("cake").When(scripted.Says("eat")).Repeat(),
		scripted.Text("sum").When(scripted.Returned("add")),
		scripted.Text("tools").When(scripted.Offers("add")).When(scripted.System("be brief")),
	)
	call := chat.ToolCall{ID: "1", Name: "add"}
	for _, tt := range []struct {
		req  *model.Request
		want string
	}{
		{ask("eat!"), "cake"},
		{ask("drink!"), "tea"},
		{ask("eat more!"), "cake"},
		{&model.Request{Messages: []chat.Message{chat.System("be brief"), chat.User("hm")}, Tools: []chat.ToolSpec{{Name: "add"}}}, "tools"},
		{&model.Request{Messages: []chat.Message{chat.User("1+1"), chat.Assistant("", call), chat.ResultText(call, "2")}}, "sum"},
	} {
		if got := generate(t, m, tt.req).Text(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	_, err := m.Generate(t.Context(), ask("drink!"))
	var e *scripted.ScriptError
	if !errors.As(err, &e) || e.Left != 1 || !strings.Contains(err.Error(), "none of the 1 replies left (of 4) is for this request") {
		t.Errorf("error %v", err)
	}
}

func TestCallsGetIDsThatCountTheConversation(t *testing.T) {
	m := scripted.New(
		scripted.Calls(chat.ToolCall{Name: "a"}, chat.ToolCall{ID: "mine", Name: "b"}, chat.ToolCall{Name: "c"}),
		scripted.Call("d", `{"x":1}`),
	)
	first := generate(t, m, ask("go"))
	second := generate(t, m, &model.Request{Messages: []chat.Message{chat.User("go"), first}})
	var ids []string
	for _, c := range append(first.ToolCalls(), second.ToolCalls()...) {
		ids = append(ids, c.ID)
	}
	if got := strings.Join(ids, " "); got != "call_1 mine call_3 call_4" {
		t.Errorf("IDs %s", got)
	}
	if first.Finish != chat.FinishToolCalls || first.Role != chat.RoleAssistant || first.ID != "" {
		t.Errorf("message %+v", first)
	}
}

func TestARepeatedCallIsNotAltered(t *testing.T) {
	m := scripted.New(scripted.Call("a", "{}").Repeat())
	first := generate(t, m, ask("go"))
	generate(t, m, &model.Request{Messages: []chat.Message{first}})
	if got := generate(t, m, ask("go")).ToolCalls()[0].ID; got != "call_1" {
		t.Errorf("ID %s", got)
	}
}

func TestModifiersSetTheMessage(t *testing.T) {
	m := scripted.New(scripted.Text("hi").ID("m1").Usage(chat.Usage{Input: 3, Output: 1}).Finish(chat.FinishLength))
	got := generate(t, m, ask("?"))
	if got.ID != "m1" || *got.Usage != (chat.Usage{Input: 3, Output: 1}) || got.Finish != chat.FinishLength {
		t.Errorf("message %+v", got)
	}
}

func TestAStreamAddsUpToTheMessage(t *testing.T) {
	u := &chat.Usage{Input: 1, Output: 2}
	for name, msg := range map[string]chat.Message{
		"text":                     chat.Assistant("Hello there,  world\n bye"),
		"no parts":                 {},
		"empty text":               {Parts: []chat.Part{chat.Text{}}},
		"calls":                    chat.Assistant("I look", chat.ToolCall{ID: "1", Name: "a", Args: `{"q": "x y"}`}, chat.ToolCall{ID: "2", Name: "b", Signature: "s"}),
		"two texts":                {Parts: []chat.Part{chat.Text{Text: "a b"}, chat.Text{Text: "c d"}, chat.Text{Text: "e f", Signature: "s"}, chat.Text{Text: "g h"}}},
		"signed reasoning":         {Parts: []chat.Part{chat.Reasoning{Text: "let me think", ID: "r", Signature: "s"}, chat.Text{Text: "so be it"}}},
		"reasoning in two parts":   {Parts: []chat.Part{chat.Reasoning{Text: "a b"}, chat.Reasoning{Text: "c d"}, chat.Reasoning{Signature: "x", Redacted: true}}},
		"media":                    {Parts: []chat.Part{chat.Text{Text: "see here"}, chat.Image{Source: chat.Source{URL: "https://x/y.png"}}, chat.Text{Text: "or there"}}},
		"everything of the header": {ID: "i", Name: "n", Model: "m", Finish: chat.FinishOther, Usage: u, Parts: []chat.Part{chat.Text{Text: "a b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for split, f := range map[string]func(string) []string{"words": nil, "runes": scripted.Runes, "whole": scripted.Whole} {
				r := scripted.Message(msg).Repeat()
				if f != nil {
					r = r.Split(f)
				}
				m := scripted.New(r)
				resp, err := model.Collect(m.Stream(t.Context(), ask("?")))
				if err != nil {
					t.Fatal(err)
				}
				if want := generate(t, m, ask("?")); !reflect.DeepEqual(resp.Message, want) {
					t.Errorf("by %s:\n got %#v\nwant %#v", split, resp.Message, want)
				}
			}
		})
	}
}

func TestTextIsStreamedByWord(t *testing.T) {
	got, err := chunks(t.Context(), scripted.New(scripted.Text("Hello, wörld!  Bye").Usage(chat.Usage{Output: 3})), ask("?"))
	if err != nil {
		t.Fatal(err)
	}
	want := []chat.Chunk{
		{Role: chat.RoleAssistant, Text: "Hello, "}, {Text: "wörld!  "}, {Text: "Bye"},
		{Finish: chat.FinishStop, Usage: &chat.Usage{Output: 3}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestErrorsAndFunctionsReply(t *testing.T) {
	boom := errors.New("boom")
	m := scripted.New(scripted.Error(boom), scripted.Error(boom), scripted.Func(func(_ context.Context, req *model.Request) (chat.Message, error) {
		return chat.Assistant("you said " + req.Messages[0].Text()), nil
	}))
	if _, err := m.Generate(t.Context(), ask("?")); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if got, err := chunks(t.Context(), m, ask("?")); !errors.Is(err, boom) || len(got) != 0 {
		t.Errorf("%v, error %v", got, err)
	}
	if got := generate(t, m, ask("hi")).Text(); got != "you said hi" {
		t.Errorf("text %q", got)
	}
}

func TestAStreamBreaksWhereTheScriptSays(t *testing.T) {
	boom := errors.New("boom")
	r := scripted.Text("a b c").Break(2, boom)
	got, err := chunks(t.Context(), scripted.New(r), ask("?"))
	if !errors.Is(err, boom) || len(got) != 2 || got[1].Text != "b " {
		t.Errorf("%+v, error %v", got, err)
	}
	if _, err := scripted.New(r).Generate(t.Context(), ask("?")); !errors.Is(err, boom) {
		t.Errorf("Generate: %v", err)
	}
	_, err = chunks(t.Context(), scripted.New(scripted.Text("a").Break(0, nil)), ask("?"))
	var e *model.Error
	if !errors.As(err, &e) || e.Kind != model.ErrorBrokenStream {
		t.Errorf("error %v", err)
	}
}

func TestDelaysPassInTimeAndEndWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := scripted.New(scripted.Text("a b c").After(time.Second).Every(10 * time.Second).Repeat())
		start := time.Now()
		generate(t, m, ask("?"))
		if d := time.Since(start); d != time.Second {
			t.Errorf("Generate took %v", d)
		}
		start = time.Now()
		if _, err := chunks(t.Context(), m, ask("?")); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 31*time.Second {
			t.Errorf("the stream took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		start = time.Now()
		got, err := chunks(ctx, m, ask("?"))
		if !errors.Is(err, context.DeadlineExceeded) || len(got) != 2 || time.Since(start) != 12*time.Second {
			t.Errorf("%d chunks, error %v after %v", len(got), err, time.Since(start))
		}
		if _, err := m.Generate(ctx, ask("?")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if n := len(m.Requests()); n != 3 {
			t.Errorf("%d requests: one whose context had ended takes no reply", n)
		}
	})
}

func TestRequestsAreKeptAsTheyWere(t *testing.T) {
	m := scripted.New(scripted.Text("x").Repeat())
	if m.Last() != nil {
		t.Error("a request before the first")
	}
	temperature := 0.5
	req := ask("one")
	req.Temperature, req.Stop, req.Extra = &temperature, []string{"a"}, map[string]any{"k": 1}
	generate(t, m, req)
	req.Messages[0].Parts[0] = chat.Text{Text: "two"}
	req.Messages = append(req.Messages, chat.User("three"))
	temperature, req.Stop[0], req.Extra["k"] = 1, "b", 2
	generate(t, m, req)
	all := m.Requests()
	if len(all) != 2 {
		t.Fatalf("%d requests", len(all))
	}
	if r := all[0]; len(r.Messages) != 1 || r.Messages[0].Text() != "one" || *r.Temperature != 0.5 || r.Stop[0] != "a" || r.Extra["k"] != 1 {
		t.Errorf("the first was altered: %+v", r)
	}
	all[1].Messages[0] = chat.User("mine")
	if got := m.Last().Messages[0].Text(); got != "two" {
		t.Errorf("the copy altered the record: %q", got)
	}
}

func TestManyCallersShareAScript(t *testing.T) {
	const n = 50
	m := scripted.New(scripted.Text("odd").When(scripted.Says("odd")).Times(n), scripted.Text("even").When(scripted.Says("even")).Times(n))
	var wg sync.WaitGroup
	for i := range 2 * n {
		wg.Go(func() {
			want := []string{"even", "odd"}[i%2]
			resp, err := m.Generate(t.Context(), ask(want))
			if err != nil || resp.Message.Text() != want {
				t.Errorf("%v, error %v", resp, err)
			}
			m.Last()
			m.Requests()
		})
	}
	wg.Wait()
	if m.Left() != 0 || len(m.Requests()) != 2*n {
		t.Errorf("%d left, %d requests", m.Left(), len(m.Requests()))
	}
}

func TestAnEmptyReplyIsAnError(t *testing.T) {
	if _, err := scripted.New(scripted.Reply{}).Generate(t.Context(), ask("?")); err == nil {
		t.Error("no error")
	}
}
