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
	ID    string          `json:"i"` // as checkpoint.ID.Bytes, in base64
	Node  string          `json:"n"`
	Kind  string          `json:"k"`
	Data  json.RawMessage `json:"d,omitempty"`
	Lists []ListRef       `json:"l,omitempty"`

	// Of a note beside the log, which says itself where it belongs:
	Namespace string `json:"ns,omitempty"`
	Step      int    `json:"s,omitempty"`
}

// ListRef names a list: the beginning of one that is stored.
type ListRef struct {
	Part string `json:"p,omitempty"`
	Len  int    `json:"n"`
}

// Noted is a note as it was stored.
type Noted struct {
	ID    checkpoint.ID // a UUID of version 7: of when it was made
	Note                // without Lists
	Lists []ListRef
	Log   checkpoint.Log
	Run   checkpoint.ID // that stored it; empty if a superstep is open
	In    checkpoint.ID // the record that has it; empty if a superstep is open: it stands beside the log
	Step  int
	Task  int
}

// Note notes something. It is stored with what is next stored of the run: no write is
// made for it alone. Without a store, and in a replay, nothing is.
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
	form := noteForm{ID: packID(made), Node: t.node.Name, Kind: n.Kind, Data: n.Data}
	var rows []checkpoint.Result
	for _, list := range n.Lists {
		ref, row, err := s.effects.noting(true).parts.put(ctx, s, list)
		if err != nil {
			return err
		}
		if form.Lists = append(form.Lists, ref); row != nil {
			rows = append(rows, *row)
		}
	}
	id := onceID{top.at.epoch, top.at.step(), top.index(), t.onceName(string(made))}
	data, err := json.Marshal(form)
	if err != nil {
		return err
	}
	form.Namespace, form.Step = t.s.o.Log.Namespace, t.at.step()
	if form.Namespace == s.o.Log.Namespace {
		form.Namespace = ""
	}
	open, err := json.Marshal(form)
	if err != nil {
		return err
	}
	s.effects.note(id, data, append(rows, checkpoint.Result{
		Branch: top.at.branch, Epoch: id.epoch, Task: id.task, Kind: checkpoint.KindNote, Name: id.name, Data: open,
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
	e.calls[id] = &onceCall{over: true, note: rows[len(rows)-1].Data, data: data}
	if e.noted == nil {
		e.noted = new(noted)
	}
	e.noted.unsaved = append(e.noted.unsaved, rows...)
	e.used.Store(true)
}

// notes returns notes as the record of s has them that closes their superstep: those of
// each task as one. The record of a thread also has those of subgraphs that none of
// theirs has. It is called with e.mu held.
func (e *effects) notes(s *Session, ids []onceID) (all []checkpoint.OnceResult) {
	made := func(id onceID) string { return id.name[max(0, len(id.name)-36):] } // by which they are in order
	slices.SortFunc(ids, func(a, b onceID) int { return strings.Compare(made(a), made(b)) })
	for _, id := range ids {
		call := e.calls[id]
		data := call.data
		_, task, _, ok := s.onceOf(id)
		if !ok {
			task, data = id.task, call.note
		}
		if s.o.parent != nil {
			call.had = true
			if n := e.noted; n != nil {
				n.unsaved = slices.DeleteFunc(n.unsaved, func(r checkpoint.Result) bool { return r.Kind == checkpoint.KindNote && r.Name == id.name })
			}
		}
		i := slices.IndexFunc(all, func(o checkpoint.OnceResult) bool { return o.Task == task })
		if i < 0 {
			all = append(all, checkpoint.OnceResult{Task: task, Data: slices.Concat([]byte{'['}, data, []byte{']'})})
			continue
		}
		all[i].Data = slices.Concat(all[i].Data[:len(all[i].Data)-1], []byte{','}, data, []byte{']'})
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
// tasks have come to something.
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

// noted returns a note as it was stored, without its place.
func (f *noteForm) noted() (Noted, error) {
	d, ok := parseDigest(f.ID)
	if !ok {
		return Noted{}, fmt.Errorf("its ID is %.40q", f.ID)
	}
	return Noted{ID: checkpoint.IDFromBytes(d), Note: Note{Node: f.Node, Kind: f.Kind, Data: f.Data}, Lists: f.Lists}, nil
}

// NotesOf returns the notes that a record has, in the order in which the tasks made them.
func NotesOf(rec *checkpoint.Record) ([]Noted, error) {
	var all []Noted
	step := rec.Step
	if rec.Source != checkpoint.SourceLoop { // it gave the superstep up
		step++
	}
	for _, o := range rec.Once {
		if o.Name != "" || o.Data == nil {
			continue
		}
		corrupt := func(err error) error {
			return fmt.Errorf("notes of task %d at record %s: %w: %w", o.Task, rec.ID, checkpoint.ErrCorrupt, err)
		}
		var forms []noteForm
		if err := json.Unmarshal(o.Data, &forms); err != nil {
			return nil, corrupt(err)
		}
		for _, f := range forms {
			n, err := f.noted()
			if err != nil {
				return nil, corrupt(err)
			}
			n.Log, n.Run, n.In, n.Step, n.Task = rec.Log, rec.ID.Run(), rec.ID, step, o.Task
			if f.Namespace != "" { // of a subgraph that never came so far
				n.Log.Namespace, n.Step = f.Namespace, f.Step
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// HasNotes reports whether a record has notes, also without its data.
func HasNotes(rec *checkpoint.Record) bool {
	return slices.ContainsFunc(rec.Once, func(o checkpoint.OnceResult) bool { return o.Name == "" })
}

// OpenNotes returns the notes of the superstep that is open at a record, by results that
// stand beside the log.
func OpenNotes(log checkpoint.Log, results []checkpoint.Result) ([]Noted, error) {
	var all []Noted
	for _, r := range results {
		if r.Kind != checkpoint.KindNote {
			continue
		}
		var f noteForm
		var n Noted
		err := json.Unmarshal(r.Data, &f)
		if err == nil {
			n, err = f.noted()
		}
		if err != nil {
			return nil, fmt.Errorf("note of task %d beside epoch %s: %w: %w", r.Task, r.Epoch, checkpoint.ErrCorrupt, err)
		}
		in := log
		if f.Namespace != "" {
			in.Namespace = f.Namespace
		}
		n.Log, n.Step, n.Task = in, f.Step, r.Task
		all = append(all, n)
	}
	return all, nil
}

// digest names an item, or a list by the items from its first on.
type digest [16]byte

func (d digest) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

func digestOf(bs ...[]byte) (d digest) {
	h := sha256.New()
	for _, b := range bs {
		h.Write(b)
	}
	copy(d[:], h.Sum(nil))
	return d
}

// partForm is how a list is stored: as the beginning of another one, and further items.
// Each is in an array of its own, or a text that says where it stands: in which part, and
// the how manieth of its own items it is.
type partForm struct {
	Part  string            `json:"p,omitempty"`
	Len   int               `json:"n,omitempty"`
	Items []json.RawMessage `json:"i"`
}

// inPart is where something stands: an item by its number among the part's own, a
// list by its length.
type inPart struct {
	part digest
	n    int
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
	lists map[digest]inPart
	items map[digest]inPart
}

func newPartIndex() *partIndex {
	return &partIndex{lists: map[digest]inPart{}, items: map[digest]inPart{}}
}

// smallItem is the size below which an item is rather repeated than referred to.
const smallItem = 40

// put returns how a list is referred to, and what is to be stored of it, if anything is.
func (p *parts) put(ctx context.Context, s *Session, list []json.RawMessage) (ref ListRef, row *checkpoint.Result, err error) {
	if len(list) == 0 {
		return ListRef{}, nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(ctx, s); err != nil {
		return ref, nil, err
	}
	items, upTo := make([]digest, len(list)), make([]digest, len(list)+1)
	known := 0
	var begins inPart
	for i, item := range list {
		items[i] = digestOf(item)
		upTo[i+1] = digestOf(upTo[i][:], items[i][:])
		if at, ok := p.lists[upTo[i+1]]; ok && known == i {
			known, begins = i+1, at
		}
	}
	if known == len(list) {
		return ListRef{begins.part.String(), begins.n}, nil, nil
	}
	name := upTo[len(list)]
	form := partForm{Len: begins.n}
	if known > 0 {
		form.Part = begins.part.String()
	}
	for i := known; i < len(list); i++ {
		own := i - known
		if at, ok := p.items[items[i]]; ok && len(list[i]) >= smallItem {
			form.Items = append(form.Items, json.RawMessage(strconv.Quote(at.part.String()+":"+strconv.Itoa(at.n))))
		} else {
			form.Items = append(form.Items, slices.Concat([]byte{'['}, list[i], []byte{']'}))
			p.items[items[i]] = inPart{name, own}
		}
		p.lists[upTo[i+1]] = inPart{name, i + 1}
	}
	data, err := json.Marshal(form)
	if err != nil {
		return ref, nil, err
	}
	return ListRef{name.String(), len(list)}, &checkpoint.Result{Epoch: checkpoint.PartsEpoch, Kind: checkpoint.KindPart, Name: name.String(), Data: data}, nil
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
type Parts map[string]partForm

// LoadParts reads the parts of the lists that stand beside a log.
func LoadParts(ctx context.Context, store checkpoint.Store, log checkpoint.Log) (Parts, error) {
	rs, err := store.Results(ctx, log, "", checkpoint.PartsEpoch)
	if err != nil {
		return nil, &CheckpointError{Thread: log.Thread, Op: "load", Err: err}
	}
	all := make(Parts, len(rs))
	for _, r := range rs {
		var f partForm
		if err := json.Unmarshal(r.Data, &f); err != nil {
			return nil, &CheckpointError{Thread: log.Thread, Op: "load", Err: fmt.Errorf("part %s: %w: %w", r.Name, checkpoint.ErrCorrupt, err)}
		}
		all[r.Name] = f
	}
	return all, nil
}

// index adds what is stored to an index.
func (ps Parts) index(x *partIndex) {
	digests := map[string][]digest{} // of the items of a part's list
	var of func(name string) []digest
	of = func(name string) []digest {
		if ds, ok := digests[name]; ok {
			return ds
		}
		digests[name] = nil // of one that refers to itself: it is of no use
		form, ok := ps[name]
		if !ok {
			return nil
		}
		var ds []digest
		if form.Part != "" {
			if ds = of(form.Part); len(ds) < form.Len {
				return nil
			}
			ds = ds[:form.Len:form.Len]
		}
		part, ok := parseDigest(name)
		if !ok {
			return nil
		}
		for i, raw := range form.Items {
			item, err := ps.item(raw)
			if err != nil {
				return nil
			}
			d := digestOf(item)
			if ds = append(ds, d); raw[0] == '[' {
				x.items[d] = inPart{part, i}
			}
		}
		digests[name] = ds
		return ds
	}
	for name := range ps {
		part, ok := parseDigest(name)
		if !ok {
			continue
		}
		var upTo digest
		for i, d := range of(name) {
			upTo = digestOf(upTo[:], d[:])
			if i >= ps[name].Len {
				x.lists[upTo] = inPart{part, i + 1}
			}
		}
	}
}

func parseDigest(name string) (d digest, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(name)
	return d, err == nil && copy(d[:], b) == len(b) && len(b) == len(d)
}

// item returns an item by how a part has it.
func (ps Parts) item(raw json.RawMessage) (json.RawMessage, error) {
	if raw[0] == '[' {
		return raw[1 : len(raw)-1], nil
	}
	var where string
	if err := json.Unmarshal(raw, &where); err != nil {
		return nil, err
	}
	name, nth, _ := strings.Cut(where, ":")
	n, err := strconv.Atoi(nth)
	if form := ps[name]; err == nil && n >= 0 && n < len(form.Items) && form.Items[n][0] == '[' {
		return ps.item(form.Items[n])
	}
	return nil, fmt.Errorf("item %q: %w", where, ErrNoPart)
}

// ErrNoPart says that a part of a list is not there.
var ErrNoPart = errors.New("a part of it is not in the store")

// List returns a list.
func (ps Parts) List(ref ListRef) ([]json.RawMessage, error) {
	if ref.Len == 0 {
		return nil, nil
	}
	list := make([]json.RawMessage, ref.Len)
	for end := ref.Len; end > 0; {
		form, ok := ps[ref.Part]
		if !ok || form.Len >= end || end > form.Len+len(form.Items) {
			return nil, fmt.Errorf("list %s: %w", ref.Part, ErrNoPart)
		}
		for i := form.Len; i < end; i++ {
			item, err := ps.item(form.Items[i-form.Len])
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		end, ref.Part = form.Len, form.Part
	}
	return list, nil
}

// reach marks the parts that a list consists of.
func (ps Parts) reach(name string, marked map[string]bool) {
	for todo := []string{name}; len(todo) > 0; {
		name, todo = todo[len(todo)-1], todo[:len(todo)-1]
		form, ok := ps[name]
		if !ok || marked[name] {
			continue
		}
		if marked[name] = true; form.Part != "" {
			todo = append(todo, form.Part)
		}
		for _, raw := range form.Items {
			var where string
			if raw[0] == '"' && json.Unmarshal(raw, &where) == nil {
				other, _, _ := strings.Cut(where, ":")
				todo = append(todo, other)
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
