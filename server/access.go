package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/server/internal/db"
	"github.com/superstep-dev/superstep/server/internal/turn"
)

// Resource is what a request is about.
type Resource string

// The resources. What is done to runs is decided by the metadata of their thread.
const (
	Threads    Resource = "threads"
	Assistants Resource = "assistants"
	Runs       Resource = "runs"
	Crons      Resource = "crons"
	Store      Resource = "store"
	Chats      Resource = "chats"   // conversations with the dialogue, by its own routes
	Counters   Resource = "metrics" // those of the whole server
)

// Verb is what a request does.
type Verb string

// The verbs. CreateRun is that of [Runs]: the thread may have to be made for it,
// which is a [Create] of [Threads], except for runs without one. Cancelling a run
// is an Update of it, and so is an edit of a thread's state; putting an item into
// the store is an Update. A search covers counts and lists. A replay of a thread is a
// CreateRun and a [Read] of the thread, an import a Create and an Update.
const (
	Create    Verb = "create"
	CreateRun Verb = "create_run"
	Read      Verb = "read"
	Update    Verb = "update"
	Delete    Verb = "delete"
	Search    Verb = "search"
)

// Action is what a user wants to do.
type Action struct {
	Resource Resource
	Verb     Verb

	// ID is that of the thread (for Runs too), assistant or cron; empty in searches,
	// where many are meant, and for what gets an ID only when it is made.
	ID string

	// Metadata are those that the user wants written. What a function adds, changes
	// or removes here is what is written. Nil if the action writes none.
	Metadata map[string]json.RawMessage

	// Namespace and Key say what of the Store is meant. For Search a function may name
	// another Namespace, below which is searched then: say, that of the user in the
	// place of none.
	Namespace []string
	Key       string

	// Prefix is for functions to set, for the Store: the labels that stand before
	// the user's namespaces. The user reaches nothing that isn't below, and doesn't
	// see them. [NamespaceLabel] makes a label of an ID; "*" is none.
	Prefix []string
}

// Set writes a text to the metadata, if the action writes any.
func (a *Action) Set(name, value string) {
	if a.Metadata != nil {
		a.Metadata[name] = jsonText(value)
	}
}

// Filter selects resources by their metadata. The zero Filter selects all.
type Filter struct {
	any [][]condition // one of these has only conditions that hold
}

type condition struct{ name, value string }

// Where selects the resources that have a text in their metadata, by itself or in
// a list.
func Where(name, value string) Filter { return Filter{[][]condition{{{name, value}}}} }

// And selects the resources that both filters select.
func (f Filter) And(g Filter) Filter {
	if len(f.any) == 0 {
		return g
	}
	if len(g.any) == 0 {
		return f
	}
	var out Filter
	for _, a := range f.any {
		for _, b := range g.any {
			out.any = append(out.any, slices.Concat(a, b))
		}
	}
	return out
}

// Or selects the resources that one of the filters selects.
func (f Filter) Or(g Filter) Filter {
	if len(f.any) == 0 || len(g.any) == 0 {
		return Filter{}
	}
	return Filter{slices.Concat(f.any, g.any)}
}

// owner returns the owner that all have whom the filter selects; empty if that
// isn't all it asks.
func (f Filter) owner() string {
	if len(f.any) != 1 {
		return ""
	}
	for _, c := range f.any[0] {
		if c.name == "owner" {
			return c.value
		}
	}
	return ""
}

// all reports whether the filter selects everything.
func (f Filter) all() bool { return len(f.any) == 0 }

// allows reports whether the filter selects a resource by its metadata.
func (f Filter) allows(metadata json.RawMessage) bool {
	if f.all() {
		return true
	}
	o := objectOf(metadata)
	return slices.ContainsFunc(f.any, func(all []condition) bool {
		return !slices.ContainsFunc(all, func(c condition) bool {
			var list []any
			if json.Unmarshal(o[c.name], &list) == nil && list != nil {
				return !slices.Contains(list, any(c.value))
			}
			var text *string
			return json.Unmarshal(o[c.name], &text) != nil || text == nil || *text != c.value
		})
	})
}

