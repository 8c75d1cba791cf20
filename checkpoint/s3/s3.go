// Package s3 keeps threads in object storage: Amazon S3, or a server that speaks its
// language and has conditional writes, such as MinIO. Many processes may share a bucket, and
// there is no server to run.
//
//	store, err := s3.Open(ctx, "s3://key:secret@s3.eu-central-1.amazonaws.com/bucket/prefix?region=eu-central-1")
//	if err != nil { ... }
//	defer store.Close()
//
// Of each thread there is one object that changes, its head; a write puts it, on the
// condition that it is the one that was read. So a write is there as a whole or not at all,
// whatever crashes, and it is as durable as the bucket. Beside what was written last, the
// head says where the rest is: in pages, objects that never change. A write puts at most
// some 40 kB in the steady state, in one request, whatever the thread's history; once in
// about 32 kB the newest records move into pages.
//
// A request to object storage takes 10 to 100 milliseconds, and so does a write. Lists read
// the head of each thread they tell of.
//
// # Clocks
//
// Leases are counted by the clock of the machine that looks at them, as there is no other:
// machines that share a bucket must have theirs set, such as by NTP. [Open] refuses a
// machine whose clock differs from the server's by more than 5 seconds.
//
// # What may be lost
//
// Nothing that was acknowledged. A write that got no answer is sent again, and the head
// tells whether it happened already; if nothing is heard for half a minute, the error is
// [ErrUncertain]. A process that is killed may leave objects that nobody refers to, of at
// most one write: they go when their thread is deleted.
//
// Versions of objects are not needed. A bucket that keeps them should have a rule of its
// life cycle that removes old ones, since each write leaves one.
package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/superstep-dev/superstep/checkpoint/engine"
	"github.com/superstep-dev/superstep/internal/options"
)

// Options changes how a bucket is used. The zero value is fine.
type Options struct {
	// Prefix begins all keys, as a directory does; "" means the whole bucket. Stores with
	// different prefixes, of which none is within another, don't see one another. That
	// of a URL stands before it.
	Prefix string

	// CacheBytes is how much of what was read is kept in memory, about; 0 means 64 MB.
	CacheBytes int

	patience time.Duration // 0: patience
}

const (
	opening = "open"

	defaultCache = 64 << 20
	patience     = 30 * time.Second // for the answer to a write
	retries      = 5                // of a request, by the client
	maxSkew      = 5 * time.Second

	// writers is how many batches of commits are under way at once: each takes a round
	// trip, whatever others do.
	writers = 32

	fixURL = "write it like s3://key:secret@host:port/bucket/prefix?region=eu-central-1, with special characters of key and secret percent-encoded (/ as %2F, + as %2B); insecure=true is for a server without TLS"
)

// Store is a [checkpoint.Store] in a bucket, with all that an [engine.Engine] can do.
type Store struct{ *engine.Engine }

// Open uses the bucket at a URL such as
//
//	s3://key:secret@host:port/bucket/prefix?region=eu-central-1
//
// which must exist. Without key and secret they are those of the environment:
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. With insecure=true there
// is no TLS. Without a region the server is asked for the bucket's. It writes an object, to
// see whether the server honours conditions, and removes it. Errors about the server are an
// [*Error].
func Open(ctx context.Context, rawURL string, opts ...Options) (*Store, error) {
	o, err := options.Only("s3", opts)
	if err != nil {
		return nil, err
	}
	bad := func(what string) (*Store, error) {
		return nil, &Error{Package: "s3", Op: opening, Kind: ErrURL, What: what, Fix: fixURL}
	}
	u, err := url.Parse(rawURL)
	if err != nil { // which may hold a part of the secret
		return bad("the URL can't be read")
	}
	name, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	secret, some := u.User.Password()
	switch {
	case u.Scheme != "s3":
		return bad("the URL does not begin with s3://")
	case strings.Contains(u.Path, "@"): // the host is then a part of the key
		return bad("the URL has an @ after its host")
	case u.Host == "" || name == "":
		return bad("the URL has no host or no bucket")
	case u.User != nil && (!some || secret == "" || u.User.Username() == ""):
		return bad("the URL has a key without a secret, or a secret without a key")
	}
	c := minio.Options{Creds: credentials.NewEnvAWS(), Secure: true, MaxRetries: retries}
	if u.User != nil {
		c.Creds = credentials.NewStaticV4(u.User.Username(), secret, "")
	}
	for k, v := range u.Query() {
		switch {
		case k == "region":
			c.Region = v[0]
		case k == "insecure" && (v[0] == "true" || v[0] == "false"):
			c.Secure = v[0] == "false"
		default:
			return bad(fmt.Sprintf("the URL's query has %q, which is neither region=… nor insecure=true", k))
		}
	}
	t, err := minio.DefaultTransport(c.Secure)
	if err != nil {
		return nil, fmt.Errorf("s3: %s: %w", opening, err)
	}
	t.ResponseHeaderTimeout, t.MaxIdleConnsPerHost = patience/3, 2*writers
	c.Transport = t
	client, err := minio.New(u.Host, &c)
	if err != nil {
		return bad("the URL's host is none")
	}
	o.Prefix = join(prefix, o.Prefix)
	s, err := open(ctx, client, name, o, t.CloseIdleConnections)
	if err != nil {
		t.CloseIdleConnections()
	}
	return s, err
}

