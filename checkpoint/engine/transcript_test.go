package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/engine"
)

// The transcripts say what the engine has a driver commit, and what it answers. Two
// stores, a and b, stand on one driver, as two processes would.
//
//	write store=a thread=t [claim] [release] [wake] [holder=h] [lease=1m] [steal=h] [fence=f1]
//	      [record=r1.1] [branch=b] [seq=n] [head=r1.1] [due=1h] [meta=k] [result=e.0.once.name] [drop=e] [remove=…]
//	rewrite store=a thread=t head=… [remove=…] [replace=…]
//	copy, delete, head, due, sleep
//
// A record's number follows from the head, unless seq says it. Fences and versions are
// numbered in the order in which they are met.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &story{runs: map[string]checkpoint.ID{}, ids: map[checkpoint.ID]string{}, begun: time.Now()}
			d := &telling{told: s.commit}
			s.stores = map[string]*engine.Engine{"a": engine.New(d, engine.Options{}), "b": engine.New(d, engine.Options{})}
			datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
				s.out.Reset()
				if err := s.run(t, c); err != nil {
					s.say("%s", s.plain(err.Error()))
				}
				return s.out.String()
			})
		})
	})
}

// telling tells of each commit.
type telling struct {
	engine.Memory
	told func(*engine.Commit)
}

func (d *telling) Commit(ctx context.Context, batch []*engine.Commit) error {
	err := d.Memory.Commit(ctx, batch)
	for _, c := range batch {
		d.told(c)
	}
	return err
}

type story struct {
	stores map[string]*engine.Engine
	runs   map[string]checkpoint.ID
	ids    map[checkpoint.ID]string
	fences []int64
	vs     []version
	begun  time.Time
	out    bytes.Buffer
}

