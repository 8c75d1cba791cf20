package local

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/checkpoint"
)

// Note is what a task says of its work, beside what it comes to: a history tells of it,
// the state doesn't. What its lists have in common with those of the thread's other notes
// is stored once.
type Note struct {
	Node  string
	Kind  string
	Data  json.RawMessage
	Lists [][]json.RawMessage
}

// noteForm is how a note is stored: in the record that closes its superstep and, until
// then, beside the log of the run's root.
type noteForm struct {
	ID        string          `json:"i"` // as checkpoint.ID.Bytes, in base64
	Node      string          `json:"n"`
	Kind      string          `json:"k"`
	Data      json.RawMessage `json:"d,omitempty"`
	Lists     []string        `json:"l,omitempty"`  // each by its last part; empty: it has no items
	Namespace string          `json:"ns,omitempty"` // of a subgraph's log
	Step      int             `json:"s"`            // of its log
}

// Noted is a note as it was stored.
type Noted struct {
	ID    checkpoint.ID // a UUID of version 7: of when it was made
	Note                // without Lists
	Lists []string      // see [Parts.List]
	Log   checkpoint.Log
	In    checkpoint.ID // the record that has it; empty if a superstep is open: it stands beside the log
	Step  int
	Task  int
}

// Note notes something. It is stored with what is next stored of the run: no write is
// made for it alone, but for lists that a subgraph's record refers to. Without a store, and in a replay, nothing is.
func (t *Task) Note(ctx context.Context, n Note) error {
	top := t.top()
	s := top.s
	if s.saver == nil || t.s.o.Tape != nil {
		return nil
	}
	t.mu.Lock()
	ended := t.ended
	t.mu.Unlock()
	if ended {
		return ErrLate
	}
	made := checkpoint.NewRunID()
	form := noteForm{ID: packID(made), Node: t.node.Name, Kind: n.Kind, Data: n.Data, Step: t.at.step()}
	if t.s.o.Log.Namespace != s.o.Log.Namespace {
		form.Namespace = t.s.o.Log.Namespace
	}
	noted := s.effects.noting(true)
	var rows []checkpoint.Result
	for _, list := range n.Lists {
		name, row, err := noted.parts.put(ctx, s, list)
		if err != nil {
			return err
		}
		if form.Lists = append(form.Lists, name); row != nil {
			rows = append(rows, *row)
		}
	}
	data, err := json.Marshal(form)
	if err != nil {
		return err
	}
	id := onceID{top.at.epoch, top.at.step(), top.index(), t.onceName(string(made))}
	s.effects.note(id, data, append(rows, checkpoint.Result{
		Branch: top.at.branch, Epoch: id.epoch, Task: id.task, Kind: checkpoint.KindNote, Name: id.name, Data: data,
	}))
	return nil
}

// noted is what a run has to store of what its tasks note.
type noted struct {
	unsaved []checkpoint.Result // by effects.mu
	parts   parts
}

// noting returns e.noted, making it if need be.
func (e *effects) noting(need bool) *noted {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noted == nil && need {
		e.noted = new(noted)
	}
	return e.noted
}

// note keeps a note of the open superstep, and what is to be stored of it.
func (e *effects) note(id onceID, data json.RawMessage, rows []checkpoint.Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls == nil {
		e.calls = map[onceID]*onceCall{}
	}
	e.calls[id] = &onceCall{over: true, note: true, data: data}
	e.noted.unsaved = append(e.noted.unsaved, rows...)
	e.used.Store(true)
}

// notes returns notes as the record of s has them that closes their superstep. The record
// of a thread also has those of subgraphs that none of theirs has. It is called with e.mu
// held.
func (e *effects) notes(s *Session, ids []onceID) (all []checkpoint.OnceResult) {
	made := func(id onceID) string { return id.name[max(0, len(id.name)-36):] } // by which they are in order
	slices.SortFunc(ids, func(a, b onceID) int { return strings.Compare(made(a), made(b)) })
	for _, id := range ids {
		call := e.calls[id]
		_, task, _, ok := s.onceOf(id)
		if !ok {
			task = id.task
		}
		all = append(all, checkpoint.OnceResult{Task: task, Data: call.data})
		if s.o.parent == nil {
			continue
		}
		call.had = true
		if n := e.noted; n != nil {
			n.unsaved = slices.DeleteFunc(n.unsaved, func(r checkpoint.Result) bool { return r.Kind == checkpoint.KindNote && r.Name == id.name })
		}
	}
	return all
}