// New uses a bucket by a client of the caller's. Otherwise it does as [Open].
func New(ctx context.Context, client *minio.Client, bucket string, opts ...Options) (*Store, error) {
	o, err := options.Only("s3", opts)
	if err != nil {
		return nil, err
	}
	return open(ctx, client, bucket, o, func() {})
}

func join(a, b string) string {
	return strings.Trim(strings.Trim(a, "/")+"/"+strings.Trim(b, "/"), "/")
}

func open(ctx context.Context, client *minio.Client, name string, o Options, release func()) (*Store, error) {
	b := &bucket{client: client, name: name, prefix: join(o.Prefix, "")}
	b.place = client.EndpointURL().Host + "/" + join(name, b.prefix)
	if b.prefix != "" {
		b.prefix += "/"
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCache
	}
	if o.patience == 0 {
		o.patience = patience
	}
	if err := b.probe(ctx); err != nil {
		return nil, err
	}
	d := &driver{b: b, cache: &cache{limit: o.CacheBytes}, patience: o.patience, release: release}
	return &Store{engine.New(d, engine.Options{Writers: writers, Leave: o.patience})}, nil
}

// probe looks whether the server honours conditions, and at its clock.
func (b *bucket) probe(ctx context.Context) error {
	key := "probe/" + rand.Text()
	failed := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return b.explain(opening, err)
	}
	etag, _, err := b.put(ctx, key, []byte("1"), isNew)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = b.remove(ctx, key) }()
	for _, c := range []struct{ name, match string }{
		{"If-None-Match", isNew},
		{"If-Match", strings.Repeat("0", 32)},
	} {
		_, _, err := b.put(ctx, key, []byte("2"), c.match)
		if err == nil {
			return &Error{
				Package: "s3", Op: opening, Place: b.place, Kind: ErrConditions, Fix: fixConditions,
				What: fmt.Sprintf("the server ignores %s, so writers would undo one another's writes", c.name),
			}
		}
		if !conditional(err) {
			return failed(err)
		}
	}
	if _, _, err := b.put(ctx, key, []byte("3"), etag); err != nil {
		return failed(err)
	}
	before := time.Now()
	body, _, h, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return failed(err)
	}
	if err := body.Close(); err != nil {
		return failed(err)
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return nil // it does not tell
	}
	// Its date is of a whole second.
	fast, slow := before.Sub(now.Add(time.Second)), time.Until(now)
	if skew := max(fast, slow); skew > maxSkew {
		way := "ahead of"
		if slow > fast {
			way = "behind"
		}
		return &Error{
			Package: "s3", Op: opening, Place: b.place, Kind: ErrClock, Err: errors.New("leases are counted by this machine's clock"),
			What: fmt.Sprintf("this machine's clock is %v %s the server's", skew.Round(time.Second), way), Fix: "set it, such as by NTP",
		}
	}
	return nil
}