// version is a thread's header.
type version struct {
	thread checkpoint.ThreadID
	number int64
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// id returns the ID of record r1.2: the second of run r1.
func (s *story) id(name string) checkpoint.ID {
	run, n, ok := strings.Cut(name, ".")
	if !ok {
		return checkpoint.ID(name)
	}
	if s.runs[run] == "" {
		s.runs[run] = checkpoint.NewRunID()
	}
	k, _ := strconv.Atoi(n)
	id := s.runs[run].Checkpoint(uint32(k))
	s.ids[id] = name
	return id
}

// plain shows IDs and fences as the transcripts name them.
func (s *story) plain(text string) string {
	for id, name := range s.ids {
		text = strings.ReplaceAll(text, string(id), name)
	}
	for i, f := range s.fences {
		text = strings.ReplaceAll(text, fmt.Sprint(f), fmt.Sprint("f", i+1))
	}
	return text
}

func (s *story) fence(f checkpoint.Fence) string {
	if f <= 0 {
		return "none"
	}
	if !slices.Contains(s.fences, int64(f)) {
		s.fences = append(s.fences, int64(f))
	}
	return fmt.Sprint("f", slices.Index(s.fences, int64(f))+1)
}

// version shows a version of a thread's header. The first of a thread is one more, although
// two threads may begin with the same.
func (s *story) version(thread checkpoint.ThreadID, number int64, first bool) string {
	if number == 0 {
		return "none"
	}
	v := version{thread, number}
	n := len(s.vs)
	for n > 0 && s.vs[n-1] != v {
		n--
	}
	if first || n == 0 {
		s.vs = append(s.vs, v)
		n = len(s.vs)
	}
	return fmt.Sprint("v", n)
}

// commit shows what a driver is told.
func (s *story) commit(c *engine.Commit) {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	for _, p := range c.Absent {
		add("if absent %s", key(p))
	}
	for _, r := range c.Append {
		add("append %d %s branch %q seq %d", r.Place, s.plain(string(r.ID)), s.plain(string(r.Branch)), r.Seq)
	}
	based := s.version(c.Thread, c.Version, false)
	if h := c.Header; h != nil {
		text := fmt.Sprintf("header %s fence %s", s.version(c.Thread, h.Version, c.Version == 0), s.fence(h.Fence))
		if h.Lease.Holder != "" {
			text += fmt.Sprintf(" lease %s until %v", h.Lease.Holder, h.Lease.Until.Sub(s.begun))
		}
		if due := h.Due(); !due.IsZero() {
			text += fmt.Sprintf(" due %v", due.Sub(s.begun))
		}
		if h.Listed {
			text += fmt.Sprintf(" listed, %d labels", len(h.Labels))
		}
		add("%s", text)
	}
	for _, r := range c.Replace {
		add("replace %d count %d", r.Place, r.Count)
	}
	for _, p := range c.Remove {
		add("remove %d to %d", p.From, p.To)
	}
	for _, k := range c.Delete {
		add("delete %s", key(k))
	}
	for _, p := range c.Put {
		add("put %s", key(p.Key))
	}
	for _, p := range c.Clear {
		add("clear %s", key(p))
	}
	stale := ""
	if c.Err != nil {
		stale = " (stale)"
	}
	s.say("commit %s based on %s%s", c.Thread, based, stale)
	for _, p := range parts {
		s.say("  %s", p)
	}
}

// key shows the kind of a side row.
func key(k []byte) string {
	return map[byte]string{'r': "result", 'u': "run", 's': "segment"}[k[0]]
}

func (s *story) run(t *testing.T, c *datadriven.TestData) error {
	arg := func(name string) string {
		v := ""
		if c.HasArg(name) {
			c.ScanArgs(t, name, &v)
		}
		return v
	}
	all := func(name string) (list []string) {
		for _, a := range c.CmdArgs {
			if a.Key == name {
				list = append(list, a.Vals...)
			}
		}
		return list
	}
	length := func(name string) time.Duration {
		d, err := time.ParseDuration(arg(name))
		if c.HasArg(name) && err != nil {
			t.Fatal(err)
		}
		return d
	}
	store := s.stores["a"]
	if c.HasArg("store") {
		store = s.stores[arg("store")]
	}
	log := checkpoint.Log{Thread: checkpoint.ThreadID(arg("thread")), Namespace: arg("ns")}
	result := func(text string) checkpoint.Result {
		p := strings.SplitN(text, ".", 4)
		task, _ := strconv.Atoi(p[1])
		return checkpoint.Result{Epoch: checkpoint.ID(p[0]), Task: task, Kind: checkpoint.ResultKind(p[2]), Name: p[3], Data: []byte(`1`)}
	}
	record := func(name string) *checkpoint.Record {
		head, _, err := store.Head(t.Context(), log)
		r := &checkpoint.Record{ID: s.id(name), Log: log, Seq: 1, Branch: checkpoint.Branch(s.id(arg("branch"))), CreatedAt: s.begun}
		if err == nil {
			r.Seq = head.Seq + 1
		}
		if c.HasArg("seq") {
			c.ScanArgs(t, "seq", &r.Seq)
		}
		if c.HasArg("due") {
			r.Due = s.begun.Add(length("due"))
		}
		for _, k := range all("meta") {
			r.Metadata = map[string]string{k: "x"}
		}
		return r
	}
	ctx := t.Context()
	switch c.Cmd {
	case "sleep":
		time.Sleep(length("for"))
		return nil
	case "delete":
		return store.Delete(ctx, log.Thread)
	case "copy":
		return store.Copy(ctx, log.Thread, checkpoint.ThreadID(arg("to")))
	case "head":
		r, fence, err := store.Head(ctx, log)
		if errors.Is(err, checkpoint.ErrNotFound) {
			s.say("no record, fence %s", s.fence(fence))
			return nil
		}
		if err == nil {
			s.say("%s, fence %s", s.ids[r.ID], s.fence(fence))
		}
		return err
	case "due":
		for w, err := range store.Due(ctx, time.Now(), 0) {
			if err != nil {
				return err
			}
			s.say("%s since %v", w.Thread, w.Due.Sub(s.begun))
		}
		return nil
	case "rewrite":
		r := &checkpoint.Rewrite{Log: log, Head: s.id(arg("head"))}
		for _, name := range all("remove") {
			r.Remove = append(r.Remove, s.id(name))
		}
		for _, name := range all("replace") {
			r.Replace = append(r.Replace, record(name))
		}
		return store.Rewrite(ctx, r)
	case "write":
		w := &checkpoint.Write{
			Log: log, Claim: c.HasArg("claim"), Release: c.HasArg("release"), Wake: c.HasArg("wake"), Holder: arg("holder"), Steal: arg("steal"),
			Lease: length("lease"), Head: s.id(arg("head")),
		}
		if c.HasArg("fence") {
			n, _ := strconv.Atoi(arg("fence")[1:])
			w.Fence = checkpoint.Fence(s.fences[n-1])
		}
		if c.HasArg("record") {
			w.Record = record(arg("record"))
		}
		for _, x := range all("result") {
			w.Results = append(w.Results, result(x))
		}
		for _, x := range all("remove") {
			r := result(x)
			w.Remove = append(w.Remove, r.Key())
		}
		if c.HasArg("drop") {
			w.Drop = &checkpoint.Drop{Epoch: checkpoint.ID(arg("drop"))}
		}
		out, err := store.Write(ctx, w)
		if err == nil {
			s.say("fence %s, ignored %d", s.fence(out.Fence), out.Ignored)
		}
		return err
	}
	t.Fatalf("no command %q", c.Cmd)
	return nil
}