// ErrForbidden says that a user may not do something. The text of an error that
// wraps it is told to the client; that of others is not.
var ErrForbidden = errors.New("forbidden")

// Authorizer decides what a user may do. It returns the filter that says which
// resources the user can see and change: others are as if they didn't exist (404;
// 409 for making or copying one), and searches leave them out. An error refuses
// the action altogether, with the status 403. It may be called several times for a
// request, by many goroutines at a time, and must not change anything but the
// action. What a user writes must be within the filter of the action too.
//
// Each graph's own assistant is there for all: filters hide it from searches, unless
// those are for the metadata created_by: system, but not from being read and run. For [Store], which has no metadata, the filter must be the zero one, and
// [Action.Prefix] says what the user can reach.
//
// It is called for the runs of crons as well, when they are due.
type Authorizer func(ctx context.Context, u *User, a *Action) (Filter, error)

// Authorize has a function decide what users may do. It needs a way of
// authentication.
func Authorize(f Authorizer) Option {
	return func(c *config) {
		if f == nil || c.authorize != nil {
			c.problems = append(c.problems, errors.New("server.Authorize needs one function, and can be given once"))
			return
		}
		c.authorize = f
	}
}

// OwnedByUser gives each user what the user made, and nothing else. Resources have
// the user's ID as "owner" in their metadata, whatever the client says. What a
// client calls a namespace of the store is below one that is named after the
// user's ID, as [NamespaceLabel] returns it. The server's metrics are for users
// with the permission "metrics:read".
func OwnedByUser() Authorizer {
	return func(_ context.Context, u *User, a *Action) (Filter, error) {
		switch a.Resource {
		case Store:
			a.Prefix = []string{NamespaceLabel(u.ID)}
			return Filter{}, nil
		case Counters:
			if !slices.Contains(u.Permissions, metricsPermission) {
				return Filter{}, fmt.Errorf("%w: the permission %s is needed", ErrForbidden, metricsPermission)
			}
			return Filter{}, nil
		}
		a.Set("owner", u.ID)
		return Where("owner", u.ID), nil
	}
}

const metricsPermission = "metrics:read"

// NamespaceLabel writes a user's ID as a label of a namespace of the long-term
// memory, which has no points: they are %2E, and a percent sign is %25. An asterisk,
// which stands for any label where namespaces are listed, is %2A. It is how nodes find
// what [OwnedByUser] keeps for a user, and users what nodes keep for them.
func NamespaceLabel(userID string) string {
	return strings.NewReplacer("%", "%25", ".", "%2E", "*", "%2A").Replace(userID)
}

// rule says what a route does, which is what the authoriser is asked.
type rule struct {
	resource Resource
	verb     Verb
	how      how
	stream   bool // it may take as long as a run
	json     bool // errors are JSON, whatever the client accepts

	refuse func(http.ResponseWriter, *http.Request, *turn.Fault) // tells of errors in the words of a protocol; nil: as all others
}

// how says who asks the authoriser, and about what.
type how int

const (
	byPath    how = iota // before the handler, about what the path names, or the resource as a whole
	byHandler            // the handler, which knows what the body says
	signedIn             // nobody: the route is for all who are authenticated
	open                 // nobody: the route is for all, without authentication
)

// access finds out who sends a request and what they may do, and notes it.
type access struct {
	*base
	authenticators []authenticator // none: everybody may do everything
	authorize      Authorizer      // nil: every user may do everything
	guesses        *guesses        // what of refused credentials is logged
	audit          *slog.Logger    // nil: changes are not logged
	open           *gauge          // streams
}