// addNotes has a write to the log of the run's root also store what is noted and not
// stored yet. Closes says that its record has the notes of the superstep.
func (s *Session) addNotes(w *checkpoint.Write, closes bool) {
	e := &s.effects
	if s.o.parent != nil || !e.used.Load() {
		return
	}
	var rows []checkpoint.Result
	e.mu.Lock()
	if e.noted != nil {
		rows, e.noted.unsaved = e.noted.unsaved, nil
	}
	e.mu.Unlock()
	if closes {
		rows = slices.DeleteFunc(rows, func(r checkpoint.Result) bool { return r.Kind == checkpoint.KindNote })
	}
	if len(rows) == 0 {
		return
	}
	w.Results = slices.Concat(w.Results, rows)
	if !closes {
		s.beside.Store(true)
	}
}

// saveNotes stores what is noted and travels with nothing else: the run ends before its
// tasks have come to something, or the record of a subgraph has notes whose lists stand
// beside the log of the run's root.
func (s *Session) saveNotes(ctx context.Context) error {
	if !s.effects.used.Load() {
		return nil
	}
	w := &checkpoint.Write{Log: s.o.Log}
	if s.addNotes(w, false); len(w.Results) == 0 {
		return nil
	}
	return s.saver.save(ctx, w)
}

func packID(id checkpoint.ID) string {
	b, _ := id.Bytes()
	return digest(b).String()
}

