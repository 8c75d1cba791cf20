package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

// bucket is where the objects are. Keys are without its prefix.
type bucket struct {
	client *minio.Client
	name   string
	prefix string
	place  string // for errors
}

// tries is how often what may pass is tried again.
const tries = 100

// reads is how often an object is read whose contents are cut off.
const reads = 4

// get returns an object and its ETag: errAbsent if there is none, errSame if its ETag is
// known.
func (b *bucket) get(ctx context.Context, key, known string) (data []byte, etag string, err error) {
	var o minio.GetObjectOptions
	if known != "" {
		o.Set("If-None-Match", `"`+known+`"`)
	}
	for n := 1; ; n++ {
		body, info, _, err := minio.Core{Client: b.client}.GetObject(ctx, b.name, b.prefix+key, o)
		cut := false
		if err == nil {
			data, err = io.ReadAll(body)
			err = errors.Join(err, body.Close())
			cut = err != nil && n < reads
		}
		r, _ := answered(err)
		switch {
		case err == nil:
			return data, info.ETag, nil
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case r.StatusCode == http.StatusNotModified:
			return nil, known, errSame
		case r.Code == minio.NoSuchKey:
			return nil, "", errAbsent
		case !cut:
			return nil, "", b.explain("read from", err)
		}
	}
}

// Conditions of a put: beside these, an ETag that the object must have.
const (
	always = ""
	isNew  = "*"
)

// unknown is how often a request was sent of which that isn't known: more than once, perhaps.
const unknown = 2

// put writes an object. Sent is how often the server may have heard of it: the client sends
// a request again by itself. The error is the client's.
func (b *bucket) put(ctx context.Context, key string, data []byte, match string) (etag string, sent int, err error) {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	switch match {
	case always:
	case isNew:
		o.SetMatchETagExcept(isNew)
	default:
		o.SetMatchETag(match)
	}
	var heard atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { heard.Add(1) }})
	info, err := b.client.PutObject(ctx, b.name, b.prefix+key, bytes.NewReader(data), int64(len(data)), o)
	sent = int(heard.Load())
	if op, dial := errors.AsType[*net.OpError](err); sent == 0 && !(dial && op.Op == "dial") {
		sent = unknown // the caller's client may have a way of its own to send
	}
	return info.ETag, sent, err
}

// list returns the objects of a directory whose keys come after one, by key.
func (b *bucket) list(ctx context.Context, dir, after string) iter.Seq2[minio.ObjectInfo, error] {
	return func(yield func(minio.ObjectInfo, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := minio.ListObjectsOptions{Prefix: b.prefix + dir, Recursive: true}
		if after != "" {
			o.StartAfter = b.prefix + after
		}
		for info := range b.client.ListObjectsIter(ctx, b.name, o) {
			if info.Err != nil {
				err := ctx.Err()
				if err == nil {
					err = b.explain("list", info.Err)
				}
				yield(info, err)
				return
			}
			info.Key = strings.TrimPrefix(info.Key, b.prefix)
			if !yield(info, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(minio.ObjectInfo{}, err)
		}
	}
}

// remove removes objects. That there is none is no error.
func (b *bucket) remove(ctx context.Context, keys ...string) error {
	errs := make([]error, len(keys))
	parallel(len(keys), func(i int) {
		err := b.client.RemoveObject(ctx, b.name, b.prefix+keys[i], minio.RemoveObjectOptions{})
		if r, _ := answered(err); err != nil && r.Code != minio.NoSuchKey {
			errs[i] = b.explain("delete from", err)
		}
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// atOnce is how many requests one call has under way.
const atOnce = 16

// parallel calls f for the numbers below n.
func parallel(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	_ = g.Wait()
}

// pause waits before another try: those who compete don't do so in step.
func pause(ctx context.Context, n int) {
	select {
	case <-time.After(rand.N(10 * time.Millisecond << min(n, 6))):
	case <-ctx.Done():
	}
}

// cache holds what was read, up to so many bytes: what wasn't used for a while goes.
type cache struct {
	limit int

	mu         sync.Mutex
	young, old map[string]cached
	size       int // of the young
}

type cached struct {
	value any
	size  int
}

func (c *cache) get(key string) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.young[key]
	if !ok {
		if v, ok = c.old[key]; ok {
			c.add(key, v)
		}
	}
	return v.value
}

// put keeps a value, if the one that is there is the one before.
func (c *cache) put(key string, before, value any, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, ok := c.young[key]
	if !ok {
		now = c.old[key]
	}
	if now.value == nil || now.value == before {
		c.add(key, cached{value, size})
	}
}

// add is called with the mutex held.
func (c *cache) add(key string, v cached) {
	if c.size > c.limit/2 {
		c.young, c.old, c.size = nil, c.young, 0
	}
	if c.young == nil {
		c.young = map[string]cached{}
	}
	c.size += v.size - c.young[key].size
	c.young[key] = v
}

func (c *cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= c.young[key].size
	delete(c.young, key)
	delete(c.old, key)
}
