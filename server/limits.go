package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// Limits bound what clients can ask of a server. Zero means the default that each
// says, a negative number no limit. What is over a limit is refused with a text
// that says so: 413 for a body, 422 for what is in it, 429 for what clients may
// try again later.
type Limits struct {
	Body        int64         // bytes of a request's body; 16 MB, or what [MaxBody] says
	BodyTimeout time.Duration // for a body, or a message of a WebSocket, to arrive; a minute
	Depth       int           // of the nesting of JSON; 200
	Metadata    int           // bytes of a resource's metadata, and of what a search compares; 64 KB
	Batch       int           // runs of a batch, or IDs of a list; 1000
	Read        int           // bytes of the states that a search or a history reads, unless it is one, and 8 for each value that it compares; 64 MB

	// For a client to read what is sent to it, a quarter of a megabyte at a time, before
	// it is cut off; a minute.
	ReaderTimeout time.Duration

	// Bytes of bodies, and of messages of WebSockets, that have not arrived whole: 256 MB
	// and, for each client, as of Streams, 64 MB, or more if Body needs it.
	Bodies          int
	BodiesPerClient int

	// Bytes of what is told of threads, which is kept in memory for those who read it, up
	// to five minutes after the last of them and the last run: of one thread 64 MB, of
	// which the oldest events go; of one user 128 MB, and of all 256 MB, of which those go
	// that were left first. A reader who comes later gets what the database has: the
	// state, and the events of runs that were begun with stream_resumable or where servers
	// share a database.
	Log         int
	LogsPerUser int
	Logs        int

	// Runs that have not ended, those that wait or are planned included; 10,000 and,
	// for each user, 1,000.
	OpenRuns        int
	OpenRunsPerUser int

	// Requests that wait for runs or stream events; 10,000 and, for each user, or
	// address without authentication, 1,000. A proxy is one address.
	Streams          int
	StreamsPerClient int
}

// WithLimits sets limits.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// The parts of the limits that have no setting.
const (
	maxName   = 1000 // bytes of the name of something
	maxFilter = 1000 // commas of what a search compares: as many members and elements
)

func (l Limits) withDefaults(body int64) Limits {
	or := func(limit *int, otherwise int) { *limit = cmp.Or(*limit, otherwise) }
	or(&l.Depth, 200)
	or(&l.Metadata, 64<<10)
	or(&l.Batch, maxPage)
	or(&l.Read, 64<<20)
	or(&l.Log, 64<<20)
	or(&l.LogsPerUser, 128<<20)
	or(&l.Logs, 256<<20)
	or(&l.OpenRuns, 10_000)
	or(&l.OpenRunsPerUser, 1_000)
	or(&l.Streams, 10_000)
	or(&l.StreamsPerClient, 1_000)
	l.Body = cmp.Or(l.Body, body)
	or(&l.Bodies, max(256<<20, 4*int(l.Body)))
	or(&l.BodiesPerClient, max(64<<20, int(l.Body)))
	l.BodyTimeout = cmp.Or(l.BodyTimeout, time.Minute)
	l.ReaderTimeout = cmp.Or(l.ReaderTimeout, time.Minute)
	return l
}

// patience bounds what a client takes its time for.
func (l Limits) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if l.ReaderTimeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, l.ReaderTimeout)
}

// over reports whether something is over a limit.
func over(n, limit int) bool { return limit >= 0 && n > limit }

// HTTPServer returns a server of HTTP for a handler, such as a [Server], with
// timeouts for clients that open connections and send nothing, or headers without
// end. Bodies have a timeout of their own, which [Limits] sets, and streams are
// ended when their reader stands still for a minute; the http.Server must have
// neither a ReadTimeout nor a WriteTimeout, which would end streams that are fine.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
}

// checkJSON refuses text that the server would not want to pass on, before it is
// read as JSON: what isn't UTF-8, and what is nested too deeply.
func checkJSON(data []byte, l Limits) error {
	if !utf8.Valid(data) {
		return malformed("body is not UTF-8")
	}
	if depth := nesting(data); over(depth, l.Depth) {
		return invalid("body is nested too deeply: more than %d levels", l.Depth)
	}
	return nil
}

// nesting returns how deeply JSON is nested. Of other text it returns any number.
func nesting(data []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

// checkMetadata refuses metadata that are too large, or that not all databases
// can hold.
func (s *base) checkMetadata(o object) error {
	data := o.raw()
	if over(len(data), s.limits.Metadata) {
		return invalid("metadata is larger than %d bytes", s.limits.Metadata)
	}
	return noZero("metadata", data)
}

// checkFilter refuses what a search would compare for too long.
func (s *base) checkFilter(what string, o object) error {
	data := o.raw()
	if over(len(data), s.limits.Metadata) || strings.Count(string(data), ",") > maxFilter {
		return invalid("%s is too large to be searched for", what)
	}
	return noZero(what, data)
}

// noZero refuses JSON with a zero character.
func noZero(what string, data []byte) error {
	for i := 0; i+1 < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(data[i:], []byte(`\u0000`)) {
			return invalid("%s must not have zero characters", what)
		}
		i++ // what is escaped
	}
	return nil
}

// checkName refuses a name that no resource can have.
func checkName(what, name string) error {
	if len(name) > maxName {
		return invalid("%s is longer than %d bytes", what, maxName)
	}
	if strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return invalid("%s must be text without zero characters", what)
	}
	return nil
}

// checkList refuses a list of IDs that is too long.
func (s *base) checkList(what string, n int) error {
	if over(n, s.limits.Batch) {
		return invalid("%s has more than %d elements", what, s.limits.Batch)
	}
	return nil
}

// runLimit is how many runs may be open, for [db.DB.AddRun].
func (s *base) runLimit(ctx context.Context) db.RunLimit {
	l := db.RunLimit{All: s.limits.OpenRuns, OfOwner: -1}
	if u := userOf(ctx); u != nil {
		l.Owner, l.OfOwner = u.ID, s.limits.OpenRunsPerUser
	}
	return l
}

// retryAfter is when a client may try what was too many, in seconds.
const retryAfter = "5"

// tooMany is for what a client may try again.
func tooMany(format string, args ...any) error {
	return &fault{http.StatusTooManyRequests, fmt.Sprintf(format, args...)}
}

// gauge counts what clients have open.
type gauge struct {
	all, each int
	what      string // has too many

	mu       sync.Mutex
	open     int
	byClient map[string]int
}

func newGauge(what string, all, each int) *gauge {
	return &gauge{what: what, all: all, each: each, byClient: map[string]int{}}
}

// add counts some of a client, until they are taken back.
func (g *gauge) add(client string, n int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case over(g.open+n, g.all):
		return tooMany("too many %s: at most %d", g.what, g.all)
	case over(g.byClient[client]+n, g.each):
		return tooMany("too many %s: at most %d of one client", g.what, g.each)
	}
	g.open += n
	g.byClient[client] += n
	return nil
}

func (g *gauge) sub(client string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open -= n
	if g.byClient[client] -= n; g.byClient[client] == 0 {
		delete(g.byClient, client)
	}
}

// enter counts one of a client, until the function that it returns is called.
func (g *gauge) enter(client string) (leave func(), err error) {
	if err := g.add(client, 1); err != nil {
		return nil, err
	}
	return func() { g.sub(client, 1) }, nil
}

// clientOf names who a request is counted for: its user, or else where it is from.
func clientOf(u *User, r *http.Request) string {
	if u != nil {
		return "user " + u.ID
	}
	return "host " + hostOf(r)
}

// hostOf is the address from which a request comes.
func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// AllowOrigins lets pages of some origins use the server, such as
// "https://chat.example.com", and no others: requests that say they come from a
// page of another one are refused. "*" lets pages of all origins use it. Several of
// these options add up.
//
// Without authentication a server is open to every page that its users' browsers
// show. So pages of other origins are refused by default; those of this machine,
// http://localhost:3000 and the like, may always use it then, which is where front
// ends are in development. With API keys and tokens the default is "*": pages must have
// credentials of their own, since the server never has browsers send cookies along.
// With a function for [Authenticate], which may read cookies, the default are the
// server's own pages, lest others act for those who are signed in.
//
// Unless all pages may use the server, what pages of other sites request without
// saying whose they are, by links, images and scripts, is refused as well, where
// browsers tell (Sec-Fetch-Site). The studio's pages, and those of [Pages], can be linked to.
func AllowOrigins(origins ...string) Option {
	return func(c *config) {
		for _, o := range origins {
			scheme, host, ok := strings.Cut(o, "://")
			if o != "*" && (!ok || scheme == "" || host == "" || strings.ContainsAny(host, "/?#@ ") || strings.ContainsFunc(o, func(r rune) bool { return r <= ' ' || r > '~' })) {
				c.problems = append(c.problems, fmt.Errorf("origin %q is not like https://chat.example.com", o))
			}
		}
		// Not nil, even if there are none.
		c.origins = append(append([]string{}, c.origins...), origins...)
	}
}

// LocalHosts refuses requests for another host, as their header Host has it, than
// this machine, localhost and the addresses that only it has, the hosts of
// [AllowOrigins] and those named here, without ports. It is for a server that
// listens on an address of this machine and has no authentication: else a page
// whose name is made to lead to 127.0.0.1 would count as the server's own. The
// command serve of package cli sets it then. A handler can't tell by itself where
// it is reached: behind a proxy that passes Host on, it is the public name.
func LocalHosts(others ...string) Option {
	return func(c *config) { c.hosts = append(append([]string{}, c.hosts...), others...) }
}

// gate lets requests in, from pages and by names that may use the server, and answers their errors.
type gate struct {
	*base
	access  *access
	origins []string      // of pages that may use the server
	hosts   []string      // that it answers to beside its own machine; nil: to all
	pages   []publicPages // that everybody may read
	bounds  *bounds       // of requests
}

func newGate(a *access, c *config) *gate {
	s := &gate{base: a.base, access: a, origins: c.origins, hosts: c.hosts, pages: c.pages, bounds: &bounds{a.limits, newGauge("bytes of bodies are on their way", a.limits.Bodies, a.limits.BodiesPerClient)}}
	if s.origins == nil && len(a.authenticators) > 0 && !c.reads {
		s.origins = []string{"*"} // what lets somebody in is a header that pages have to set
	}
	return s
}

// guarded answers what browsers ask before they use the server, says to them what
// they may do with answers, and refuses pages and hosts that are not allowed. It
// refuses them whatever they ask for: what a form sends, and a WebSocket, comes
// without a question before.
func (s *gate) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.passes(w, r) { // which is called apart: streams wait long, on as little stack as may be
			next.ServeHTTP(w, r)
		}
	})
}

// passes reports whether a request is to be answered; if not it has been.
func (s *gate) passes(w http.ResponseWriter, r *http.Request) bool {
	anyone := slices.Contains(s.origins, "*")
	open := len(s.access.authenticators) == 0
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin") // requests of CORS are not meant
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	origin := r.Header.Get("Origin")
	if s.hosts != nil && !anyone && !s.answersTo(r.Host) {
		refuse(w, r, &fault{http.StatusForbidden, fmt.Sprintf("this server is for its own machine, not for the host %.80q: allow it with --allow-origin https://HOST, or server.AllowOrigins", r.Host)})
		return false
	}
	switch {
	case anyone:
		h.Set("Access-Control-Allow-Origin", "*")
	default:
		h.Add("Vary", "Origin")
		foreign := ofAnotherSite(r, open)
		if origin == "" && foreign && !s.mayBeLinked(r) {
			refuse(w, r, &fault{http.StatusForbidden, "pages of other sites may not use the server by links, images or scripts: allow all pages everything with --allow-origin '*', or server.AllowOrigins, or type the address"})
			return false
		}
		if origin == "" || sameOrigin(origin, r.Host) && !foreign {
			break
		}
		if !slices.ContainsFunc(s.origins, func(o string) bool { return strings.EqualFold(o, origin) }) && !(open && localOrigin(origin)) {
			refuse(w, r, &fault{http.StatusForbidden, fmt.Sprintf("pages of %.80q may not use the server: allow them with --allow-origin, or server.AllowOrigins", origin)})
			return false
		}
		h.Set("Access-Control-Allow-Origin", origin)
	}
	h.Set("Access-Control-Expose-Headers", "content-location, location, retry-after, warning, x-pagination-total, x-pagination-next")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE, PATCH, OPTIONS")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
			h.Add("Vary", "Access-Control-Request-Headers")
		}
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// sameOrigin reports whether a page comes from the server itself.
func sameOrigin(origin, host string) bool {
	_, of, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(of, host)
}

// ofAnotherSite reports whether a browser says that a page of another origin is
// behind a request. Unlike the header Origin it says so of each request to HTTPS and
// to this machine, and pages can't prevent it. Without authentication pages of this
// machine may use the server: of a host that is local, no others are on the same site.
//
// [http.CrossOriginProtection] would let every GET pass, since none should change
// anything. Here some do, as LangGraph's clients want it: a reader who leaves may
// cancel a run, an item that is read may live on, and each stream counts.
func ofAnotherSite(r *http.Request, open bool) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // no browser, an old one, or its user
		return false
	case "same-site":
		return !open || !isLocal(hostName(r.Host))
	}
	return true
}

// mayBeLinked reports whether a request is for what pages of other sites may lead
// to: the studio's pages and the program's, each as a page of its own.
func (s *gate) mayBeLinked(r *http.Request) bool {
	page := r.URL.Path == "/" || slices.ContainsFunc(s.pages, func(p publicPages) bool { return strings.HasPrefix(r.URL.Path, p.prefix) })
	return page && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// localOrigin reports whether a page comes from this machine.
func localOrigin(origin string) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) && isLocal(hostName(host))
}

// answersTo reports whether a request for a host is for this machine. Browsers
// always name one.
func (s *gate) answersTo(host string) bool {
	name := hostName(host)
	if host == "" || isLocal(name) {
		return true
	}
	return slices.ContainsFunc(s.hosts, func(h string) bool { return strings.EqualFold(h, name) }) ||
		slices.ContainsFunc(s.origins, func(o string) bool {
			_, of, _ := strings.Cut(o, "://")
			return strings.EqualFold(hostName(of), name)
		})
}

// hostName is a host without its port, and without the brackets of an address;
// empty for what is no host.
func hostName(host string) string {
	u, err := url.Parse("//" + host)
	if err != nil || u.Host != host {
		return ""
	}
	return u.Hostname()
}

// isLocal reports whether a name or an address leads to the machine itself,
// wherever it is asked.
func isLocal(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}
