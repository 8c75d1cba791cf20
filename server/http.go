package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/openapi"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// fault is an error that a client is told, with a status of HTTP. The text is the
// body: clients show it as it is.
type fault struct {
	status int
	text   string
}

func (f *fault) Error() string { return f.text }

func notFound(format string, args ...any) error {
	return &fault{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

// missing is notFound for an error that says that something isn't in the database.
func missing(err error, format string, args ...any) error {
	if errors.Is(err, db.ErrNotFound) {
		return notFound(format, args...)
	}
	return err
}

// unlessGone returns an error, but that something isn't in the database any more.
func unlessGone(err error) error {
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	return err
}

func conflict(format string, args ...any) error {
	return &fault{http.StatusConflict, fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) error {
	return &fault{http.StatusUnprocessableEntity, fmt.Sprintf(format, args...)}
}

// malformed is for what isn't even of the right form.
func malformed(format string, args ...any) error {
	return &fault{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// route is a line of the table of what the server answers, in which each part has its
// own lines.
type route struct {
	pattern   string // of http.ServeMux
	operation string // by which package openapi describes it
	rule      rule
	answer    handler
}

// handler returns the answer to a request: what is written as JSON, a bare status, or nil if it
// has written the answer itself.
type handler func(http.ResponseWriter, *http.Request) (any, error)

// bare is an answer without a body.
type bare int

const noContent bare = http.StatusNoContent

// itself is a handler that writes the answer itself.
func itself(f func(http.ResponseWriter, *http.Request) error) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) { return nil, f(w, r) }
}

// with is a handler that is given what of a request can be refused.
func with[T any](find func(*http.Request) (T, error), f func(http.ResponseWriter, *http.Request, T) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		v, err := find(r)
		if err != nil {
			return nil, err
		}
		return f(w, r, v)
	}
}

// given is a handler of a request with a body.
func given[B any](f func(http.ResponseWriter, *http.Request, *B) (any, error)) handler {
	return with(func(r *http.Request) (*B, error) {
		b := new(B)
		return b, read(r, b)
	}, f)
}

// onThread is a handler for the thread in the path.
func (s *base) onThread(f func(http.ResponseWriter, *http.Request, *db.Thread) (any, error)) handler {
	return with(s.threadOf, f)
}

// onRun is a handler for the run in the path.
func (s *base) onRun(f func(http.ResponseWriter, *http.Request, *db.Run) (any, error)) handler {
	return with(s.findRun, f)
}

// onAssistant is a handler for the assistant in the path.
func (s *base) onAssistant(f func(http.ResponseWriter, *http.Request, *db.Assistant, *served) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		a, g, err := s.findAssistant(r.Context(), r.PathValue("assistant"))
		if err != nil {
			return nil, err
		}
		return f(w, r, a, g)
	}
}

// describe describes routes in OpenAPI.
func describe(version string, credentials bool, routes []route) ([]byte, error) {
	shown := make([]openapi.Route, len(routes))
	for i, r := range routes {
		shown[i] = openapi.Route{Pattern: r.pattern, Operation: r.operation, Open: r.rule.how == open}
	}
	return openapi.JSON(version, credentials, shown)
}

// handler answers requests by a table of routes.
func (s *gate) handler(routes []route, studio bool) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.pattern, s.handle(r))
	}
	for _, p := range s.pages {
		mux.Handle(p.prefix, p.handler)
	}
	if studio {
		mux.Handle("GET /{$}", http.RedirectHandler("studio/", http.StatusFound))
	}
	return s.timed(s.guarded(s.metrics.measure(mux)))
}

// handle makes a handler of a route: errors become answers.
func (s *gate) handle(of route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), boundsKey{}, s.bounds))
		r, c, leave, err := s.access.admit(r, of.rule)
		began := &beginning{ResponseWriter: w, may: &c.asked}
		defer s.end(r, c, began, leave, &err) // apart, as in guarded
		if err == nil {
			err = reply(began, r, of.answer)
		}
	})
}

