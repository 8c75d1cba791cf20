package stores_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/internal/logtest"
	"github.com/superstep-dev/superstep/checkpoint/recording"
)

func TestWhatAKilledImportLeftIsRemovedFromEveryStore(t *testing.T) {
	gone := logtest.Ended(t)
	for kind := range forms {
		for _, sealed := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, ", encrypted: ", sealed), func(t *testing.T) {
				s := openedAs(t, kind, sealed)
				id := checkpoint.NewRunID()
				left := checkpoint.Log{Thread: checkpoint.ThreadID("importing/" + id)}
				first := id.Checkpoint(1)
				_, err := s.Write(t.Context(), &checkpoint.Write{
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
