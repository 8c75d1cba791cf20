package stores_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/codec"
	"github.com/superstep-dev/superstep/checkpoint/recording"
	"github.com/superstep-dev/superstep/checkpoint/stores"
	"github.com/superstep-dev/superstep/internal/process"
)

func TestWhatAKilledImportLeftIsRemovedFromEveryStore(t *testing.T) {
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	gone := strings.Replace(process.Self(), fmt.Sprintf("pid %d ", os.Getpid()), fmt.Sprintf("pid %d ", ended.Process.Pid), 1)
	if !process.Gone(gone) {
		t.Skip("NOT TESTED: this system doesn't tell which processes have ended")
	}
	for kind := range forms {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", encrypted: ", sealed), func(t *testing.T) {
				var s checkpoint.Store
				s, err := stores.Open(t.Context(), forms[kind].open(t))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if sealed {
					k, err := codec.NewKey("k", bytes.Repeat([]byte{7}, 32))
					if err != nil {
						t.Fatal(err)
					}
					if s, err = codec.Wrap(s, codec.Options{Keys: &codec.KeyRing{Current: k}}); err != nil {
						t.Fatal(err)
					}
				}
				id := checkpoint.NewRunID()
				left := checkpoint.Log{Thread: checkpoint.ThreadID("importing/" + id)}
				first := id.Checkpoint(1)
				_, err = s.Write(t.Context(), &checkpoint.Write{
					Log: left, Claim: true, Lease: 100 * 365 * 24 * time.Hour, Holder: string(id) + " " + gone,
					Record: &checkpoint.Record{ID: first, Log: left, Seq: 1, Epoch: first, Source: checkpoint.SourceLoop, CreatedAt: time.Now().UTC()},
				})
				if err != nil {
					t.Fatal(err)
				}
				g := talks(t, s, 50)
				talk(t, g.Thread("t"), 1, 50)
				var file bytes.Buffer
				if err := recording.Export(t.Context(), s, "t", &file); err != nil {
					t.Fatal(err)
				}
				if _, err := recording.Import(t.Context(), s, &file, "import"); err != nil {
					t.Fatal(err)
				}
				for l, err := range s.(checkpoint.Lister).Threads(t.Context(), checkpoint.ThreadFilter{Prefix: "importing/"}) {
					t.Errorf("%q is there: %v", l.Thread, err)
				}
			})
		}
	}
}
