package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/redis"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// stats returns how often the server ran scripts, and commands in all, those of
// scripts included, since the last time.
func stats(t *testing.T, c *goredis.Client) (scripts, commands int) {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		var n int
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "evalsha":
			scripts += n
		case "info", "config|resetstat", "eval":
			continue
		}
		commands += n
	}
	set(t, c, "CONFIG", "RESETSTAT")
	return scripts, commands
}

// TestHowOftenTheServerIsAsked counts requests instead of time.
func TestHowOftenTheServerIsAsked(t *testing.T) {
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := client(t, server.URL())
	asked := func(what string, scripts int, f func()) {
		t.Helper()
		stats(t, c)
		f()
		if n, _ := stats(t, c); n != scripts {
			t.Errorf("%s: %d requests, want %d", what, n, scripts)
		}
	}
	read := func(q checkpoint.Query) func() {
		return func() {
			for _, err := range s.Records(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	log := checkpoint.Log{Thread: "t"}
	run := checkpoint.NewRunID()
	var head checkpoint.ID
	appended := func(seq int) (commands int) {
		r := logtest.Step(log, run, head, int64(seq), logtest.Message)
		stats(t, c)
		w := &checkpoint.Write{Log: log, Head: head, Record: r}
		if head != "" {
			w.Results = []checkpoint.Result{{Epoch: head, Kind: checkpoint.KindChanges}, {Epoch: r.ID, Kind: checkpoint.KindOnce}}
			w.Drop = &checkpoint.Drop{Epoch: head}
		}
		logtest.Write(t, s, w)
		scripts, commands := stats(t, c)
		if scripts != 1 && seq > 1 {
			t.Fatalf("%d requests for an append", scripts)
		}
		head = r.ID
		return commands
	}
	const n = 1000
	early, late := 0, 0
	for seq := 1; seq <= n; seq++ {
		switch k := appended(seq); seq {
		case 10:
			early = k
		case n:
			late = k
		}
	}
	if late != early {
		t.Errorf("an append takes %d commands at first and %d after %d records", early, late, n)
	}
	t.Logf("a superstep takes %d commands", late)

	q := checkpoint.Query{Log: log}
	read(q)() // from here on the server knows the scripts
	asked("1,000 records", 1+4, read(q))
	q.Meta = true
	asked("1,000 records without data", 1+4, read(q))
	asked("the last ten", 1+1, read(checkpoint.Query{Log: log, Desc: true, Limit: 10}))
	asked("a range", 1+1, read(checkpoint.Query{Log: log, From: 500, To: 600}))
	if _, _, err := s.Head(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	asked("the head", 1, func() {
		if _, _, err := s.Head(t.Context(), log); err != nil {
			t.Fatal(err)
		}
	})

	// Pages end after a megabyte, too.
	big := checkpoint.Log{Thread: "big"}
	run, parent := checkpoint.NewRunID(), checkpoint.ID("")
	data := logtest.Noise(300 << 10)
	for seq := range int64(16) {
		r := logtest.Step(big, run, parent, seq+1, data)
		logtest.Write(t, s, &checkpoint.Write{Log: big, Head: parent, Record: r})
		parent = r.ID
	}
	asked("16 records of 300 kB", 1+4, read(checkpoint.Query{Log: big}))
	asked("16 records of 300 kB without data", 1+1, read(checkpoint.Query{Log: big, Meta: true}))

	for i := range 300 {
		logtest.Begin(t, s, checkpoint.Log{Thread: checkpoint.ThreadID(fmt.Sprint("many", i))}, 1)
	}
	list := func(f checkpoint.ThreadFilter, want int) func() {
		return func() {
			n := 0
			for _, err := range s.Threads(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != want {
				t.Fatalf("%d threads, want %d", n, want)
			}
		}
	}
	list(checkpoint.ThreadFilter{Prefix: "many"}, 300)()
	asked("302 threads", 1, list(checkpoint.ThreadFilter{}, 302))
	asked("300 threads with a prefix", 1, list(checkpoint.ThreadFilter{Prefix: "many"}, 300))
	asked("the newest 10 threads", 1, list(checkpoint.ThreadFilter{Limit: 10}, 10))
	asked("the newest 10 threads with a prefix", 1, list(checkpoint.ThreadFilter{Prefix: "many", Limit: 10}, 10))
	for range s.Due(t.Context(), time.Now(), 0) {
		t.Fatal("nothing is due")
	}
	asked("what is due", 1, func() {
		for range s.Due(t.Context(), time.Now(), 0) {
			t.Fatal("nothing is due")
		}
	})

	// A log that was shortened is read without stepping over what is gone.
	var gone []checkpoint.ID
	for r, err := range s.Records(t.Context(), checkpoint.Query{Log: log, Meta: true, To: n - 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Seq%100 != 0 {
			gone = append(gone, r.ID)
		}
	}
	if err := s.Rewrite(t.Context(), &checkpoint.Rewrite{Log: log, Head: head, Remove: gone}); err != nil {
		t.Fatal(err)
	}
	stats(t, c)
	if left := logtest.Count(t, s, log); left != 11 {
		t.Fatalf("%d records left, want 11", left)
	}
	if _, commands := stats(t, c); commands > 50 {
		t.Errorf("%d commands to read 11 records", commands)
	}
	for d, err := range s.Verify(t.Context(), "") {
		t.Fatal(d, err)
	}
}

// TestAConversation measures what 2,000 turns of 1 kB take, in memory and in the
// server's file before it is rewritten.
func TestAConversation(t *testing.T) {
	const turns, perTurn = 2000, 1000
	server := servertest.OwnRedis(t)
	s, err := redis.Open(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log := checkpoint.Log{Thread: "conversation"}
	said := func(role string) []byte {
		m := `{"messages":[{"role":"` + role + `","content":"`
		return []byte(m + strings.Repeat("x", perTurn/2-len(m)-4) + `"}]}`)
	}
	var parent checkpoint.ID
	var seq int64
	for range turns {
		run := checkpoint.NewRunID()
		for n, r := range []*checkpoint.Record{
			{
				Source: checkpoint.SourceInput, Changes: []checkpoint.Change{{Data: said("user")}},
				Tasks: []checkpoint.Task{{Node: "agent"}},
			},
			{
				Source: checkpoint.SourceLoop, Changes: []checkpoint.Change{{Node: "agent", Data: said("assistant")}},
			},
		} {
			seq++
			r.ID, r.Parent, r.Log, r.Seq = run.Checkpoint(uint32(n+1)), parent, log, seq
			r.Epoch, r.Step, r.CreatedAt, r.Graph, r.Version = r.ID, n, time.Now().UTC(), "chat", 1
			logtest.Write(t, s, &checkpoint.Write{Log: log, Record: r, Head: parent})
			parent = r.ID
		}
	}
	c := client(t, server.URL())
	var memory int64
	for _, k := range keys(t, c, "") {
		memory += c.MemoryUsage(t.Context(), k, 0).Val()
	}
	written, err := c.Info(t.Context(), "persistence").Result()
	if err != nil {
		t.Fatal(err)
	}
	var file int64
	if _, rest, ok := strings.Cut(written, "aof_current_size:"); ok {
		if _, err := fmt.Sscan(rest, &file); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%.2f times the messages in memory, %.2f times in the file before it is rewritten",
		float64(memory)/(turns*perTurn), float64(file)/(turns*perTurn))
	if factor := float64(memory) / (turns * perTurn); factor > 2.5 {
		t.Fatalf("%.2f times the messages in memory", factor)
	}
}
