package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/draw"
	"github.com/superstep-dev/superstep/draw/png"
	"github.com/superstep-dev/superstep/internal/console"
)

var formatNames = []string{"diagram", "ascii", "mermaid", "dot", "svg", "png"}

// formatOf tells the format by the name of a file.
var formatOf = map[string]string{
	".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png", ".txt": "diagram",
}

func (a *app) drawCommand() *cobra.Command {
	var pic picture
	var thread string
	depth := 0
	cmd := &cobra.Command{
		Use: "draw GRAPH", GroupID: "look", Short: "Draw a graph, and what a thread did in it",
		Long: `Draw a graph as text or as a picture: diagram (boxes and lines, the default), ascii
(a summary in words), mermaid, dot, svg or png. With --thread the nodes that the
thread ran, failed in or waits at are marked.`,
		Args: args(1, 1, "GRAPH"), ValidArgsFunction: a.completeGraph,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			p, err := a.place()
			if err != nil {
				return err
			}
			t, err := p.graph(ctx, args[0])
			if err != nil {
				return err
			}
			if err := pic.settle(a, args[0]); err != nil {
				return err
			}
			if thread != "" {
				if err := p.open(ctx, false); err != nil {
					return err
				}
				if _, _, err := a.choose(ctx, p, args, thread); err != nil {
					return err
				}
			}
			g, err := t.drawing(ctx, depth, thread)
			if err != nil {
				return err
			}
			return pic.write(a, g)
		},
	}
	pic.flags(cmd)
	cmd.Flags().IntVar(&depth, "expand", 0, "how deep to draw subgraphs; -1 means all the way")
	a.threadFlag(cmd, &thread)
	return cmd
}

// picture says how a drawing is written, and where.
type picture struct {
	format, out string
}

func (p *picture) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.format, "format", "f", "", strings.Join(formatNames, ", ")+" (default: by the file's name, else diagram)")
	cmd.Flags().StringVarP(&p.out, "output", "o", "", "the file to write")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames, cobra.ShellCompDirectiveNoFileComp))
}

// settle settles the format of a drawing of something of that name.
func (p *picture) settle(a *app, name string) error {
	if p.format == "" {
		ext := strings.ToLower(filepath.Ext(p.out))
		if p.format = formatOf[ext]; p.format == "" && ext != "" {
			return &usageError{fmt.Errorf("--output %s: the name does not say the format", p.out), "say it with --format: " + strings.Join(formatNames, ", ")}
		}
		p.format = cmp.Or(p.format, "diagram")
	}
	if !slices.Contains(formatNames, p.format) {
		return unknown(fmt.Errorf("unknown format %q", p.format), p.format, formatNames, "formats: "+strings.Join(formatNames, ", "))
	}
	if p.format == "png" && p.out == "" && a.console.OutTerminal() {
		return &usageError{fmt.Errorf("a picture cannot be shown in a terminal"), "write it to a file: -o " + quote(name+".png")}
	}
	return nil
}

// write draws the graph.
func (p *picture) write(a *app, g *draw.Graph) error {
	var data []byte
	switch p.format {
	case "diagram":
		data = []byte(draw.Diagram(g, nil))
	case "ascii":
		data = []byte(draw.ASCII(g))
	case "mermaid":
		data = []byte(draw.Mermaid(g, nil))
	case "dot":
		data = []byte(draw.StyledDOT(g, nil))
	case "svg":
		data = draw.SVG(g, nil)
	case "png":
		var b bytes.Buffer
		if err := png.Encode(&b, g, nil); err != nil {
			return err
		}
		data = b.Bytes()
	}
	if p.format != "png" && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(data, '\n')
	}
	if p.out != "" && p.out != "-" {
		if err := draw.WriteFile(p.out, data); err != nil {
			return err
		}
		if a.json {
			return writeJSON(a.console.Out, map[string]any{"file": p.out, "format": p.format, "bytes": len(data)}, true)
		}
		a.console.Notef("Wrote %s.", p.out)
		return nil
	}
	if a.json {
		return writeJSON(a.console.Out, g, true)
	}
	if p.format != "png" {
		data = []byte(console.Clean(string(data))) // names are a server's
	}
	_, err := a.console.Out.Write(data)
	return err
}
