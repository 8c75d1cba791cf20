package retrieval

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/model"
)

// Index keeps the chunks of documents in a store. It is safe for concurrent use as long
// as its fields aren't changed; several programs may share what it keeps.
type Index struct {
	Store memory.Store

	// Namespace is where in the store everything is kept: nothing else should be there.
	Namespace []string

	// Embedder is that of the store's own index, and embeds many chunks in a call. Nil:
	// chunks are not embedded, and found by words alone.
	Embedder model.Embedder

	// Name stands for the embedder. Whoever changes to another one changes the name as
	// well, also that of the store's index, and adds all documents again.
	Name string

	Splitter Splitter

	// Batch is how many chunks are embedded in a call; 0: 64.
	Batch int
}

const (
	defaultBatch = 64
	maxTries     = 5 // of a document that somebody else adds at the same time
)

// Report counts what [Index.Add] did.
type Report struct {
	Added     int // documents that are new or have changed
	Unchanged int // documents that are as they were
	Embedded  int // chunks that are new; without an embedder, put
	Kept      int // chunks of changed documents with the text that they had
	Removed   int // chunks that are no longer there
}

// Indexed is a document that an index keeps.
type Indexed struct {
	ID        string
	Source    string
	Title     string
	Chunks    int
	Complete  bool // false: it is being added or deleted, or that has failed
	UpdatedAt time.Time
}

// record is what is kept of a document beside its chunks. A document is first recorded as
// open, and at its end as it is: what died in between is seen, and done again.
type record struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Title  string `json:"title,omitempty"`
	Chunks int    `json:"chunks"`
	Hash   string `json:"hash"` // of all chunks; empty while the document is open
}

// Of returns documents as [Index.Add] takes them.
func Of(docs ...Document) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for _, d := range docs {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (x *Index) check() error {
	switch {
	case x.Store == nil:
		return &OptionError{"Index.Store", "there is none; give it a memory.Store"}
	case x.Batch < 0:
		return &OptionError{"Index.Batch", "it is negative; 0 means 64"}
	}
	if err := memory.CheckNamespace(x.Namespace); err != nil {
		return &OptionError{"Index.Namespace", err.Error()}
	}
	return x.Splitter.Check()
}

func (x *Index) below(labels ...string) []string { return slices.Concat(x.Namespace, labels) }

// place is what stands for a document in keys and namespaces.
func place(id string) string { return digest([]byte(id)) }

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d ", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// plan is what adding a document takes.
type plan struct {
	doc     Document
	tries   int
	record  record
	version int64             // of the record
	fresh   map[string][]byte // chunks to embed, by their keys
	texts   map[string]string // what is embedded of them
	order   []string          // their keys
	gone    []string          // keys of chunks to delete
	left    int               // how many of the fresh are to be put
	kept    int
}

// Add adds documents, and replaces those with the same IDs. Chunks whose texts, with
// their titles and headings, are as they were aren't embedded again. When it fails or is
// killed, documents that were under way may be found as they were, as they will be, or a
// mixture: adding them again completes them, and what was done isn't done again.
//
// A document that comes as an error, or can't be added, doesn't stop the others: the
// error is all of these, joined. Only a failure of the embedder, of the store, or the end of
// the context does.
func (x *Index) Add(ctx context.Context, docs iter.Seq2[Document, error]) (r Report, err error) {
	if err := x.check(); err != nil {
		return r, err
	}
	var bad []error
	var waiting []*plan
	texts := 0
	for d, err := range docs {
		if ctx.Err() != nil {
			return r, errors.Join(append(bad, ctx.Err())...)
		}
		if slices.ContainsFunc(waiting, func(p *plan) bool { return p.doc.id() == d.id() }) { // the later one counts
			if err := x.flush(ctx, waiting, &r); err != nil {
				return r, errors.Join(append(bad, err)...)
			}
			waiting, texts = nil, 0
		}
		var p *plan
		if err == nil {
			p, err = x.plan(ctx, d, 0, &r)
		}
		if stops(ctx, err) {
			return r, errors.Join(append(bad, err)...)
		}
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if p == nil {
			continue
		}
		waiting = append(waiting, p)
		if texts += p.left; texts >= x.batch() {
			if err := x.flush(ctx, waiting, &r); err != nil {
				return r, errors.Join(append(bad, err)...)
			}
			waiting, texts = nil, 0
		}
	}
	return r, errors.Join(append(bad, x.flush(ctx, waiting, &r))...)
}

func (x *Index) batch() int { return cmp.Or(x.Batch, defaultBatch) }

// stops reports whether an error is about more than one document.
func stops(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, ErrStore))
}

func storeFailed(id string, err error) error {
	if err == nil {
		return nil
	}
	return &DocumentError{Document: id, Kind: ErrStore, Err: err, Fix: "see to it, and do it again: what is done stays"}
}