// admit lets a request in, or says why not: it finds out who sends it, and, where
// the path tells, whether they may. The function that it returns is to be called
// at the end.
func (s *access) admit(r *http.Request, rule rule) (*http.Request, *caller, func(), error) {
	c := &caller{rule: rule}
	r = r.WithContext(withCaller(r.Context(), c))
	leave := func() {}
	if rule.how == open {
		c.asked.Store(true)
		return r, c, leave, nil
	}
	var err error
	if c.user, err = s.identify(r); err != nil {
		return r, c, leave, err
	}
	if rule.stream {
		if leave, err = s.open.enter(clientOf(c.user, r)); err != nil {
			return r, c, func() {}, err
		}
	}
	if s.authorize == nil || rule.how == signedIn {
		c.asked.Store(true)
		return r, c, leave, nil
	}
	if rule.how == byPath {
		err = s.askPath(r, c)
	}
	return r, c, leave, err
}

// errForbidden is what a client is told.
var errForbidden = &fault{http.StatusForbidden, "forbidden"}

// ask asks the authoriser whether the user of a context may do something. The
// server itself may do everything.
func (s *access) ask(ctx context.Context, a *Action) (Filter, error) {
	c := callerOf(ctx)
	if s.authorize == nil || c == nil {
		return Filter{}, nil
	}
	if c.user == nil { // it has been authenticated, if by nothing else then by what stored it
		return Filter{}, errForbidden
	}
	f, err := s.authorize(ctx, c.user, a)
	if err == nil && a.Resource == Store && !f.all() {
		err = errors.New("the store has no metadata to filter by: set the action's Prefix instead")
	}
	if err == nil && slices.Contains(a.Prefix, "*") {
		err = errors.New(`the label "*" of the action's Prefix stands for any: use server.NamespaceLabel`)
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelInfo, "server: an action was refused", slog.String("user", c.user.ID),
			slog.String("resource", string(a.Resource)), slog.String("verb", string(a.Verb)), slog.Any("error", err))
		if told, ok := errors.AsType[*Refusal](err); ok {
			return Filter{}, &fault{http.StatusForbidden, told.Text}
		}
		if errors.Is(err, ErrForbidden) {
			return Filter{}, &fault{http.StatusForbidden, err.Error()}
		}
		return Filter{}, errForbidden
	}
	c.asked.Store(true)
	return f, nil
}

// stamp is ask for what writes metadata. It returns those to be written.
func (s *access) stamp(ctx context.Context, a *Action, metadata object) (object, Filter, error) {
	if s.authorize == nil || callerOf(ctx) == nil {
		return metadata, Filter{}, nil
	}
	a.Metadata = metadata.with() // not the caller's own
	f, err := s.ask(ctx, a)
	return a.Metadata, f, err
}

// stampNew is stamp for what the user is to see once it is made.
func (s *access) stampNew(ctx context.Context, a *Action, metadata object) (object, Filter, error) {
	metadata, f, err := s.stamp(ctx, a, metadata)
	if err == nil {
		err = within(f, metadata.raw())
	}
	return metadata, f, err
}

// within reports metadata that a user must not write, since the user would not
// see them any more.
func within(f Filter, metadata json.RawMessage) error {
	if f.allows(metadata) {
		return nil
	}
	return &fault{http.StatusForbidden, "forbidden: with these metadata it would be somebody else's"}
}

// askPath asks about what the path of a request names.
func (s *access) askPath(r *http.Request, c *caller) error {
	ctx := r.Context()
	a := &Action{Resource: c.rule.resource, Verb: c.rule.verb}
	switch {
	case r.PathValue("assistant") != "":
		found, _, err := s.findAssistant(ctx, r.PathValue("assistant"))
		if err != nil {
			return err
		}
		return s.askAssistant(ctx, a, found)
	case r.PathValue("cron") != "":
		id, err := pathID(r, "cron")
		if err != nil {
			return err
		}
		a.ID = id
		f, err := s.ask(ctx, a)
		if err != nil {
			return err
		}
		_, err = s.cron(ctx, id, f)
		return err
	case r.PathValue("thread") != "":
		id, err := pathThread(r)
		if err != nil {
			return err
		}
		a.ID = id
		t, err := s.db.Thread(ctx, id)
		return s.askThread(ctx, a, t, err)
	case r.PathValue("run") != "":
		run, err := s.findRun(r)
		if err != nil {
			return err
		}
		a.ID = run.ThreadID
		t, err := s.db.Thread(ctx, run.ThreadID)
		if err = s.askThread(ctx, a, t, err); isNotFound(err) {
			return notFound("Run not found")
		}
		return err
	}
	f, err := s.ask(ctx, a)
	if err == nil && !f.all() { // nothing that a filter could select
		return errForbidden
	}
	return err
}

