package diagram_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/dialogue/diagram"
	"github.com/superstep-dev/superstep/dialogue/program"
	"github.com/superstep-dev/superstep/draw"
)

var update = flag.Bool("update", false, "write the drawings anew")

func TestDrawings(t *testing.T) {
	p, err := program.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	graphs := map[string]*draw.Graph{"assistant": diagram.Program(p)}
	for _, name := range p.Order {
		graphs[name] = diagram.Flow(p.Flows[name])
	}
	for name, g := range graphs {
		t.Run(name, func(t *testing.T) {
			if err := g.Validate(); err != nil {
				t.Error(err)
			}
			path := filepath.Join("testdata", name+".mmd")
			got := draw.Mermaid(g, nil)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s is not up to date, run go test ./dialogue/diagram -update:\n%s", path, got)
			}
		})
	}
}

func TestEveryFlowOfTheBankCanBeDrawn(t *testing.T) {
	p, err := program.Load(os.DirFS("../../examples/banking"))
	if err != nil {
		t.Fatal(err)
	}
	if err := diagram.Program(p).Validate(); err != nil {
		t.Error(err)
	}
	for name, f := range p.Flows { // the built-in ones too
		g := diagram.Flow(f)
		if err := g.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range f.Steps {
			reached := false
			for _, e := range g.Edges {
				reached = reached || e.To == s.Name
			}
			if !reached {
				t.Errorf("%s: nothing leads to step %s", name, s.Name)
			}
		}
	}
}