// end ends an answer to a request: with what came of it, or says that its handler
// panicked.
func (s *gate) end(r *http.Request, c *caller, began *beginning, leave func(), of *error) {
	defer leave()
	defer func() { s.access.audited(r, c, began.status, *of) }()
	if p := recover(); p != nil {
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.log.LogAttrs(r.Context(), slog.LevelError, "server: a handler panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if !began.done {
			s.refuse(r, c, began, &turn.Fault{Status: http.StatusInternalServerError, Text: "internal error"})
		}
		return
	}
	if *of == nil && !c.asked.Load() {
		*of = errNotAsked
	}
	// A body that takes too long looks like a client that has gone.
	err, gone := *of, r.Context().Err() != nil && !errors.Is(*of, errSlowBody)
	if err == nil || began.done || gone {
		if err != nil && r.Context().Err() == nil {
			s.log.LogAttrs(r.Context(), slog.LevelWarn, "server: an answer broke off", slog.String("path", r.URL.Path), slog.Any("error", err))
		}
		return
	}
	f := s.Explain(r, err)
	switch f.Status {
	case http.StatusUnauthorized:
		began.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests:
		began.Header().Set("Retry-After", retryAfter)
	}
	s.refuse(r, c, began, f)
}

// refuse answers with an error, of which nobody need be asked.
func (s *gate) refuse(r *http.Request, c *caller, w http.ResponseWriter, f *turn.Fault) {
	c.asked.Store(true)
	if c.rule.refuse != nil {
		c.rule.refuse(w, r, f)
		return
	}
	refuse(w, r, &fault{f.Status, f.Text})
}