func isNotFound(err error) bool {
	f, ok := errors.AsType[*fault](err)
	return ok && f.status == http.StatusNotFound || errors.Is(err, db.ErrNotFound)
}

// cron returns a cron that a filter selects.
func (s *access) cron(ctx context.Context, id string, f Filter) (*db.Cron, error) {
	c, err := s.db.Cron(ctx, id)
	if err == nil && !f.allows(c.Metadata) {
		err = db.ErrNotFound
	}
	return c, missing(err, "Cron not found")
}

// askThread asks about a thread that a database returned, with an error.
func (s *access) askThread(ctx context.Context, a *Action, t *db.Thread, failed error) error {
	if failed != nil && !errors.Is(failed, db.ErrNotFound) {
		return failed
	}
	f, err := s.ask(ctx, a)
	if err != nil {
		return err
	}
	if failed != nil || !f.allows(t.Metadata) {
		return noThread(a.ID)
	}
	return nil
}

// askAssistant asks about an assistant.
func (s *access) askAssistant(ctx context.Context, a *Action, found *db.Assistant) error {
	a.ID = found.ID
	f, err := s.ask(ctx, a)
	if err != nil {
		return err
	}
	if !seesAssistant(f, a.Verb, found) {
		return notFound(noAssistant)
	}
	return nil
}

// seesAssistant reports whether a filter selects an assistant. What each graph has
// is to be read by all.
func seesAssistant(f Filter, v Verb, a *db.Assistant) bool {
	return v == Read && a.ID == assistantOfGraph(a.GraphID) || f.allows(a.Metadata)
}

// usable returns an assistant that a user wants to run.
func (s *assistants) usable(ctx context.Context, id string) (*db.Assistant, *served, error) {
	a, g, err := s.findAssistant(ctx, id)
	if err == nil {
		err = s.access.askAssistant(ctx, &Action{Resource: Assistants, Verb: Read}, a)
	}
	if f, ok := errors.AsType[*fault](err); ok && f.text == noAssistant {
		err = notFound("No assistant found for %.200q: it must be the ID of an assistant or the name of a graph; graphs are %s", id, strings.Join(s.names, ", "))
	}
	if err != nil {
		return nil, nil, err
	}
	return a, g, nil
}

// askOf asks about a thread that need not exist yet, if its ID is one that the server gives,
// and reports whether it does.
func (s *access) askOf(ctx context.Context, a *Action) (exists bool, err error) {
	t, err := s.db.Thread(ctx, a.ID)
	if _, unfit := checkID("thread", a.ID); errors.Is(err, db.ErrNotFound) && unfit == nil {
		_, err := s.ask(ctx, a)
		return false, err
	}
	return err == nil, s.askThread(ctx, a, t, err)
}

// askStore asks about items of the store. It returns the namespace in which they
// are, and how many of its labels the user isn't shown.
func (s *access) askStore(ctx context.Context, v Verb, namespace []string, key string) (within []string, hidden int, err error) {
	a := &Action{Resource: Store, Verb: v, Namespace: slices.Clone(namespace), Key: key}
	if _, err := s.ask(ctx, a); err != nil {
		return nil, 0, err
	}
	if v == Search {
		namespace = a.Namespace
	}
	return slices.Concat(a.Prefix, namespace), len(a.Prefix), nil
}
