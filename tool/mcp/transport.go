package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/redact"
)

// Transport is a way to reach a server: [Command], [HTTP] or [Server.Local].
type Transport interface {
	// name is what errors call the server.
	name() string

	// secrets are what no error may tell.
	secrets() redact.Secrets

	// open prepares one connection.
	open() (link, error)
}

// link is what one connection goes over.
type link struct {
	sdk.Transport
	kill   func()        // ends it without further ado
	stderr func() string // the last that a process wrote to standard error
}

func (l link) orNothing() link {
	if l.kill == nil {
		l.kill = func() {}
	}
	if l.stderr == nil {
		l.stderr = func() string { return "" }
	}
	return l
}

// Command is a server that is a process of its own and speaks over its standard
// input and output. It is started by [Connect], and again when it has died.
type Command struct {
	Path string // of the program; looked up as [exec.Command] does
	Args []string
	Dir  string // the current one if empty

	// Env is the process's environment, as "key=value". Nil means that of this
	// program, secrets included.
	Env []string

	// Stderr gets what the process writes to standard error; nil drops it. When
	// it fails it gets nothing more, and the process goes on. The end of it is
	// also in a [ConnectionError].
	Stderr io.Writer

	// Grace is how long the process may take to end after its standard input was
	// closed, and again after it was asked to terminate, before it is killed. The
	// default is 5 s.
	Grace time.Duration
}

const defaultGrace = 5 * time.Second

func (c Command) name() string { return strconv.Quote(filepath.Base(c.Path)) }

func (c Command) secrets() redact.Secrets { return nil }

func (c Command) open() (link, error) {
	if c.Path == "" {
		return link{}, errors.New("the command has no path")
	}
	if c.Grace <= 0 {
		c.Grace = defaultGrace
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	end := &tail{to: c.Stderr}
	cmd.Stderr = end
	cmd.WaitDelay = c.Grace // when its own children keep standard error open
	p := &process{cmd: cmd, grace: c.Grace}
	return link{Transport: p, kill: p.kill, stderr: end.String}, nil
}

// process is a transport over the standard input and output of a process. Unlike
// the SDK's it can be killed at any time, and its Close returns when the process
// has ended, whatever that takes.
type process struct {
	cmd   *exec.Cmd
	grace time.Duration

	mu      sync.Mutex
	started bool
	killed  bool
}

// Connect starts the process.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return nil, errors.New("it was not started any more")
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.started = true
	// What the process still writes while it ends must find a reader: its output
	// is closed when it has ended.
	return (&sdk.IOTransport{Reader: io.NopCloser(stdout), Writer: &input{stdin, p}}).Connect(ctx)
}

func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	if p.started {
		// It fails when the process has ended, which is what is wanted.
		_ = p.cmd.Process.Kill()
	}
}

// input is the process's standard input. To close it ends the process.
type input struct {
	io.WriteCloser
	p *process
}

func (in *input) Close() error {
	// It fails when the process has ended, which Wait reports.
	_ = in.WriteCloser.Close()
	ended := make(chan error, 1)
	go func() { ended <- in.p.cmd.Wait() }()
	terminate := func() error { return in.p.cmd.Process.Signal(syscall.SIGTERM) }
	for _, next := range []func() error{terminate, in.p.cmd.Process.Kill} {
		timer := time.NewTimer(in.p.grace)
		select {
		case err := <-ended:
			timer.Stop()
			return err
		case <-timer.C:
			// Not every system can ask a process to terminate; then it is
			// killed after another time of grace.
			_ = next()
		}
	}
	return <-ended
}

// tail keeps the end of what is written to it.
type tail struct {
	to io.Writer

	mu   sync.Mutex
	last []byte
	deaf bool // to has failed
}

const maxTail = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.last = append(t.last, p...)
	if n := len(t.last) - maxTail; n > 0 {
		t.last = append(t.last[:0], t.last[n:]...)
	}
	deaf := t.deaf
	t.mu.Unlock()
	if t.to == nil || deaf {
		return len(p), nil
	}
	// An error here would close the pipe, and a process that writes to a closed
	// one dies.
	if _, err := t.to.Write(p); err != nil {
		t.mu.Lock()
		t.deaf = true
		t.mu.Unlock()
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// HTTP is a server that is an endpoint of streamable HTTP.
type HTTP struct {
	URL string

	// Header is added to each request to the URL's scheme, host and port, and to no
	// other: where the server redirects to doesn't get it.
	Header http.Header

	// OAuth, if set, gets a token when the server wants one, which goes where the Header
	// goes. [OAuth] makes one for servers where a person logs in.
	OAuth auth.OAuthHandler

	// Client makes the requests; nil means [http.DefaultClient]. It must not have
	// a timeout: answers and notifications are streams.
	Client *http.Client
}

func (h HTTP) name() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return strconv.Quote("?")
	}
	return strconv.Quote(u.Scheme + "://" + u.Host + u.Path) // a query may have secrets
}

// secrets are the password and the query of the URL, and the values of headers
// whose name says so.
func (h HTTP) secrets() redact.Secrets {
	var s redact.Secrets
	if u, err := url.Parse(h.URL); err == nil {
		s.AddURL(u)
		s.AddWhole(u.RawQuery)
		for _, values := range u.Query() {
			for _, v := range values {
				if len(v) >= minSecret {
					s.AddWhole(v)
					s.AddWhole(url.QueryEscape(v))
				}
			}
		}
	}
	for name, values := range h.Header {
		for _, v := range values {
			s.AddHeader(name, v)
		}
	}
	return s
}

// minSecret is from how many bytes on a value in a query is taken for a secret by
// itself. Shorter ones, such as a version, may stand anywhere in a text.
const minSecret = 6

func (h HTTP) open() (link, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return link{}, errors.New("its URL doesn't parse")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return link{}, errors.New("its URL must begin with http:// or https:// and have a host")
	}
	if h.OAuth != nil && h.Header.Get("Authorization") != "" {
		return link{}, errors.New("it has both OAuth and a header Authorization: leave one out")
	}
	client := http.DefaultClient
	if h.Client != nil {
		client = h.Client
	}
	if client.Timeout != 0 {
		return link{}, errors.New("its HTTP client has a timeout, which would break streams; give each call a context with one")
	}
	c := *client
	c.Transport = &guarded{next: cmp.Or[http.RoundTripper](client.Transport, http.DefaultTransport), origin: origin(u), header: h.Header.Clone()}
	return link{Transport: &sdk.StreamableClientTransport{Endpoint: h.URL, HTTPClient: &c, OAuthHandler: h.OAuth}}, nil
}

// guarded adds a header to the requests to one origin, and bounds answers.
type guarded struct {
	next   http.RoundTripper
	origin string
	header http.Header
}

// origin is the scheme, the host and the port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

func (g *guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if origin(r.URL) == g.origin {
		r = r.Clone(r.Context())
		for key, values := range g.header {
			r.Header[key] = values
		}
	} else {
		r = unauthorized(r)
	}
	res, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	// Streams have no end; the SDK bounds each of their events.
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); strings.TrimSpace(kind) != "text/event-stream" {
		res.Body = &bounded{res.Body, maxAnswer}
	}
	return res, nil
}

// maxAnswer is how many bytes an answer may have, which is what the SDK reads of one
// over standard output.
const maxAnswer = sdk.DefaultMaxLineLength

var errTooLarge = fmt.Errorf("its answer is larger than %d bytes", maxAnswer)

// bounded is a body of which only so much is read.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
