package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"

	"github.com/fxamacker/cbor/v2"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// item is a key with its value. In a delta a nil value says that the key is gone. In a page
// above the leaves, and at the root, keys are the least of pages, and values their names.
type item struct {
	_          struct{} `cbor:",toarray"`
	Key, Value []byte
	Order      int64
}

func (i *item) size() int { return len(i.Key) + len(i.Value) + 12 }

func sizeOf(items []item) (n int) {
	for i := range items {
		n += items[i].size()
	}
	return n
}

// find returns where a key is among items, or belongs.
func find(items []item, key []byte) (int, bool) {
	i := sort.Search(len(items), func(i int) bool { return bytes.Compare(items[i].Key, key) >= 0 })
	return i, i < len(items) && bytes.Equal(items[i].Key, key)
}

// span returns the items with keys of at least from and below below (nil: no end).
func span(items []item, from, below []byte) []item {
	i, _ := find(items, from)
	j := len(items)
	if below != nil {
		j, _ = find(items, below)
	}
	return items[i:max(i, j)]
}

// head is the mutable object of a thread: what it has is in the pages that Root leads to,
// as changed by Delta.
type head struct {
	_      struct{} `cbor:",toarray"`
	Thread []byte
	Header []byte // see [engine.AppendHeader]
	Birth  []byte // another one each time that a thread of this name begins
	Tokens []byte // of the last commits, the newest last
	Order  int64  // of the side row that was put last

	Entries [3]string // the keys of those in the indexes, "": none

	Newest item  // of the log with the empty namespace: its newest row, without data
	First  int64 // and when its oldest was made

	Delta  []item
	Height int // of the tree of pages: 0: none
	Root   []item

	etag   string        // "": there is no such object
	header engine.Header // parsed
}

const (
	tokenLen   = 8
	keepTokens = 16

	deltaSize = 32 << 10 // with more, it goes into the pages
	pageSize  = 64 << 10
	rootSize  = 4 << 10
)

// has reports whether a commit is one of the last.
func (h *head) has(token []byte) bool {
	return slices.ContainsFunc(slices.Collect(slices.Chunk(h.Tokens, tokenLen)), func(t []byte) bool { return bytes.Equal(t, token) })
}

// follows reports whether h names all commits since old was the head.
func (h *head) follows(old *head) bool {
	if old.etag == "" {
		return len(h.Tokens) < keepTokens*tokenLen
	}
	return bytes.Equal(h.Birth, old.Birth) && h.has(old.Tokens[len(old.Tokens)-tokenLen:])
}

func (h *head) thread() checkpoint.ThreadID { return checkpoint.ThreadID(h.Thread) }

// An object is its form, CBOR, and a checksum that holds for its key alone.
const form = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(key string, b []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, b)
}

func encode(key string, v any) ([]byte, error) {
	b, err := cbor.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = append([]byte{form}, b...)
	return binary.BigEndian.AppendUint32(b, sum(key, b)), nil
}

func decode(key string, b []byte, v any) error {
	if len(b) < 5 {
		return errors.New("it is cut off")
	}
	body, want := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if got := sum(key, body); got != want {
		return fmt.Errorf("it has checksum %08x, %08x was written", got, want)
	}
	if body[0] != form {
		return fmt.Errorf("%w: object %q has form %d", checkpoint.ErrVersion, key, body[0])
	}
	return forms.Unmarshal(body[1:], v)
}

var forms = func() cbor.DecMode {
	m, err := cbor.DecOptions{MaxArrayElements: 1 << 24}.DecMode()
	if err != nil {
		panic(err)
	}
	return m
}()

// corrupt says that an object of a thread is damaged; nil and other versions stay.
func corrupt(thread checkpoint.ThreadID, place string, err error) error {
	if err == nil || errors.Is(err, checkpoint.ErrVersion) {
		return err
	}
	return &checkpoint.CorruptError{Thread: thread, Place: place, Offset: -1, Err: err}
}

// errGone: a page is not there. Another head may say where its contents are now.
var errGone = errors.New("it is missing")

// view is a thread as a head says it is.
type view struct {
	*head
	b       *bucket
	cache   *cache
	ctx     context.Context
	escaped string
	fresh   bool // pages are read anew
}

func (v *view) pageKey(name []byte) string {
	return dirPages + v.escaped + "/" + hex.EncodeToString(v.Birth) + "/" + hex.EncodeToString(name)
}