// readNote returns a note of a thread as a task of its root stored it.
func readNote(root checkpoint.Log, task int, data json.RawMessage) (Noted, error) {
	var f noteForm
	if err := json.Unmarshal(data, &f); err != nil {
		return Noted{}, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	d, ok := parseDigest(f.ID)
	if !ok {
		return Noted{}, fmt.Errorf("%w: its ID is %.40q", checkpoint.ErrCorrupt, f.ID)
	}
	if f.Namespace != "" {
		root.Namespace = f.Namespace
	}
	return Noted{ID: checkpoint.IDFromBytes(d), Note: Note{Node: f.Node, Kind: f.Kind, Data: f.Data}, Lists: f.Lists, Log: root, Step: f.Step, Task: task}, nil
}

// NotesOf returns the notes that a record has, in the order in which the tasks made them.
func NotesOf(rec *checkpoint.Record) (all []Noted, err error) {
	for _, o := range rec.Once {
		if o.Name != "" || o.Data == nil {
			continue
		}
		n, err := readNote(rec.Log, o.Task, o.Data)
		if err != nil {
			return nil, fmt.Errorf("a note of task %d at record %s: %w", o.Task, rec.ID, err)
		}
		n.In = rec.ID
		all = append(all, n)
	}
	return all, nil
}

// HasNotes reports whether a record has notes, also without its data.
func HasNotes(rec *checkpoint.Record) bool {
	return slices.ContainsFunc(rec.Once, func(o checkpoint.OnceResult) bool { return o.Name == "" })
}

// OpenNotes returns the notes of the superstep that is open at a record, by results that
// stand beside the log.
func OpenNotes(log checkpoint.Log, results []checkpoint.Result) (all []Noted, err error) {
	for _, r := range results {
		if r.Kind != checkpoint.KindNote {
			continue
		}
		n, err := readNote(log, r.Task, r.Data)
		if err != nil {
			return nil, fmt.Errorf("a note of task %d beside epoch %s: %w", r.Task, r.Epoch, err)
		}
		all = append(all, n)
	}
	return all, nil
}

// digest names an item, or a list by the items from its first on.
type digest [16]byte

func (d digest) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

func parseDigest(name string) (d digest, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(name)
	return d, err == nil && copy(d[:], b) == len(b) && len(b) == len(d)
}

func digestOf(bs ...[]byte) (d digest) {
	h := sha256.New()
	for _, b := range bs {
		h.Write(b)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// partForm is how the end of a list is stored, by the list's digest: the part that the list
// before it ends with, and further items. Each is in an array of its own or, if another part
// has it, a text: its digest.
type partForm struct {
	After string            `json:"p,omitempty"`
	Items []json.RawMessage `json:"i"`
}

// parts is what one run knows to be stored of its thread's lists, or about to be. It
// stores nothing twice that it knows of.
type parts struct {
	mu     sync.Mutex
	loaded bool
	*partIndex
}

type partIndex struct {
	fence checkpoint.Fence // of the claim under which the parts were last seen
	lists map[digest]bool
	items map[digest]bool
}

func newPartIndex() *partIndex {
	return &partIndex{lists: map[digest]bool{}, items: map[digest]bool{}}
}

// smallItem is the size below which an item is rather repeated than referred to.
const smallItem = 40

// put returns the last part of a list, and what is to be stored of it, if anything is.
func (p *parts) put(ctx context.Context, s *Session, list []json.RawMessage) (last string, row *checkpoint.Result, err error) {
	if len(list) == 0 {
		return "", nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(ctx, s); err != nil {
		return "", nil, err
	}
	items := make([]digest, len(list))
	var upTo digest
	known := 0
	for i, item := range list {
		items[i] = digestOf(item)
		upTo = digestOf(upTo[:], items[i][:])
		if p.lists[upTo] {
			known, last = i+1, upTo.String()
		}
	}
	if known == len(list) {
		return last, nil, nil
	}
	form := partForm{After: last}
	for i := known; i < len(list); i++ {
		if p.items[items[i]] && len(list[i]) >= smallItem {
			form.Items = append(form.Items, json.RawMessage(strconv.Quote(items[i].String())))
			continue
		}
		form.Items = append(form.Items, slices.Concat([]byte{'['}, list[i], []byte{']'}))
		p.items[items[i]] = true
	}
	data, err := json.Marshal(form)
	if err != nil {
		return "", nil, err
	}
	p.lists[upTo] = true
	return upTo.String(), &checkpoint.Result{Epoch: checkpoint.PartsEpoch, Kind: checkpoint.KindPart, Name: upTo.String(), Data: data}, nil
}

// load learns what is stored: from what another run of this program knew, if nobody else
// has had the thread since, else from the store.
func (p *parts) load(ctx context.Context, s *Session) error {
	if p.loaded {
		return nil
	}
	s.saver.mu.Lock()
	fence := s.saver.fence
	claimed := s.saver.claimed
	s.saver.mu.Unlock()
	fresh := s.tip == nil && s.anew == ""
	if p.partIndex = s.o.Kept.takeParts(s.o.Store, s.o.Log); p.partIndex == nil || fresh || p.fence != fence && !(claimed && p.fence+1 == fence) {
		p.partIndex = newPartIndex()
		if !fresh {
			stored, err := LoadParts(ctx, s.o.Store, s.o.Log)
			if err != nil {
				return err
			}
			stored.index(p.partIndex)
		}
	}
	p.loaded = true
	return nil
}

// keep leaves what is known to the next run of this program.
func (p *parts) keep(s *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.loaded {
		return
	}
	s.saver.mu.Lock()
	claimed, fence, failed := s.saver.claimed, s.saver.fence, s.saver.failed
	s.saver.mu.Unlock()
	if claimed && failed == nil {
		p.fence = fence
		s.o.Kept.putParts(s.o.Store, s.o.Log, p.partIndex)
	}
	p.loaded, p.partIndex = false, nil
}

// Parts are the stored parts of a thread's lists.
type Parts struct {
	of    map[string]partForm
	items map[string]stored // by digest
}

type stored struct {
	part string
	item json.RawMessage
}

// LoadParts reads the parts of the lists that stand beside a log.
func LoadParts(ctx context.Context, store checkpoint.Store, log checkpoint.Log) (*Parts, error) {
	rs, err := store.Results(ctx, log, "", checkpoint.PartsEpoch)
	if err != nil {
		return nil, &CheckpointError{Thread: log.Thread, Op: "load", Err: err}
	}
	ps := &Parts{make(map[string]partForm, len(rs)), map[string]stored{}}
	for _, r := range rs {
		var f partForm
		if err := json.Unmarshal(r.Data, &f); err != nil {
			return nil, &CheckpointError{Thread: log.Thread, Op: "load", Err: fmt.Errorf("part %s: %w: %w", r.Name, checkpoint.ErrCorrupt, err)}
		}
		ps.of[r.Name] = f
		for _, raw := range f.Items {
			if item, ok := inline(raw); ok {
				ps.items[digestOf(item).String()] = stored{r.Name, item}
			}
		}
	}
	return ps, nil
}

// inline returns an item that a part has itself.
func inline(raw json.RawMessage) (item json.RawMessage, ok bool) {
	if len(raw) < 2 || raw[0] != '[' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// elsewhere finds an item that a part has by its digest.
func (ps *Parts) elsewhere(raw json.RawMessage) (at stored, ok bool) {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		at, ok = ps.items[name]
	}
	return at, ok
}

// index adds the lists that are whole to an index, and the items.
func (ps *Parts) index(x *partIndex) {
	for name := range ps.items {
		if d, ok := parseDigest(name); ok {
			x.items[d] = true
		}
	}
	whole := map[string]bool{"": true}
	for name := range ps.of {
		var up []string
		for !whole[name] {
			f, ok := ps.of[name]
			if _, err := ps.itemsOf(&f); !ok || err != nil || len(up) == len(ps.of) {
				up = nil
				break
			}
			up, name = append(up, name), f.After
		}
		for _, name := range up {
			whole[name] = true
			if d, ok := parseDigest(name); ok {
				x.lists[d] = true
			}
		}
	}
}

// ErrNoPart says that a part of a list is not there.
var ErrNoPart = errors.New("a part of it is not in the store")

// itemsOf returns the items of a part.
func (ps *Parts) itemsOf(f *partForm) ([]json.RawMessage, error) {
	items := make([]json.RawMessage, len(f.Items))
	for i, raw := range f.Items {
		var ok bool
		if items[i], ok = inline(raw); ok {
			continue
		}
		at, ok := ps.elsewhere(raw)
		if !ok {
			return nil, fmt.Errorf("item %q: %w", raw, ErrNoPart)
		}
		items[i] = at.item
	}
	return items, nil
}

// List returns the list that ends with a part.
func (ps *Parts) List(last string) ([]json.RawMessage, error) {
	var list [][]json.RawMessage
	for name := last; name != ""; {
		f, ok := ps.of[name]
		if !ok || len(list) == len(ps.of) {
			return nil, fmt.Errorf("list %s: %w", last, ErrNoPart)
		}
		items, err := ps.itemsOf(&f)
		if err != nil {
			return nil, err
		}
		list, name = append(list, items), f.After
	}
	slices.Reverse(list)
	return slices.Concat(list...), nil
}

// reach marks the parts that a list consists of.
func (ps *Parts) reach(last string, marked map[string]bool) {
	for todo := []string{last}; len(todo) > 0; {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f, ok := ps.of[name]
		if !ok || marked[name] {
			continue
		}
		marked[name] = true
		todo = append(todo, f.After)
		for _, raw := range f.Items {
			if at, ok := ps.elsewhere(raw); ok {
				todo = append(todo, at.part)
			}
		}
	}
}

// keptParts is what is known of the parts of threads that were run lately.
type keptParts struct {
	mu   sync.Mutex
	of   map[partsKey]*partIndex
	size int
}

type partsKey struct {
	store checkpoint.Store
	log   checkpoint.Log
}

// mostParts bounds what is kept: about 100 bytes each.
const mostParts = 100_000

func (x *partIndex) size() int { return len(x.lists) + len(x.items) }

// takeParts returns what is kept of a thread's parts, nil if nothing is. It is the
// caller's then.
func (k *Kept) takeParts(store checkpoint.Store, log checkpoint.Log) *partIndex {
	if k == nil || !reflect.TypeOf(store).Comparable() {
		return nil
	}
	k.parts.mu.Lock()
	defer k.parts.mu.Unlock()
	key := partsKey{store, log}
	x := k.parts.of[key]
	if x != nil {
		delete(k.parts.of, key)
		k.parts.size -= x.size()
	}
	return x
}

func (k *Kept) putParts(store checkpoint.Store, log checkpoint.Log, x *partIndex) {
	if k == nil || !reflect.TypeOf(store).Comparable() || x.size() > mostParts/4 {
		return
	}
	k.parts.mu.Lock()
	defer k.parts.mu.Unlock()
	if k.parts.of == nil || k.parts.size+x.size() > mostParts {
		k.parts.of, k.parts.size = map[partsKey]*partIndex{}, 0
	}
	if old := k.parts.of[partsKey{store, log}]; old != nil {
		k.parts.size -= old.size()
	}
	k.parts.of[partsKey{store, log}] = x
	k.parts.size += x.size()
}