// plan begins to add a document: it says what is to be done, and does what needs no
// embedding. Nil: nothing is to be done.
func (x *Index) plan(ctx context.Context, d Document, tries int, r *Report) (*plan, error) {
	chunks, err := x.Splitter.Split(d)
	if err != nil {
		return nil, err
	}
	p := &plan{doc: d, tries: tries, record: record{ID: d.id(), Source: d.Source, Title: d.Title, Chunks: len(chunks)}, texts: map[string]string{}}
	at := place(d.id())
	var values [][]byte
	keys := map[string][]byte{}
	for i, c := range chunks {
		raw, err := json.Marshal(c)
		if err == nil { // whether every store takes it
			err = cmp.Or(memory.CheckItem(x.below("chunks", at), at), memory.CheckValue(raw))
		}
		if err != nil {
			return nil, &DocumentError{Document: d.id(), Kind: ErrInvalid, Err: err, Fix: "correct its metadata, or the index's namespace"}
		}
		values = append(values, raw)
		text := embedded(c)
		key := ""
		for n := 0; ; n++ { // the same text may stand there several times
			key = digest([]byte(text), []byte(x.Name), fmt.Append(nil, x.Embedder != nil, n))
			if keys[key] == nil {
				break
			}
		}
		keys[key] = values[i]
		p.texts[key] = text
		p.order = append(p.order, key)
	}
	hash := digest(append(values, []byte(x.Name), fmt.Append(nil, x.Embedder != nil))...)
	old, err := memory.Get[record](ctx, x.Store, x.below("documents"), at, memory.GetOptions{Refresh: memory.RefreshNever})
	if err != nil && !errors.Is(err, memory.ErrNotFound) {
		return nil, storeFailed(d.id(), err)
	}
	if err == nil && old.Value.Hash == hash {
		r.Unchanged++
		return nil, nil
	}
	item, err := memory.Put(ctx, x.Store, x.below("documents"), at, p.record, memory.PutOptions{NoIndex: true, IfVersion: old.Version, IfAbsent: old.Version == 0, TTL: memory.Forever})
	if errors.Is(err, memory.ErrConflict) {
		return x.again(ctx, p, err, r)
	}
	if err != nil {
		return nil, storeFailed(d.id(), err)
	}
	p.version, p.record.Hash = item.Version, hash
	have, err := x.Store.Search(ctx, x.below("chunks", at), memory.Query{Exact: true, Limit: memory.Unlimited, Refresh: memory.RefreshNever})
	if err != nil {
		return nil, storeFailed(d.id(), err)
	}
	for _, h := range have {
		raw, wanted := keys[h.Key]
		if !wanted {
			p.gone = append(p.gone, h.Key)
			continue
		}
		p.kept++
		delete(keys, h.Key)
		if sameJSON(raw, h.Value) {
			continue
		}
		_, err := x.Store.Put(ctx, x.below("chunks", at), h.Key, raw, memory.PutOptions{IfVersion: h.Version, KeepVectors: true, TTL: memory.Forever})
		if errors.Is(err, memory.ErrConflict) {
			return x.again(ctx, p, err, r)
		}
		if err != nil {
			return nil, storeFailed(d.id(), err)
		}
	}
	p.fresh, p.left = keys, len(keys)
	p.order = slices.DeleteFunc(p.order, func(key string) bool { return keys[key] == nil })
	return p, nil
}

// again plans a document that somebody else has changed meanwhile once more.
func (x *Index) again(ctx context.Context, p *plan, err error, r *Report) (*plan, error) {
	if p.tries+1 == maxTries {
		return nil, &DocumentError{Document: p.doc.id(), Kind: ErrStore, Err: err, Fix: "somebody else adds it at the same time: let one of them do it, and add it again"}
	}
	return x.plan(ctx, p.doc, p.tries+1, r)
}

// embedded is what is embedded of a chunk: its text, and where it stands.
func embedded(c Chunk) string {
	where := c.Headings
	if c.Title != "" && (len(where) == 0 || where[0] != c.Title) {
		where = append([]string{c.Title}, where...)
	}
	if len(where) == 0 {
		return c.Text
	}
	return strings.Join(where, " > ") + "\n\n" + c.Text
}

// sameJSON reports whether values are equal, whatever their form.
func sameJSON(a, b []byte) bool {
	form := func(raw []byte) []byte {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return raw
		}
		out, err := json.Marshal(v)
		if err != nil {
			return raw
		}
		return out
	}
	return bytes.Equal(form(a), form(b))
}