// refuse answers with an error: in plain text, which LangGraph's client for
// JavaScript shows as it is, or as JSON.
func refuse(w http.ResponseWriter, r *http.Request, f *fault) {
	text := printable(f.text)
	if !readsJSON(r) {
		http.Error(w, text, f.status)
		return
	}
	data, err := json.Marshal(map[string]string{"detail": text})
	if err != nil { // of a text there is none
		http.Error(w, text, f.status)
		return
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(f.status)
	_, _ = w.Write(data) // a client that has gone needs no error
}

// readsJSON reports whether a client finds the text of an error only in a member of
// an object: LangGraph's client for Python, which accepts anything, and whoever
// accepts JSON but no plain text.
func readsJSON(r *http.Request) bool {
	if c := callerOf(r.Context()); c != nil && c.rule.json {
		return true
	}
	if strings.HasPrefix(r.UserAgent(), "langgraph-sdk-py/") {
		return true
	}
	wanted := false
	for _, accepted := range r.Header.Values("Accept") {
		for one := range strings.SplitSeq(accepted, ",") {
			kind, given, err := mime.ParseMediaType(one)
			if q, bad := strconv.ParseFloat(given["q"], 64); err != nil || bad == nil && q == 0 {
				continue
			}
			switch kind {
			case "text/plain", "text/*", "*/*":
				return false
			case "application/json", "application/*":
				wanted = true
			}
		}
	}
	return wanted
}

// printable makes text of an error fit to be shown, whatever a client has put in.
func printable(text string) string {
	const most = 2000
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// errNotAsked is the fault of a handler: nothing of its answer is sent.
var errNotAsked = errors.New("nobody was asked whether the user may do this")

// beginning notes whether an answer has begun.
type beginning struct {
	http.ResponseWriter
	may    *atomic.Bool // answer
	done   bool
	status int
}

func (b *beginning) WriteHeader(status int) {
	if !b.may.Load() {
		return
	}
	if !b.done {
		b.status = status
	}
	b.done = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *beginning) Write(p []byte) (int, error) {
	if !b.may.Load() {
		return 0, errNotAsked
	}
	if !b.done {
		b.status = http.StatusOK
	}
	b.done = true
	return b.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach what flushes.
func (b *beginning) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// explain says what a client is told about an error. What is the server's own
// matter is logged and not told.
func (s *base) explain(r *http.Request, err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("body is larger than %d bytes", tooLarge.Limit)}
	}
	switch {
	case errors.Is(err, graph.ErrThreadBusy), errors.Is(err, checkpoint.ErrBusy), errors.Is(err, db.ErrBusy):
		return &fault{http.StatusConflict, "Thread is busy"}
	case errors.Is(err, checkpoint.ErrNotFound), errors.Is(err, db.ErrNotFound):
		return &fault{http.StatusNotFound, "not found"}
	case errors.Is(err, graph.ErrNothingToResume):
		return &fault{http.StatusUnprocessableEntity, err.Error()}
	}
	if text, ok := misfit(err); ok {
		return &fault{http.StatusConflict, text}
	}
	if e, ok := errors.AsType[*graph.AnswerError](err); ok {
		return &fault{http.StatusUnprocessableEntity, e.Error()}
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "server: request failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	return &fault{http.StatusInternalServerError, "internal error"}
}

// read decodes a request's body; an empty one leaves v as it is.
func read(r *http.Request, v any) error {
	data, err := receive(r.Context(), clientOf(userOf(r.Context()), r), r.Body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := checkJSON(data, limitsOf(r.Context())); err != nil {
		return err
	}
	return decode(data, v)
}

func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return invalid("%s must not be a JSON %s", cmp.Or(memberOf(reflect.TypeOf(v).Elem(), e.Field), "body"), e.Value)
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	if err != nil {
		return malformed("body is not JSON as expected: %v", err)
	}
	return nil
}

// memberOf is the path of a member of a body without the embedded types that encoding/json
// names in it.
func memberOf(t reflect.Type, path string) string {
	first, rest, more := strings.Cut(path, ".")
	if !more || t.Kind() != reflect.Struct {
		return path
	}
	if f, ok := t.FieldByName(first); ok && f.Anonymous && f.Tag.Get("json") == "" {
		return memberOf(f.Type, rest)
	}
	return path
}

// reply answers with what a handler returns.
func reply(w http.ResponseWriter, r *http.Request, answer handler) error {
	v, err := answer(w, r)
	if err != nil || v == nil {
		return err
	}
	if status, ok := v.(bare); ok {
		w.WriteHeader(int(status))
		return nil
	}
	return write(w, v)
}

// write answers with JSON.
func write(w http.ResponseWriter, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(data)
	return err
}

// views shows each of a list.
func views[T, V any](list []T, view func(T) V) []V {
	out := make([]V, len(list))
	for i, one := range list {
		out[i] = view(one)
	}
	return out
}

// found is what a search has found.
type found struct {
	db.Page
	shown, total int
	list         func() (any, error) // as clients see it
}

// listing is a handler of a search, which shows a page of what is found.
func listing[Q any](find func(*http.Request, *Q) (*found, error)) handler {
	return given(func(w http.ResponseWriter, r *http.Request, q *Q) (any, error) {
		f, err := find(r, q)
		if err != nil {
			return nil, err
		}
		list, err := f.list()
		if err != nil {
			return nil, err
		}
		w.Header().Set("X-Pagination-Total", strconv.Itoa(f.total))
		if next := f.Offset + f.shown; next > 0 && next < f.total {
			w.Header().Set("X-Pagination-Next", strconv.Itoa(next))
		}
		return list, nil
	})
}

// counting is listing for the number of what is found.
func counting[Q any](find func(*http.Request, *Q) (*found, error)) handler {
	return given(func(_ http.ResponseWriter, r *http.Request, q *Q) (any, error) {
		f, err := find(r, q)
		if err != nil {
			return nil, err
		}
		return f.total, nil
	})
}

// searching is the part that all searches have whose pages are numbered.
type searching struct {
	paging
	Metadata object   `json:"metadata"`
	Select   []string `json:"select"`
}

// checkSearch returns the page that a search asks for, and by which column it is sorted: one of
// those that clients know by some names.
func (s *base) checkSearch(q *searching, members []string, names ...string) (db.Page, string, error) {
	p, err := q.page(10)
	by, unsorted := sorting(q.SortBy, names...)
	return p, by, errors.Join(err, unsorted, checkSelect(q.Select, members), s.checkFilter("metadata", q.Metadata))
}

// paging is the part of a search that selects a page.
type paging struct {
	Limit     *int   `json:"limit"`
	Offset    int    `json:"offset"`
	SortBy    string `json:"sort_by"`
	SortOrder string `json:"sort_order"`
}

const maxPage = 1000

func (p paging) page(limit int) (db.Page, error) {
	if p.Limit != nil {
		limit = *p.Limit
	}
	if limit < 0 || limit > maxPage {
		return db.Page{}, invalid("limit must be between 0 and %d", maxPage)
	}
	if p.Offset < 0 {
		return db.Page{}, invalid("offset must not be negative")
	}
	return db.Page{Limit: limit, Offset: p.Offset, Ascending: p.SortOrder == "asc"}, oneOf("sort_order", p.SortOrder, "asc", "desc")
}

// sorting maps names of clients to those of columns.
func sorting(by string, names ...string) (string, error) {
	if by == "" {
		return "created", nil
	}
	return strings.TrimSuffix(by, "_at"), oneOf("sort_by", by, names...)
}

// pathID returns the ID of a run, cron, … in the path, which must be a UUID.
func pathID(r *http.Request, name string) (string, error) { return checkID(name, r.PathValue(name)) }

func checkID(name, id string) (string, error) {
	u, err := uuid.Parse(id)
	if err != nil || len(id) != 36 {
		return "", invalid("Invalid %s ID: %.80q is not a UUID", name, id)
	}
	return u.String(), nil
}

// optionalID is checkID for an ID that may be left out.
func optionalID(name, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	return checkID(name, id)
}

// pathThread is threadID for the path.
func pathThread(r *http.Request) (string, error) { return threadID(r.PathValue("thread")) }

// threadID reads the ID of a thread, which may be left out. The server makes threads with
// UUIDs alone, but nodes spawn them by any name.
func threadID(id string) (string, error) {
	u, err := checkID("thread", id)
	if err != nil && checkName("thread", id) == nil {
		return id, nil
	}
	return u, err
}

// noThread says that there is no thread of an ID, or none that the user sees.
func noThread(id string) error {
	if _, err := checkID("thread", id); err != nil {
		return errors.Join(err, db.ErrNotFound)
	}
	return notFound("Thread with ID %s not found", id)
}

// lastEvent reads the ID of the last event that a client has read: -1 is that it wants all.
func lastEvent(r *http.Request) (id int64, given bool, err error) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return 0, false, nil
	}
	if id, err = strconv.ParseInt(last, 10, 64); err != nil || id < -1 {
		return 0, true, invalid("Last-Event-ID must be the ID of an event, or -1 for all, not %.80q", last)
	}
	return id, true, nil
}

// oneOf refuses what is none of some values; it may be left out.
func oneOf(name, value string, values ...string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	last := len(values) - 1
	return invalid("%s must be %s or %s, not %.80q", name, strings.Join(values[:last], ", "), values[last], value)
}

// flag reads a boolean parameter of a query, in any of the spellings of clients.
func flag(r *http.Request, name string) (bool, error) {
	switch v := r.URL.Query().Get(name); v {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, invalid("%s must be true or false, not %.80q", name, v)
	}
}

// number reads a parameter of a query that is a number between two.
func number(r *http.Request, name string, otherwise, least, most int) (int, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, invalid("%s must be a number from %d to %d, not %.80q", name, least, most, v)
	}
	return n, nil
}

// now is the time with the precision that clients are shown.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// instant is a time as clients see it: in the form of Python's isoformat, which is
// that of LangGraph's servers, in UTC and to the microsecond.
type instant time.Time

func (t instant) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000-07:00"), nil
}

// IsZero is for omitzero.
func (t instant) IsZero() bool { return time.Time(t).IsZero() }

// background is a context that outlives the request.
func background(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }
