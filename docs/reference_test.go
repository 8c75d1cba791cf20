package docs

import (
	"os"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/program"
)

func TestTheReferenceOfDialoguesIsThatOfTheParser(t *testing.T) {
	const page = "dialogues-reference.md"
	want := string(program.Reference())
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, page) != want {
		t.Errorf("%s is not up to date, run go test ./docs -update", page)
	}
}