// page returns the items of a page. They must not be changed.
func (v *view) page(name []byte) ([]item, error) {
	key := v.pageKey(name)
	if items, ok := v.cache.get(key).([]item); ok && !v.fresh {
		return items, nil
	}
	b, _, err := v.b.get(v.ctx, key, "")
	var items []item
	switch {
	case errors.Is(err, errAbsent):
		err = errGone
	case err != nil:
		return nil, err
	default:
		if err = decode(key, b, &items); err == nil && len(items) == 0 {
			err = errors.New("it is empty")
		}
	}
	if err := corrupt(v.thread(), fmt.Sprintf("page %q", key), err); err != nil {
		return nil, err
	}
	v.cache.put(key, nil, items, len(b))
	return items, nil
}

// child returns where among pages a key belongs.
func child(pages []item, key []byte) int {
	i, found := find(pages, key)
	if !found {
		i--
	}
	return max(i, 0)
}

// walk yields the items of pages with keys between two, and reports whether to go on.
func (v *view) walk(pages []item, height int, from, below []byte, desc bool, yield func(*item) bool) (bool, error) {
	if len(pages) == 0 {
		return true, nil
	}
	i, end := child(pages, from), len(pages)
	if below != nil {
		end, _ = find(pages, below)
	}
	some := slices.Clone(pages[i:max(i, end)])
	if desc {
		slices.Reverse(some)
	}
	for n, ready := 0, 1; n < len(some); n++ {
		if n >= ready { // who has gone so far goes on: more and more are read together
			ready = min(n+min(n, atOnce), len(some))
			parallel(ready-n, func(i int) { _, _ = v.page(some[n+i].Value) })
		}
		items, err := v.page(some[n].Value)
		if err != nil {
			return false, err
		}
		if height > 1 {
			if more, err := v.walk(items, height-1, from, below, desc, yield); !more || err != nil {
				return false, err
			}
			continue
		}
		items = span(items, from, below)
		for k := range items {
			if desc {
				k = len(items) - 1 - k
			}
			if !yield(&items[k]) {
				return false, nil
			}
		}
	}
	return true, nil
}

// scan yields what the thread has between two keys, until yield returns false.
func (v *view) scan(from, below []byte, desc bool, yield func(*item) bool) error {
	delta := span(v.Delta, from, below)
	next := func() *item {
		if desc {
			return &delta[len(delta)-1]
		}
		return &delta[0]
	}
	step := func() {
		if desc {
			delta = delta[:len(delta)-1]
		} else {
			delta = delta[1:]
		}
	}
	// upTo yields what the delta has before a key (nil: all), and reports whether to go on.
	upTo := func(key []byte) bool {
		for len(delta) > 0 {
			i := next()
			if c := bytes.Compare(i.Key, key); key != nil && (desc && c <= 0 || !desc && c >= 0) {
				return true
			}
			if step(); i.Value != nil && !yield(i) {
				return false
			}
		}
		return true
	}
	more, err := v.walk(v.Root, v.Height, from, below, desc, func(i *item) bool {
		if !upTo(i.Key) {
			return false
		}
		if len(delta) > 0 && bytes.Equal(next().Key, i.Key) {
			i = next()
			step()
		}
		return i.Value == nil || yield(i)
	})
	if more && err == nil {
		upTo(nil)
	}
	return err
}

// one returns the first item between two keys, nil if there is none.
func (v *view) one(from, below []byte, desc bool) (out *item, err error) {
	err = v.scan(from, below, desc, func(i *item) bool {
		out = i
		return false
	})
	return out, err
}

// newest returns the newest row of a log, nil if it has none.
func (v *view) newest(ns string) (*item, error) {
	prefix := logKey(ns)
	return v.one(prefix, engine.Below(prefix), true)
}

// rowValue encodes a row; parseRow is its reverse. Meta leaves the data out.
func rowValue(r *engine.Row) []byte {
	row := engine.AppendRow(nil, r)
	return append(append(binary.AppendUvarint(nil, uint64(len(row))), row...), r.Data...)
}

