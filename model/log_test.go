package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// logger logs into a string, without the time.
func logger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}})), &b
}

func TestCallsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := logger(slog.LevelDebug)
		s := scripted.New(
			scripted.Message(chat.Message{Model: "m-1", Parts: []chat.Part{chat.Text{Text: "hidden words"}, chat.ToolCall{Name: "a"}, chat.ToolCall{Name: "b"}}}).
				Usage(chat.Usage{Input: 5, Output: 7, CacheRead: 1, Reasoning: 2}).After(time.Second),
			scripted.Text("a b").After(time.Second).Every(time.Second),
			scripted.Text("a b"),
			scripted.Error(&model.Error{Provider: "p", Kind: model.ErrorAuth, Status: 401, Message: "wrong key"}).After(time.Second),
			scripted.Text("a b").Break(1, nil),
		)
		m := model.Logged(s, l, model.LogOptions{})
		req := ask("hidden question")
		req.Model = "m"
		req.Tools, req.Output = []chat.ToolSpec{{Name: "a"}, {Name: "b"}}, &model.Schema{Name: "form"}
		_, _ = m.Generate(t.Context(), req)
		_, _ = text(t.Context(), m, ask("?"), true)
		for range m.Stream(t.Context(), ask("?")) {
			break
		}
		_, _ = m.Generate(t.Context(), ask("?"))
		_, _ = text(t.Context(), m, ask("?"), true)
		want := `level=DEBUG msg="model request" messages=1 model=m tools=2 output=form
level=DEBUG msg="model answer" duration=1s model=m-1 finish=tool_calls input_tokens=5 output_tokens=7 cached_tokens=1 reasoning_tokens=2 tool_calls=a,b
level=DEBUG msg="model request" messages=1 stream=true
level=DEBUG msg="model answer" duration=3s finish=stop chunks=3 first_chunk=1s
level=DEBUG msg="model request" messages=1 stream=true
level=DEBUG msg="model answer" duration=0s abandoned=true chunks=1 first_chunk=0s
level=DEBUG msg="model request" messages=1
level=WARN msg="model failed" duration=1s kind=authentication error="p: authentication (HTTP 401): wrong key"
level=DEBUG msg="model request" messages=1 stream=true
level=WARN msg="model failed" duration=0s kind="broken stream" error="scripted: broken stream: the script breaks the answer here" chunks=1 first_chunk=0s
`
		if log.String() != want {
			t.Errorf("got\n%s\nwant\n%s", log, want)
		}
	})
}

func TestOnlyFailuresAreLoggedAboveDebug(t *testing.T) {
	l, log := logger(slog.LevelInfo)
	m := model.Logged(scripted.New(scripted.Text("a"), scripted.Error(errors.New("boom"))), l, model.LogOptions{Contents: true})
	_, _ = m.Generate(t.Context(), ask("?"))
	_, err := m.Generate(t.Context(), ask("?"))
	if err == nil || err.Error() != "boom" {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "error=boom") {
		t.Errorf("log\n%s", log)
	}
}

