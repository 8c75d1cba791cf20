package server

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/superstep-dev/superstep/server/internal/openaiapi"
)

// Routes returns what a server answers, as patterns of http.ServeMux.
func Routes(s *Server) (all []string) {
	for _, r := range s.routes {
		all = append(all, r.pattern)
	}
	slices.Sort(all)
	return all
}

// everyRoute returns the routes of a server that has a dialogue.
func everyRoute(t testing.TB) []route {
	t.Helper()
	b := &base{dialogue: &spokenFor{}, besideCtx: t.Context()}
	s := &Server{base: b}
	s.assemble(&access{base: b}, &config{})
	return s.routes
}

// CallID returns how OpenAI's clients name a question.
func CallID(thread, question string) string {
	id, _ := openaiapi.CallID(thread, question)
	return id
}

// Commands returns what clients may send to a thread.
func Commands() []string { return slices.Sorted(maps.Keys((&commands{}).commands())) }

func Public(ip string) bool { return public(netip.MustParseAddr(ip)) }

func Nesting(data []byte) int { return nesting(data) }

// ReadBody decodes text as the body of a request to start a run, to make a thread
// and so on, and returns what is wrong with it.
func ReadBody(data []byte) []error {
	var errs []error
	for _, v := range []any{&runBody{}, &[]*runBody{}, &threadBody{}, &cronBody{}, &historyQuery{}, &assistantBody{}, &v2Command{}, &v2Filter{}, &threadSearch{}, &replayBody{}} {
		err := checkJSON(data, Limits{}.withDefaults(0))
		if err == nil {
			err = decode(data, v)
		}
		errs = append(errs, err)
	}
	return errs
}

// Fault returns the status and the text of an error that clients are told.
func Fault(err error) (int, string, bool) {
	f, ok := err.(*fault)
	if !ok {
		return 0, "", false
	}
	return f.status, f.text, true
}

// ForgiveGuesses lets refused credentials be logged again.
func ForgiveGuesses(s *Server) {
	limit := s.items.access.guesses.limit
	limit.SetBurstAt(time.Now(), 1000)
	limit.SetLimit(rate.Inf)
}

// Silence sets after which time without a sign of life an instance counts as dead.
func Silence(d time.Duration) Option { return func(c *config) { c.silence = d } }

// Lease sets within which time a server must have called a webhook until another
// one does.
func Lease(d time.Duration) Option { return func(c *config) { c.lease = d } }

// Log is what is kept of a run's events.
type Log struct {
	Run, Thread string
	Size        int
}

// Logs returns the logs of runs that a server keeps.
func Logs(s *Server) (out []Log) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	for thread, one := range s.feeds.byThread {
		for _, ev := range one.events {
			if i := len(out) - 1; i >= 0 && out[i].Run == ev.Run {
				out[i].Size += len(ev.Data) + eventCost
			} else {
				out = append(out, Log{ev.Run, thread, len(ev.Data) + eventCost})
			}
		}
	}
	return out
}

// FeedsInUse counts the feeds that somebody uses.
func FeedsInUse(s *Server) (n int) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	for _, one := range s.feeds.byThread {
		if one.users > 0 {
			n++
		}
	}
	return n
}

// Sweep does what a server does each second.
func Sweep(s *Server) {
	s.feeds.sweep(time.Now())
}

// ReplayTime sets how long a replay may take.
func ReplayTime(d time.Duration) Option { return func(c *config) { c.replayTime = d } }
