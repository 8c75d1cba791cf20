package agenttest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) {
	// A package that Gemini's SDK imports starts it when the program does.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// spy is a testing.TB that notes what fails and runs its cleanups on demand.
type spy struct {
	testing.TB
	failures []string
	logs     []string
	cleanups []func()
}

type stop struct{}

func (s *spy) Helper()          {}
func (s *spy) Failed() bool     { return len(s.failures) > 0 }
func (s *spy) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }
func (s *spy) Logf(format string, a ...any) {
	s.logs = append(s.logs, fmt.Sprintf(format, a...))
}
func (s *spy) Errorf(format string, a ...any) {
	s.failures = append(s.failures, fmt.Sprintf(format, a...))
}
func (s *spy) Fatalf(format string, a ...any) {
	s.Errorf(format, a...)
	panic(stop{})
}

// spied runs a test with a spy, which then has what it reported.
func spied(t *testing.T, test func(tb testing.TB)) *spy {
	t.Helper()
	s := &spy{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stop{}) {
				panic(v)
			}
		}()
		test(s)
	}()
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	return s
}

// wants checks that exactly one failure was reported, and that it says all of
// what.
func (s *spy) wants(t *testing.T, what ...string) {
	t.Helper()
	if len(s.failures) != 1 {
		t.Errorf("reported %q, want one failure", s.failures)
		return
	}
	for _, w := range what {
		if !strings.Contains(s.failures[0], w) {
			t.Errorf("reported\n%s\nwithout %q", s.failures[0], w)
		}
	}
}

func (s *spy) passes(t *testing.T) {
	t.Helper()
	if len(s.failures) > 0 {
		t.Errorf("reported %q", s.failures)
	}
}

// answer asks a model in one of the two ways.
func answer(ctx context.Context, m model.Model, req *model.Request, stream bool) (chat.Message, error) {
	if !stream {
		resp, err := m.Generate(ctx, req)
		if err != nil {
			return chat.Message{}, err
		}
		return resp.Message, nil
	}
	resp, err := model.Collect(m.Stream(ctx, req))
	return resp.Message, err
}

// bothWays runs a test with Generate and with Stream.
func bothWays(t *testing.T, test func(t *testing.T, stream bool)) {
	t.Run("whole", func(t *testing.T) { test(t, false) })
	t.Run("streamed", func(t *testing.T) { test(t, true) })
}

func asking(text string) *model.Request {
	return &model.Request{Messages: []chat.Message{chat.User(text)}}
}
