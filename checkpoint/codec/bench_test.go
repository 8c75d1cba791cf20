package codec

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
)

var benchForms = []struct {
	name string
	Options
}{
	{"JSON", Options{}},
	{"CBOR", Options{Encoding: CBOR}},
	{"zstd", Options{Compress: true}},
	{"CBOR+zstd", Options{Encoding: CBOR, Compress: true}},
	{"encrypted", Options{Keys: testRing("k1")}},
	{"zstd+encrypted", Options{Keys: testRing("k1"), Compress: true}},
	{"CBOR+zstd+encrypted", Options{Keys: testRing("k1"), Compress: true, Encoding: CBOR}},
}

// words are the most frequent ones of English and of talk about software, the
// first ones used most.
var words = strings.Fields(`the of to and a in is that it you for was on are with as be this have from or one had by but not what all were
	when we there can an your which their said if do will each about how up out them then she many some so these would other into has more
	her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very
	after words called just where most know order shipping invoice customer account update request response server database timeout error
	retry message function model agent tool result because however therefore documentation configuration parameter available information
	question answer travel booking flight hotel reservation confirmation weather temperature tomorrow yesterday schedule meeting calendar`)

// prose returns text of n bytes.
func prose(rnd *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		i := int(rnd.ExpFloat64() * float64(len(words)) / 5)
		b.WriteString(words[i%len(words)])
		switch rnd.IntN(14) {
		case 0:
			b.WriteString(". ")
		case 1:
			b.WriteString(", ")
		case 2:
			fmt.Fprintf(&b, " %d ", rnd.IntN(10000))
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()[:n]
}

// turn is a record as an agent writes it: one message of n bytes.
func turn(rnd *rand.Rand, r *checkpoint.Record, n int) string {
	text := prose(rnd, n)
	data := fmt.Sprintf(`{"messages":[{"role":"assistant","content":%q,"id":"%x","usage":{"input_tokens":%d,"output_tokens":%d,"cost":%.6f}}]}`,
		text, rnd.Uint64(), rnd.IntN(9000), rnd.IntN(900), rnd.Float64()/10)
	r.Metadata, r.Graph, r.Recent = nil, "agent", []string{"model", "tools", "model", "tools"}
	r.Changes[0] = checkpoint.Change{Node: "model", Data: []byte(data)}
	r.Tasks = []checkpoint.Task{{Node: "model", From: "tools"}}
	return text
}

func BenchmarkSeal(b *testing.B) {
	r := sample(log1, 2)[1]
	turn(rand.New(rand.NewPCG(1, 2)), r, 1000)
	for _, f := range benchForms {
		b.Run(f.name, func(b *testing.B) {
			s := mustWrap(b, checkpoint.NewMemory(), f.Options)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				out, err := s.seal(r)
				if err != nil {
					b.Fatal(err)
				}
				n = len(out.Sealed.Meta) + len(out.Sealed.Data)
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	r := sample(log1, 2)[1]
	turn(rand.New(rand.NewPCG(1, 2)), r, 1000)
	for _, f := range benchForms {
		for _, data := range []bool{true, false} {
			name := f.name
			if !data {
				name += "/meta"
			}
			b.Run(name, func(b *testing.B) {
				s := mustWrap(b, checkpoint.NewMemory(), f.Options)
				sealed, err := s.seal(r)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.open(sealed, data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkConversation writes 2,000 turns of 1 kB to SQLite and reads them back.
func BenchmarkConversation(b *testing.B) {
	run := func(b *testing.B, wrap func(checkpoint.Store) checkpoint.Store) {
		var written, read time.Duration
		var bytes, stored, texts int64
		for b.Loop() {
			path := filepath.Join(b.TempDir(), "db")
			inner, err := sqlite.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			s := wrap(inner)
			rnd := rand.New(rand.NewPCG(1, 2))
			rs := sample(log1, 2000)
			texts = 0
			for _, r := range rs {
				texts += int64(len(turn(rnd, r, 1000)))
			}
			start := time.Now()
			var head checkpoint.ID
			for _, r := range rs {
				logtest.Write(b, s, &checkpoint.Write{Log: log1, Record: r, Head: head})
				head = r.ID
			}
			written += time.Since(start)
			start = time.Now()
			n := 0
			for _, err := range s.Records(b.Context(), checkpoint.Query{Log: log1}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if read += time.Since(start); n != len(rs) {
				b.Fatalf("%d records", n)
			}
			for info, err := range s.(checkpoint.Lister).Threads(b.Context(), checkpoint.ThreadFilter{}) {
				if err != nil {
					b.Fatal(err)
				}
				stored = info.Bytes
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			bytes = info.Size()
		}
		per := float64(b.N) * 2000
		b.ReportMetric(float64(stored)/2000, "bytes/turn") // without what pages leave free
		b.ReportMetric(float64(bytes)/float64(texts), "x_text")
		b.ReportMetric(float64(written.Microseconds())/per, "µs/write")
		b.ReportMetric(float64(read.Microseconds())/per, "µs/read")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("unwrapped", func(b *testing.B) { run(b, func(s checkpoint.Store) checkpoint.Store { return s }) })
	for _, f := range benchForms {
		b.Run(f.name, func(b *testing.B) {
			run(b, func(s checkpoint.Store) checkpoint.Store { return mustWrap(b, s, f.Options) })
		})
	}
}