func (v *view) parseRow(i *item, meta bool) (engine.Row, error) {
	ns, place, ok := parseRowKey(i.Key)
	n, size := binary.Uvarint(i.Value)
	if !ok || size <= 0 || n > uint64(len(i.Value)-size) {
		return engine.Row{}, corrupt(v.thread(), fmt.Sprintf("row %x", i.Key), errors.New("it is cut off"))
	}
	// What is kept is not the caller's.
	r, err := engine.ParseRow(v.thread(), ns, place, bytes.Clone(i.Value[size:size+int(n)]))
	if !meta {
		r.Data = bytes.Clone(i.Value[size+int(n):])
	}
	return r, err
}

// change makes another head of a view's.
type change struct {
	view
	pages    map[string][]byte // new ones, by key
	replaced []string
}

// get returns what the thread has under a key, nil if nothing.
func (n *change) get(key []byte) (*item, error) {
	return n.one(key, append(bytes.Clone(key), 0), false)
}

// set puts an item.
func (n *change) set(i item) {
	at, found := find(n.Delta, i.Key)
	if found {
		n.Delta[at] = i
		return
	}
	n.Delta = slices.Insert(n.Delta, at, i)
}

// clear removes what is between two keys.
func (n *change) clear(from, below []byte) error {
	delta := span(n.Delta, from, below)
	at, _ := find(n.Delta, from)
	var gone []item // said only of what pages have
	_, err := n.walk(n.Root, n.Height, from, below, false, func(i *item) bool {
		gone = append(gone, item{Key: i.Key})
		return true
	})
	n.Delta = slices.Replace(n.Delta, at, at+len(delta), gone...)
	return err
}

// settle moves the delta into pages.
func (n *change) settle() error {
	if n.Height == 0 {
		n.Height = 1
	}
	root, err := n.merge(n.Root, n.Height, n.Delta)
	// With very long keys it would not become less.
	for ; err == nil && sizeOf(root) > rootSize && len(root) > 1 && sizeOf(root)/len(root) < pageSize/4; n.Height++ {
		root, err = n.split(root, false)
	}
	if n.Root, n.Delta = root, nil; len(root) == 0 {
		n.Height = 0
	}
	return err
}

// merge makes changes to pages and what is below them, and returns those that stand for
// them.
func (n *change) merge(pages []item, height int, changes []item) (out []item, err error) {
	for i := range max(len(pages), 1) {
		mine := changes
		if i+1 < len(pages) {
			k, _ := find(changes, pages[i+1].Key)
			mine, changes = changes[:k], changes[k:]
		}
		if len(mine) == 0 {
			out = append(out, pages[i:min(i+1, len(pages))]...)
			continue
		}
		var old []item
		if len(pages) > 0 {
			if old, err = n.page(pages[i].Value); err != nil {
				return nil, err
			}
		}
		var now []item
		switch {
		case height > 1:
			now, err = n.merge(old, height-1, mine)
		case sizeOf(old) >= pageSize/2 && bytes.Compare(mine[0].Key, old[len(old)-1].Key) > 0:
			out, old = append(out, pages[i]), nil // a log grows at its end: what is there stays
			now = merged(nil, mine)
		default:
			now = merged(old, mine)
		}
		if err != nil {
			return nil, err
		}
		if old != nil {
			n.replaced = append(n.replaced, n.pageKey(pages[i].Value))
		}
		if now, err = n.split(now, height == 1); err != nil {
			return nil, err
		}
		out = append(out, now...)
	}
	return out, nil
}

// merged returns items as changes change them.
func merged(items, changes []item) (out []item) {
	for _, ch := range changes {
		n, found := find(items, ch.Key)
		out = append(out, items[:n]...)
		if items = items[n:]; found {
			items = items[1:]
		}
		if ch.Value != nil {
			out = append(out, ch)
		}
	}
	return append(out, items...)
}

// split makes new pages of items.
func (n *change) split(items []item, leaves bool) (out []item, err error) {
	for len(items) > 0 {
		k, size := 1, items[0].size()
		for ; k < len(items) && size+items[k].size() <= pageSize; k++ {
			if leaves && items[k].Key[0] != items[0].Key[0] {
				break // results come and go: they are not in the pages of records
			}
			size += items[k].size()
		}
		name := make([]byte, 12)
		_, _ = rand.Read(name) // never fails
		key := n.pageKey(name)
		page := slices.Clone(items[:k])
		if n.pages[key], err = encode(key, page); err != nil {
			return nil, err
		}
		n.cache.put(key, nil, page, size)
		out = append(out, item{Key: items[0].Key, Value: name})
		items = items[k:]
	}
	return out, nil
}
