package scripted_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func load(t *testing.T, text string, opts ...scripted.PlayOption) *scripted.Model {
	t.Helper()
	m, err := scripted.Load(strings.NewReader(text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// conversation asks a model in every way and returns all that came back.
func conversation(t *testing.T, m model.Model) []any {
	t.Helper()
	var all []any
	say := func(err error) {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	history := []chat.Message{chat.System("be brief"), chat.User("look it up")}
	tools := []chat.ToolSpec{{Name: "search", Schema: []byte(`{"type": "object"}`)}}
	resp, err := m.Generate(t.Context(), &model.Request{Messages: history, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, resp.Message)
	answer := resp.Message
	answer.ID = "given by the agent"
	call := answer.ToolCalls()[0]
	history = append(history, answer, chat.ResultText(call, "found"))
	got, err := chunks(t.Context(), m, &model.Request{Messages: history, Tools: tools})
	all = append(all, got)
	say(err)
	for _, q := range []string{"breaks", "limited", "odd"} {
		got, err := chunks(t.Context(), m, ask(q))
		all = append(all, got)
		say(err)
	}
	_, err = m.Generate(t.Context(), ask("last"))
	say(err)
	return all
}

func TestARecordingPlaysAsTheOriginal(t *testing.T) {
	original := scripted.New(
		scripted.Call("search", `{"q":  "<cats>"}`).Usage(chat.Usage{Input: 9, Output: 4, CacheRead: 2}),
		scripted.Message(chat.Message{Model: "m-1", Name: "n", Parts: []chat.Part{
			chat.Reasoning{Text: "hm hm", Signature: "s"}, chat.Text{Text: "It is found."},
			chat.Image{Source: chat.Source{Data: []byte{1, 2}, MIME: "image/png"}, Detail: "low"}, chat.ToolCall{ID: "x", Name: "f", Args: `{"a": 1}`},
		}}).ID("m1"),
		scripted.Text("a b c").Break(2, nil),
		scripted.Error(&model.Error{Provider: "p", Kind: model.ErrorRateLimit, Status: 429, Code: "c", Message: "slow", RetryAfter: 2 * time.Second}),
		scripted.Error(errors.New("odd")),
		scripted.Error(&model.Error{Provider: "p", Kind: model.ErrorTimeout, Err: context.DeadlineExceeded}),
	)
	var file bytes.Buffer
	rec := scripted.Record(original, &file)
	want := conversation(t, rec)
	if rec.Err() != nil {
		t.Fatal(rec.Err())
	}
	if n := strings.Count(file.String(), "\n"); n != 6 {
		t.Errorf("%d lines", n)
	}
	got := conversation(t, load(t, file.String()))
	// A stored message keeps the arguments of calls without white space.
	want[0] = func(m chat.Message) chat.Message {
		c := m.ToolCalls()[0]
		c.Args = `{"q":"<cats>"}`
		m.Parts = []chat.Part{c}
		return m
	}(want[0].(chat.Message))
	if !reflect.DeepEqual(got, want) {
		t.Errorf(" got %+v\nwant %+v\nrecording:\n%s", got, want, file.String())
	}

	m := load(t, file.String(), scripted.AnyRequest())
	for range 3 {
		_, _ = m.Generate(t.Context(), ask("whatever"))
	}
	_, err := m.Generate(t.Context(), ask("whatever"))
	var e *model.Error
	if !errors.As(err, &e) || e.Kind != model.ErrorRateLimit || e.RetryAfter != 2*time.Second || e.Status != 429 || e.Code != "c" {
		t.Errorf("error %v", err)
	}
	_, _ = m.Generate(t.Context(), ask("whatever"))
	if _, err = m.Generate(t.Context(), ask("whatever")); !errors.Is(err, context.DeadlineExceeded) || !model.Temporary(err) {
		t.Errorf("error %v", err)
	}
}

func record(t *testing.T, replies []scripted.Reply, reqs ...*model.Request) string {
	t.Helper()
	var file bytes.Buffer
	rec := scripted.Record(scripted.New(replies...), &file)
	for _, req := range reqs {
		generate(t, rec, req)
	}
	return file.String()
}

func TestAPlayedCallFindsItsRequest(t *testing.T) {
	file := record(t, []scripted.Reply{scripted.Text("1"), scripted.Text("2"), scripted.Text("3")}, ask("a"), ask("b"), ask("a"))
	m := load(t, file)
	var got string
	for _, q := range []string{"b", "a", "a"} {
		req := ask(q)
		req.Messages[0].ID, req.Messages[0].Metadata = "new", map[string]string{"k": "v"}
		got += generate(t, m, req).Text()
	}
	if got != "213" {
		t.Errorf("answers %s", got)
	}
	if _, err := m.Generate(t.Context(), ask("a")); !errors.Is(err, scripted.ErrScriptOver) {
		t.Errorf("error %v", err)
	}
}

func TestAnotherRequestThanTheRecordedIsExplained(t *testing.T) {
	zero, one := 0.0, 1.0
	recorded := ask("what is up")
	recorded.Temperature, recorded.MaxTokens = &zero, 10
	recorded.Tools = []chat.ToolSpec{{Name: "a"}}
	now := ask("what is down")
	now.Temperature, now.Seed = &one, new(int64)
	now.Messages = append(now.Messages, chat.User("and"))
	m := load(t, record(t, []scripted.Reply{scripted.Text("1")}, recorded))
	_, err := m.Generate(t.Context(), now)
	var e *scripted.ScriptError
	if !errors.As(err, &e) {
		t.Fatalf("error %v", err)
	}
	want := []string{
		"config.max_tokens: recorded 10, now missing",
		"config.seed: not recorded, now 0",
		"config.temperature: recorded 0, now 1",
		`messages[0].parts[0].text: recorded "what is up", now "what is down"`,
		`messages[1]: not recorded, now {"parts":[{"text":"and","type":"text"}],"role":"user"}`,
		`tools: recorded [{"name":"a"}], now missing`,
	}
	if !reflect.DeepEqual(e.Diff, want) {
		t.Errorf("got %q\nwant %q", e.Diff, want)
	}
	if !strings.Contains(err.Error(), want[3]) {
		t.Errorf("error %v", err)
	}
	if got := generate(t, m, recorded).Text(); got != "1" {
		t.Errorf("the failed call took the answer: %q", got)
	}
}

func TestAStreamThatItsCallerLeftEndsThere(t *testing.T) {
	var file bytes.Buffer
	rec := scripted.Record(scripted.New(scripted.Text("a b c")), &file)
	for range rec.Stream(t.Context(), ask("?")) {
		break
	}
	m := load(t, file.String())
	for c, err := range m.Stream(t.Context(), ask("?")) {
		if c.Text != "a " || err != nil {
			t.Errorf("%+v, error %v", c, err)
		}
		break
	}
	got, err := chunks(t.Context(), load(t, file.String()), ask("?"))
	var e *model.Error
	if len(got) != 1 || !errors.As(err, &e) || e.Kind != model.ErrorBrokenStream {
		t.Errorf("%+v, error %v", got, err)
	}
}

type failingWriter struct{}

var errDisk = errors.New("disk full")

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestARecordingThatCannotBeWrittenFailsTheCalls(t *testing.T) {
	m := scripted.New(scripted.Text("a").Repeat())
	rec := scripted.Record(m, failingWriter{})
	if _, err := rec.Generate(t.Context(), ask("?")); !errors.Is(err, errDisk) {
		t.Errorf("error %v", err)
	}
	if _, err := chunks(t.Context(), rec, ask("?")); !errors.Is(err, errDisk) || !errors.Is(rec.Err(), errDisk) {
		t.Errorf("error %v, Err %v", err, rec.Err())
	}
	if n := len(m.Requests()); n != 1 {
		t.Errorf("%d calls", n)
	}
	for _, leave := range []bool{true, false} {
		rec = scripted.Record(m, failingWriter{})
		var last error
		for _, err := range rec.Stream(t.Context(), ask("?")) {
			if last = err; leave {
				break
			}
		}
		if !errors.Is(rec.Err(), errDisk) || !leave && !errors.Is(last, errDisk) {
			t.Errorf("leave %v: error %v, Err %v", leave, last, rec.Err())
		}
	}
}

func TestABadRecordingIsRefusedByLine(t *testing.T) {
	const good = `{"v":2,"response":{"type":"ai","content":"hi"}}` + "\n"
	for text, want := range map[string]string{
		good + "{":                            "line 2: ",
		`{"v":1}`:                             "line 1: a recording of format 1; this version reads 2",
		`{"v":2}`:                             "line 1: neither a response nor an error",
		"\n" + `{"v":2,"error":{}}`:           "line 2: an error without text or kind",
		`{"v":2,"error":{"context":"tired"}}`: `line 1: error of an unknown context "tired"`,
		`{"v":2,"response":{"type":"king","content":"hi"}}`:                `line 1: chat: unknown role "king"`,
		good + `{"v":2,"request":{},"response":{"type":"ai","content":5}}`: "line 2: ",
	} {
		if _, err := scripted.Load(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if got := generate(t, load(t, good), ask("anything")).Text(); got != "hi" {
		t.Errorf("a line without request answers any: %q", got)
	}
	if _, err := scripted.Play(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestARecordingIsPlayedFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talk.jsonl")
	text := record(t, []scripted.Reply{scripted.Text("hi")}, ask("a"))
	// Edited by hand: the order of keys doesn't matter.
	text = strings.Replace(text, `"parts":[{"text":"a","type":"text"}],"role":"user"`, `"role":"user", "parts":[{"type":"text","text":"a"}]`, 1)
	if !strings.Contains(text, `"user", "parts"`) {
		t.Fatalf("the recording looks different now: %s", text)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Play(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := generate(t, m, ask("a")).Text(); got != "hi" {
		t.Errorf("text %q", got)
	}
}

// reusing is a model that writes each call that it streams where it wrote the one before.
type reusing struct{}

func (reusing) Generate(context.Context, *model.Request) (*model.Response, error) {
	return nil, errors.New("it streams")
}

func (reusing) Stream(context.Context, *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		calls := make([]chat.ToolCallChunk, 1)
		for _, c := range []chat.ToolCallChunk{{ID: "1", Name: "search", Args: `{"a":`}, {Args: `1}`}} {
			calls[0] = c
			if !yield(chat.Chunk{ToolCalls: calls}, nil) {
				return
			}
		}
	}
}

func TestARecordingHasEachPieceOfACallAsItCame(t *testing.T) {
	var out bytes.Buffer
	if _, err := chunks(t.Context(), scripted.Record(reusing{}, &out), ask("?")); err != nil {
		t.Fatal(err)
	}
	var args []string
	played, err := chunks(t.Context(), load(t, out.String()), ask("?"))
	for _, c := range played {
		for _, call := range c.ToolCalls {
			args = append(args, call.Args)
		}
	}
	if want := []string{`{"a":`, `1}`}; err != nil || !reflect.DeepEqual(args, want) {
		t.Errorf("played are %q, %v, want %q", args, err, want)
	}
}
