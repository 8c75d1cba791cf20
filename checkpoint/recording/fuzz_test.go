package recording_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint"
	"github.com/superstep-dev/superstep/checkpoint/recording"
)

// FuzzRead: whatever a file from outside holds, reading it ends, with an error
// that says what is wrong or with a recording that can be written, and read again
// as the same.
func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	if err := sample().Write(&whole); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Add(whole.Bytes()[:whole.Len()/2])
	const header = `{"superstep":"recording","format":100,"thread":"t","graph":"g","exported_at":"2026-11-21T10:00:00Z"}` + "\n"
	for _, text := range []string{
		"", "\n", "{}", "null\n", `{"superstep":"recording","format":9900}`, header,
		header + `{"end":true}` + "\n",
		header + `{"record":{"id":"i","seq":1,"epoch":"i","changes":[{"data":null}]}}` + "\n" + `{"end":true,"records":1}`,
		header + `{"log":"/s","result":{"epoch":"e","kind":"once","data":"` + "\xff" + `"}}` + "\n" + `{"end":true,"results":1}`,
		header + `{"record":{"id":"i","seq":-1,"epoch":"i"}}`,
		header + `{"end":true,"records":1}`,
		strings.Replace(header, "100", "101", 1) + `{"future":{}}` + "\n" + `{"end":true}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := recording.Read(bytes.NewReader(b))
		if err != nil {
			var line *recording.LineError
			if !errors.As(err, &line) && !errors.Is(err, recording.ErrNotRecording) && !errors.Is(err, checkpoint.ErrVersion) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		var first, second bytes.Buffer
		if err := r.Write(&first); err != nil {
			return // a record that says what no store can hold
		}
		again, err := recording.Read(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, &first)
		}
		if err := again.Write(&second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Fatalf("%v\n%s\nbecame\n%s", err, &first, &second)
		}
	})
}
