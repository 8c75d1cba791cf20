package tables

import (
	"os"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/action"
	"github.com/superstep-dev/superstep/dialogue/dialoguetest"
	"github.com/superstep-dev/superstep/dialogue/program"
)

// The conversations of tests/book.yaml, with the real code.
func TestConversations(t *testing.T) {
	code, err := action.NewSet(Book())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("tests/book.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := dialoguetest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	files := func(string) ([]program.File, error) { return program.ReadDir(Files) }
	for _, s := range scenarios {
		t.Run(s.ID, func(t *testing.T) {
			r := dialoguetest.Runner{Assistant: files, Actions: code, Restart: true} // as if the process died after each turn
			for _, failure := range r.Run(s, scenarios) {
				t.Error(failure)
			}
		})
	}
}
