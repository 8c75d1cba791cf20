package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// Audit sets where every change is logged, and every attempt at one: who did what
// to which resource, and with what result. Requests whose credentials were refused
// are logged whatever they were for. Without it, this is logged where everything is,
// if there is authentication, and not at all if there is none.
//
// Records are of level Info with the message "audit" and these attributes:
//
//	user      who; empty without authentication, or if it failed
//	from      the address of the client; absent for what the server does itself
//	resource  threads, assistants, runs, crons or store; absent if there is none
//	verb      create, create_run, update or delete; of refused credentials others too
//	route     such as PATCH /threads/{thread}
//	command   the command, if the route carries out several
//	status    of HTTP; 101 for what was done over a WebSocket
//	error     why a command was refused, as a code; wrong_credentials or no_credentials
//	left_out  how many refused credentials were not logged before this one, since
//	          there were too many
//
// and the IDs thread, run, assistant and cron, as far as the request names them
// or made them. Nothing else that clients send is logged: no bodies, no headers,
// no keys.
func Audit(l *slog.Logger) Option { return func(c *config) { c.audit = l } }

// note adds an ID to what is logged of a request.
func note(ctx context.Context, what, id string) {
	c := callerOf(ctx)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.noted) < 2*maxPage {
		c.noted = append(c.noted, slog.String(what, id))
	}
}

// changes reports whether a verb does.
func (v Verb) changes() bool { return v != Read && v != Search }

// audited logs a request that changes something, or would have, and one whose
// credentials were refused.
func (s *access) audited(r *http.Request, c *caller, status int, failed error) {
	if s.audit == nil {
		return
	}
	why := ""
	switch failed {
	case errWrongCredentials:
		why = "wrong_credentials"
	case errNoCredentials:
		why = "no_credentials"
	default:
		if !c.rule.verb.changes() || c.rule.how == open || c.rule.how == signedIn {
			return
		}
	}
	attrs := append(s.who(r, c, c.rule.resource, c.rule.verb), slog.Int("status", status))
	if why != "" {
		missed, ok := s.guesses.next()
		if !ok {
			return
		}
		attrs = append(attrs, slog.String("error", why))
		if missed > 0 {
			attrs = append(attrs, slog.Int64("left_out", missed))
		}
	}
	s.audit.LogAttrs(r.Context(), slog.LevelInfo, "audit", append(attrs, s.ids(r, c)...)...)
}

// guesses bounds how much is logged of those who try keys, which costs them nothing.
type guesses struct {
	limit  *rate.Limiter
	missed atomic.Int64
}

func newGuesses() *guesses { return &guesses{limit: rate.NewLimiter(10, 100)} }

// next reports whether one more is logged, and how many before it were not.
func (g *guesses) next() (missed int64, ok bool) {
	if !g.limit.Allow() {
		g.missed.Add(1)
		return 0, false
	}
	return g.missed.Swap(0), true
}

// auditedCommand is audited for a command of the protocol's second version.
func (s *access) auditedCommand(r *http.Request, thread string, cmd *v2Command, a *v2Answer) {
	c := callerOf(r.Context())
	if s.audit == nil || c == nil {
		return
	}
	switch cmd.Method {
	case "run.start", "input.respond", "state.fork":
	default:
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodGet {
		status = http.StatusSwitchingProtocols
	}
	attrs := append(s.who(r, c, Runs, CreateRun), slog.String("command", cmd.Method), slog.Int("status", status))
	if a.Error != "" {
		attrs = append(attrs, slog.String("error", a.Error))
	}
	attrs = append(attrs, s.ids(r, c)...)
	if !slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "thread" }) {
		attrs = append(attrs, slog.String("thread", thread))
	}
	s.audit.LogAttrs(r.Context(), slog.LevelInfo, "audit", attrs...)
	c.mu.Lock()
	c.noted = nil // of this command
	c.mu.Unlock()
}

// auditedSelf logs a change that the server makes by itself, for a user.
func (s *access) auditedSelf(ctx context.Context, res Resource, v Verb, what string, ids ...slog.Attr) {
	if s.audit == nil {
		return
	}
	user := ""
	if u := userOf(ctx); u != nil {
		user = u.ID
	}
	attrs := []slog.Attr{
		slog.String("user", user), slog.String("resource", string(res)), slog.String("verb", string(v)), slog.String("route", what),
	}
	s.audit.LogAttrs(ctx, slog.LevelInfo, "audit", append(attrs, ids...)...)
}

func (s *access) who(r *http.Request, c *caller, res Resource, v Verb) []slog.Attr {
	user := ""
	if c.user != nil {
		user = c.user.ID
	}
	attrs := []slog.Attr{slog.String("user", user), slog.String("from", hostOf(r))}
	if res != "" {
		attrs = append(attrs, slog.String("resource", string(res)), slog.String("verb", string(v)))
	}
	return append(attrs, slog.String("route", r.Pattern))
}

// ids returns what a request names and has made.
func (s *access) ids(r *http.Request, c *caller) []slog.Attr {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(c.noted)
	for _, name := range []string{"thread", "run", "assistant", "cron"} {
		id := r.PathValue(name)
		if id == "" || slices.ContainsFunc(out, func(a slog.Attr) bool { return a.Key == name }) {
			continue
		}
		// A client might have put anything there, its key for one.
		if _, err := uuid.Parse(id); err != nil && (name != "assistant" || s.graphs[id] == nil) {
			id = "invalid"
		}
		out = append(out, slog.String(name, id))
	}
	return out
}
