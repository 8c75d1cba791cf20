package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(text string) *model.Request {
	return &model.Request{Messages: []chat.Message{chat.User(text)}}
}

// failure is an error of a provider.
func failure(k model.ErrorKind) *model.Error { return &model.Error{Provider: "test", Kind: k} }

// text is what a call of Generate or, with stream, of Stream answers.
func text(ctx context.Context, m model.Model, req *model.Request, stream bool) (string, error) {
	var resp *model.Response
	var err error
	if stream {
		resp, err = model.Collect(m.Stream(ctx, req))
	} else {
		resp, err = m.Generate(ctx, req)
	}
	if resp == nil {
		return "", err
	}
	return resp.Message.Text(), err
}

// bothWays runs a test for Generate and for Stream.
func bothWays(t *testing.T, f func(t *testing.T, stream bool)) {
	t.Run("Generate", func(t *testing.T) { f(t, false) })
	t.Run("Stream", func(t *testing.T) { f(t, true) })
}

func TestWhichErrorsMayPass(t *testing.T) {
	for kind, want := range map[model.ErrorKind]bool{
		model.ErrorRateLimit: true, model.ErrorOverloaded: true, model.ErrorServer: true, model.ErrorTimeout: true,
		model.ErrorConnection: true, model.ErrorBrokenStream: true,
		model.ErrorQuota: false, model.ErrorAuth: false, model.ErrorNotFound: false, model.ErrorContextLength: false,
		model.ErrorFilter: false, model.ErrorInvalid: false, model.ErrorResponse: false, "": false,
	} {
		if got := model.Temporary(fmt.Errorf("node: %w", failure(kind))); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if model.Temporary(io.EOF) || model.Temporary(nil) {
		t.Error("an error that is no provider's may pass")
	}
}

func TestErrorsSayWhatTheProviderSaid(t *testing.T) {
	for _, tt := range []struct {
		err  model.Error
		want string
	}{
		{model.Error{Provider: "p", Kind: model.ErrorServer}, "p: server"},
		{model.Error{Provider: "p", Kind: model.ErrorServer, Status: 500, Message: "oh", Err: io.EOF}, "p: server (HTTP 500): oh"},
		{model.Error{Provider: "p", Kind: model.ErrorConnection, Err: io.EOF}, "p: connection: EOF"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if err := (&model.Error{Err: io.EOF}); !errors.Is(err, io.EOF) {
		t.Error("the cause is lost")
	}
}

func TestAFunctionIsAModel(t *testing.T) { // W5-05
	bothWays(t, func(t *testing.T, stream bool) {
		boom := errors.New("boom")
		m := model.Func(func(_ context.Context, req *model.Request) (*model.Response, error) {
			if req.Messages[0].Text() == "fail" {
				return nil, boom
			}
			return &model.Response{Message: chat.Assistant("hi")}, nil
		})
		if got, err := text(t.Context(), m, ask("?"), stream); got != "hi" || err != nil {
			t.Errorf("%q, error %v", got, err)
		}
		if _, err := text(t.Context(), m, ask("fail"), stream); !errors.Is(err, boom) {
			t.Errorf("error %v", err)
		}
	})
}

// W5-06: the vocabulary of package chat is that of package model.
func TestTheVocabularyIsThatOfChat(t *testing.T) {
	// It wouldn't compile if the types weren't the same.
	same := []bool{
		isSame(model.Message{}, chat.Message{}), isSame(model.Role(""), chat.RoleUser), isSame(model.ToolSpec{}, chat.ToolSpec{}),
		isSame(model.ToolCall{}, chat.ToolCall{}), isSame(model.Usage{}, chat.Usage{}),
	}
	if slices.Contains(same, false) {
		t.Error(same)
	}
}

func isSame[T any](a, b T) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }
