package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/internal/tracecontext"
	"github.com/superstep-dev/superstep/server/internal/db"
)

// publicOnly refuses connections to addresses that are not of the public
// internet, whatever name led there: a client must not reach what only the server
// can.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	if !public(ip) {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}

func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || internet6.Contains(ip)) && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// internet6 is all of IPv6 that is given out for the internet. Outside of it are
// addresses of sites (fec0::/10), those that hold one of IPv4 and lead to it (::/96,
// 64:ff9b::/96), and those that lead nowhere (100::/64).
var internet6 = netip.MustParsePrefix("2000::/3")

// special are addresses that netip doesn't count as private: of the machine
// itself, of carriers, of protocols and of tests, and those of IPv6 behind which
// there is one of IPv4.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2002::/16"),
}

// maybePublic reports whether a host can be a public one, as far as it shows before
// its address is looked up; the connection is refused otherwise.
func maybePublic(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return public(ip.Unmap())
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	return name != "localhost" && !strings.HasSuffix(name, ".localhost")
}

func webhookClient(private bool) *http.Client {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if !private {
		d.Control = publicOnly
	}
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConns: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
	}
}

// checkWebhook reports what is wrong with the address of a webhook.
func (h *hooks) checkWebhook(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err == nil && u.Host == "" && u.Scheme == "" && strings.HasPrefix(u.Path, "/"):
		if h.local == nil {
			return invalid("webhook is a path, which this server answers none of: it must be a URL that begins with http:// or https://")
		}
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return invalid("webhook must be a URL that begins with http:// or https://")
	case !h.private && !maybePublic(u.Hostname()):
		return invalid("webhook leads to this server's own machine or network, where server.AllowPrivateWebhooks would allow it")
	}
	return nil
}

// A run's end and the call that follows from it are noted as one. The call is made
// by whichever instance comes to it first, until it is taken or given up: at least
// once, so that its receiver may see it twice, with the same ID.
const (
	webhookTries = 8                // how often a call is tried
	webhookLease = 90 * time.Second // within which an instance has made a call, or says that it failed
	webhookPause = 10 * time.Minute // the longest between two tries
	webhookCalls = 32               // at a time
	webhookEach  = 4                // of them of one user
)

// webhookID is the header by which a receiver knows a call that it has had before:
// the ID of the run.
const webhookID = "Webhook-Id"

// webhookOf returns the call that a run's end asks for; nil if it asks for none.
func webhookOf(run *db.Run, b *runBody, values json.RawMessage, trace *tracecontext.Caller) *db.Webhook {
	if b.Webhook == "" {
		return nil
	}
	data, _ := json.Marshal(runView(run)) // of JSON
	o := objectOf(data)
	// The headers of the request that started the run are not for others.
	kwargs := objectOf(run.Kwargs)
	delete(kwargs, "__request_headers__")
	o["kwargs"] = kwargs.raw()
	for name, at := range map[string]time.Time{"run_started_at": run.StartedAt, "run_ended_at": run.EndedAt} {
		o[name], _ = json.Marshal(instant(at)) // cannot fail
	}
	o["values"] = values
	if run.Error != nil {
		o["values"] = json.RawMessage("null")
		o["error"], _ = json.Marshal(run.Error) // of texts
	}
	if trace != nil {
		o[traceKey], _ = json.Marshal(trace) // of texts
	}
	return &db.Webhook{ID: run.ID, Owner: ownerOf(run), URL: b.Webhook, Data: o.raw()}
}

// hooks makes the calls that are due.
type hooks struct {
	*base
	client  *http.Client
	private bool         // they may go to any address
	local   http.Handler // of those that are paths; nil if there are none

	lease time.Duration // of a call
	kick  chan struct{}
	slots chan struct{}
	calls sync.WaitGroup

	mu   sync.Mutex
	busy map[string]int // calls by user
}

func newHooks(b *base, c *config) *hooks {
	return &hooks{
		base: b, client: webhookClient(c.private), private: c.private, local: c.local, lease: c.lease, kick: make(chan struct{}, 1), slots: make(chan struct{}, webhookCalls), busy: map[string]int{}}
}

// wake says that a call is due.
func (h *hooks) wake() { signal(h.kick) }

// work makes calls until the context ends.
func (h *hooks) work(ctx context.Context) {
	defer h.calls.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.kick:
		}
		if err := h.due(ctx); err != nil && ctx.Err() == nil {
			h.soon.Store(true)
			h.log.LogAttrs(ctx, slog.LevelError, "server: webhooks could not be looked for", slog.Any("error", err))
		}
	}
}

func (h *hooks) due(ctx context.Context) error {
	for {
		if any, err := h.db.AnyWebhook(ctx); err != nil || !any {
			return err
		}
		free := cap(h.slots) - len(h.slots)
		if free == 0 {
			return nil // they are looked for again when one is done
		}
		list, err := h.db.DueWebhooks(ctx, h.lease, free, h.room)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, w := range list {
			h.slots <- struct{}{}
			h.count(w.Owner, 1)
			h.calls.Go(func() {
				defer h.wake()
				defer h.soon.Store(true) // it may be due again
				defer func() { <-h.slots }()
				defer h.count(w.Owner, -1)
				h.call(ctx, w)
			})
		}
	}
}

// room returns how many more calls may be made of a user's: receivers that don't
// answer must not hold up those of others.
func (h *hooks) room(user string) int {
	if user == "" {
		return webhookCalls
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return webhookEach - h.busy[user]
}

func (h *hooks) count(user string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy[user] += n; h.busy[user] == 0 {
		delete(h.busy, user)
	}
}

// call makes a call, and notes what came of it.
func (h *hooks) call(ctx context.Context, w *db.Webhook) {
	err := h.post(ctx, w)
	keep := context.WithoutCancel(ctx)
	tries := w.Tries + 1
	switch {
	case err == nil:
		err = h.db.WebhookDone(keep, w.ID)
	case ctx.Err() != nil: // the server closes: another one makes it
		err = h.db.WebhookLater(keep, w.ID, 0, w.Tries)
	default:
		// Its address may hold a secret.
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		h.log.LogAttrs(ctx, slog.LevelWarn, "server: a webhook failed", slog.String("run", w.ID), slog.Int("try", tries), slog.Any("error", err))
		if tries >= webhookTries {
			err = h.db.WebhookDone(keep, w.ID)
		} else {
			err = h.db.WebhookLater(keep, w.ID, webhookAfter(tries), tries)
		}
	}
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelError, "server: what came of a webhook could not be noted", slog.String("run", w.ID), slog.Any("error", err))
	}
}

// webhookAfter returns how long to wait after so many tries.
func webhookAfter(tries int) time.Duration {
	wait := time.Second
	for range tries - 1 {
		wait = min(5*wait, webhookPause)
	}
	return wait
}

// close waits until the calls that are being made are over, as long as the context
// lasts.
func (h *hooks) close(ctx context.Context) {
	for ctx.Err() == nil {
		any, err := h.db.AnyWebhook(ctx)
		if err != nil || !any && len(h.slots) == 0 {
			return
		}
		h.wake()
		pause(ctx, 10*time.Millisecond)
	}
}

// post makes a call: to an address, or, if that is a path, to the handler that the
// server was given for those.
func (h *hooks) post(ctx context.Context, w *db.Webhook) error {
	o := objectOf(w.Data)
	var trace tracecontext.Caller
	traced := json.Unmarshal(o[traceKey], &trace) == nil && trace.Valid()
	delete(o, traceKey)
	o["webhook_sent_at"], _ = json.Marshal(instant(now())) // cannot fail
	ctx, cancel := context.WithTimeout(ctx, h.client.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(o.raw()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(webhookID, w.ID)
	if traced {
		trace.Set(r.Header)
	}
	if r.URL.Host == "" {
		if h.local == nil {
			return errNoLocal
		}
		r.RequestURI, r.Host, r.RemoteAddr = r.URL.RequestURI(), "localhost", "127.0.0.1:0"
		inner := &innerAnswer{header: http.Header{}}
		err := inner.serve(h.local, r)
		if err == nil && inner.status >= 400 {
			err = fmt.Errorf("it answered %d %s", inner.status, http.StatusText(inner.status))
		}
		return err
	}
	answer, err := h.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be used again
	if answer.StatusCode >= 400 {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}

var errNoLocal = errors.New("the server has no handler for webhooks that are paths")

// innerAnswer is the answer of a handler of this process.
type innerAnswer struct {
	header http.Header
	status int
}

func (a *innerAnswer) Header() http.Header { return a.header }

func (a *innerAnswer) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.status = status
	}
}

func (a *innerAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return len(p), nil
}

func (a *innerAnswer) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its handler panicked: %v", p)
		}
	}()
	h.ServeHTTP(a, r)
	return nil
}

// LocalWebhooks has webhooks that are paths, such as /hooks/run-ended, answered by
// a handler of this process: most often the one that serves the Server itself,
// among other things. Without it a webhook must be a whole URL. The requests come
// from the server and have no credentials; their sender is a run whose client chose
// the path, so the handler should have no other paths than those that clients may
// call in this way.
func LocalWebhooks(h http.Handler) Option {
	return func(c *config) {
		if h == nil {
			c.problems = append(c.problems, errors.New("server.LocalWebhooks was given no handler"))
		}
		c.local = h
	}
}