// flush embeds and puts the chunks of documents, and completes them.
func (x *Index) flush(ctx context.Context, plans []*plan, r *Report) error {
	type fresh struct {
		*plan
		key string
	}
	for len(plans) > 0 {
		var all []fresh
		for _, p := range plans {
			for _, key := range p.order {
				all = append(all, fresh{p, key})
			}
		}
		var again []*plan
		complete := func() error {
			for len(plans) > 0 && plans[0].left == 0 {
				p, err := x.complete(ctx, plans[0], r)
				if err != nil {
					return err
				}
				if p != nil {
					again = append(again, p)
				}
				plans = plans[1:]
			}
			return nil
		}
		if err := complete(); err != nil {
			return err
		}
		for batch := range slices.Chunk(all, x.batch()) {
			var vectors [][]float32
			if x.Embedder != nil {
				texts := make([]string, len(batch))
				for i, f := range batch {
					texts[i] = f.texts[f.key]
				}
				var err error
				if vectors, err = model.Embed(ctx, x.Embedder, texts); err != nil {
					f := batch[0]
					return &DocumentError{
						Document: f.doc.id(), Kind: ErrEmbedding, Err: fmt.Errorf("%d of its %d chunks are done: %w", f.record.Chunks-f.left, f.record.Chunks, err),
						Fix: "see to the embedder, and add the document again: what is done isn't embedded again",
					}
				}
			}
			for i, f := range batch {
				o := memory.PutOptions{NoIndex: true, TTL: memory.Forever}
				if x.Embedder != nil {
					o.NoIndex, o.Vectors = false, vectors[i:i+1]
				}
				if _, err := x.Store.Put(ctx, x.below("chunks", place(f.doc.id())), f.key, f.fresh[f.key], o); err != nil {
					return storeFailed(f.doc.id(), err)
				}
				f.left--
				r.Embedded++
			}
			if err := complete(); err != nil {
				return err
			}
		}
		plans = again
	}
	return nil
}

// complete deletes the chunks that are no longer in a document and records it. It
// returns a new plan if somebody else has changed the document meanwhile.
func (x *Index) complete(ctx context.Context, p *plan, r *Report) (*plan, error) {
	at := place(p.doc.id())
	for _, key := range p.gone {
		if err := x.Store.Delete(ctx, x.below("chunks", at), key); err != nil {
			return nil, storeFailed(p.doc.id(), err)
		}
	}
	_, err := memory.Put(ctx, x.Store, x.below("documents"), at, p.record, memory.PutOptions{NoIndex: true, IfVersion: p.version, TTL: memory.Forever})
	if errors.Is(err, memory.ErrConflict) {
		return x.again(ctx, p, err, r)
	}
	if err != nil {
		return nil, storeFailed(p.doc.id(), err)
	}
	r.Added++
	r.Kept += p.kept
	r.Removed += len(p.gone)
	return nil, nil
}

// Delete removes a document and its chunks. One that isn't there is no error. When it
// fails or is killed, it is completed by doing it again.
func (x *Index) Delete(ctx context.Context, id string) error {
	if err := x.check(); err != nil {
		return err
	}
	at := place(id)
	for tries := 0; ; tries++ {
		err := x.remove(ctx, at)
		if err == nil || errors.Is(err, memory.ErrNotFound) {
			return nil
		}
		if !errors.Is(err, memory.ErrConflict) || tries == maxTries {
			return storeFailed(id, err)
		}
	}
}

func (x *Index) remove(ctx context.Context, at string) error {
	old, err := memory.Get[record](ctx, x.Store, x.below("documents"), at, memory.GetOptions{Refresh: memory.RefreshNever})
	if err != nil {
		return err
	}
	old.Value.Hash = ""
	item, err := memory.Put(ctx, x.Store, x.below("documents"), at, old.Value, memory.PutOptions{NoIndex: true, IfVersion: old.Version, TTL: memory.Forever})
	if err != nil {
		return err
	}
	have, err := x.Store.Search(ctx, x.below("chunks", at), memory.Query{Exact: true, Limit: memory.Unlimited, Refresh: memory.RefreshNever})
	if err != nil {
		return err
	}
	for _, h := range have {
		if err := x.Store.Delete(ctx, h.Namespace, h.Key); err != nil {
			return err
		}
	}
	return x.Store.Delete(ctx, x.below("documents"), at, memory.DeleteOptions{IfVersion: item.Version})
}

// Documents lists what the index keeps, by their IDs.
func (x *Index) Documents(ctx context.Context) ([]Indexed, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	found, err := memory.Search[record](ctx, x.Store, x.below("documents"), memory.Query{Exact: true, Limit: memory.Unlimited, Refresh: memory.RefreshNever})
	if err != nil {
		return nil, fmt.Errorf("retrieval: listing documents: %w", err)
	}
	out := make([]Indexed, len(found))
	for i, e := range found {
		v := e.Value
		out[i] = Indexed{ID: v.ID, Source: v.Source, Title: v.Title, Chunks: v.Chunks, Complete: v.Hash != "", UpdatedAt: e.UpdatedAt}
	}
	slices.SortFunc(out, func(a, b Indexed) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