func TestContentsAreLoggedWhenAskedFor(t *testing.T) {
	l, log := logger(slog.LevelDebug)
	call := chat.ToolCall{ID: "1", Name: "f", Args: `{"a":1}`}
	bad := chat.ToolResult{CallID: "1", Name: "f", IsError: true, Content: []chat.Part{chat.Text{Text: "no"}}}
	m := model.Logged(model.Cached(scripted.New(scripted.Message(chat.Assistant("the answer", call))), "", &model.LRU{}), l, model.LogOptions{Contents: true})
	req := &model.Request{Messages: []chat.Message{
		chat.System("be brief"),
		{Role: chat.RoleUser, Parts: []chat.Part{
			chat.Text{Text: "see"}, chat.Image{Source: chat.Source{Data: []byte("abc"), MIME: "image/png"}}, chat.Audio{Source: chat.Source{FileID: "f1"}},
			chat.File{Source: chat.Source{URL: "https://x/y"}}, chat.File{Source: chat.Source{URL: "data:abc"}},
		}},
		{Role: chat.RoleAssistant, Parts: []chat.Part{chat.Reasoning{Text: "hm"}, call}},
		chat.ResultText(call, "fine"),
		{Role: chat.RoleTool, Parts: []chat.Part{bad}},
	}}
	for range 2 {
		if _, err := m.Generate(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		`content="system: be brief\nuser: see [image image/png 3 bytes] [audio file f1] [file https://x/y] [file URL of 8 bytes]\nassistant: [reasoning: hm] [call f {\"a\":1}]\ntool: [result of f: fine]\ntool: [error of f: no]"`,
		`content="the answer [call f {\"a\":1}]"`,
		`cached=true`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}

func TestSecretsAreMaskedEverywhere(t *testing.T) {
	key := "Zq81" + strings.Repeat("xY7", 10)
	secrets := []string{
		"sk-" + key, "sk-ant-api03-" + key, "sk_live_" + key, "AIza" + key, "ghp_" + key, "github_pat_" + key, "glpat-" + key, "hf_" + key, "gsk_" + key, "xai-" + key,
		"xoxb-12-" + key, "AKIA" + "ABCDEFGH12345678", "eyJhbGciOiJI." + key + "." + key,
		"Authorization: Bearer " + key, "authorization: " + key, `{"Authorization":"Token ` + key + `"}`, "bearer " + key, "Basic " + key,
		"https://x/v1?key=" + key + "&a=b", "https://x/v1?a=b&sig=" + key,
		`{"api_key": "` + key + `"}`, `{\"apiKey\": \"` + key + `\"}`, "X-Api-Key: " + key, "password=" + key, "client_secret = '" + key + "'", "access-token: " + key,
		"internal-" + key,
	}
	mask := []*regexp.Regexp{regexp.MustCompile(`internal-\w+`)}
	for _, secret := range secrets {
		if !strings.Contains(secret, key) && !strings.HasPrefix(secret, "AKIA") {
			t.Fatalf("bad test: %s", secret)
		}
		l, log := logger(slog.LevelDebug)
		call := chat.ToolCall{Name: secret, Args: secret}
		m := model.Logged(scripted.New(
			scripted.Message(chat.Message{Model: secret, Parts: []chat.Part{chat.Text{Text: "it is " + secret}, call}}),
			scripted.Error(&model.Error{Provider: "p", Kind: model.ErrorAuth, Message: "wrong key " + secret}),
		), l, model.LogOptions{Contents: true, Mask: mask})
		req := &model.Request{Messages: []chat.Message{chat.User("mine is " + secret), chat.ResultText(call, secret)}, Output: &model.Schema{Name: secret}}
		req.Model = secret
		_, _ = m.Generate(t.Context(), req)
		_, _ = text(t.Context(), m, req, true)
		if strings.Contains(log.String(), key) || strings.Contains(log.String(), "AKIAABC") || !strings.Contains(log.String(), "[masked]") {
			t.Errorf("%s is shown:\n%s", secret, log)
		}
	}
}

func TestWordsAreNotMasked(t *testing.T) {
	for _, s := range []string{"a risk-assessment-of-things", "the task-oriented-dialogues", "the key is under the mat", "two tokens: a and b", "a bearer of news"} {
		l, log := logger(slog.LevelDebug)
		_, _ = model.Logged(scripted.New(scripted.Text(s)), l, model.LogOptions{Contents: true}).Generate(t.Context(), ask("?"))
		if !strings.Contains(log.String(), fmt.Sprintf("content=%q", s)) {
			t.Errorf("%s: %s", s, log)
		}
	}
}

func TestAPasswordInAURLIsMasked(t *testing.T) {
	l, log := logger(slog.LevelDebug)
	m := model.Logged(model.Func(func(context.Context, *model.Request) (*model.Response, error) {
		return &model.Response{Message: chat.Assistant("ok")}, nil
	}), l, model.LogOptions{Contents: true})
	for _, s := range []string{
		"postgres://app:hunter2!x@db:5432/app", "dial https://me:hunter2!x@proxy.example.com/v1", "redis://:hunter2!x@cache:6379",
		"amqp://u:hunter2!x@[::1]/", `{"dsn":"mysql://u:hunter2!x@h/d"}`,
	} {
		log.Reset()
		if _, err := m.Generate(t.Context(), ask("use "+s)); err != nil {
			t.Fatal(err)
		}
		if got := log.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "[masked]@") {
			t.Errorf("%s is logged as %s", s, got)
		}
	}
	log.Reset()
	_, _ = m.Generate(t.Context(), ask("see http://host:80/path and mail a:b@c, https://h/@user:x@y"))
	if got := log.String(); strings.Contains(got, "[masked]") {
		t.Errorf("masked too much: %s", got)
	}
}
