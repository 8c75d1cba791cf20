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
	"github.com/superstep-dev/superstep/internal/plan"
)

var formatNames = []string{"diagram", "ascii", "mermaid", "dot", "svg", "png"}

// formatOf tells the format by the name of a file.
var formatOf = map[string]string{
	".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png", ".txt": "diagram",
}

func (a *app) drawCommand() *cobra.Command {
	var format, out, thread string
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
			defer p.close()
			t, err := p.graph(ctx, args[0])
			if err != nil {
				return err
			}
			if format == "" {
				ext := strings.ToLower(filepath.Ext(out))
				if format = formatOf[ext]; format == "" && ext != "" {
					return &usageError{fmt.Errorf("--output %s: the name does not say the format", out), "say it with --format: " + strings.Join(formatNames, ", ")}
				}
				format = cmp.Or(format, "diagram")
			}
			if !slices.Contains(formatNames, format) {
				e := &usageError{fmt.Errorf("unknown format %q", format), "formats: " + strings.Join(formatNames, ", ")}
				if near := plan.Nearest(format, formatNames); near != "" {
					e.hint = fmt.Sprintf("did you mean %q? %s", near, e.hint)
				}
				return e
			}
			if format == "png" && out == "" && a.console.OutTerminal() {
				return &usageError{fmt.Errorf("a picture cannot be shown in a terminal"), "write it to a file: -o " + quote(args[0]+".png")}
			}
			if thread != "" {
				if err := p.open(ctx, false); err != nil {
					return err
				}
				if _, _, err := p.choose(ctx, args, thread); err != nil {
					return err
				}
			}
			g, err := t.drawing(ctx, depth, thread)
			if err != nil {
				return err
			}
			var data []byte
			switch format {
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
			if format != "png" && !bytes.HasSuffix(data, []byte("\n")) {
				data = append(data, '\n')
			}
			if out != "" && out != "-" {
				if err := draw.WriteFile(out, data); err != nil {
					return err
				}
				if a.json {
					return writeJSON(a.console.Out, map[string]any{"file": out, "format": format, "bytes": len(data)}, true)
				}
				a.console.Notef("Wrote %s.", out)
				return nil
			}
			if a.json {
				return writeJSON(a.console.Out, g, true)
			}
			if format != "png" {
				data = []byte(console.Clean(string(data))) // names are a server's
			}
			_, err = a.console.Out.Write(data)
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", strings.Join(formatNames, ", ")+" (default: by the file's name, else diagram)")
	cmd.Flags().StringVarP(&out, "output", "o", "", "the file to write")
	cmd.Flags().IntVar(&depth, "expand", 0, "how deep to draw subgraphs; -1 means all the way")
	a.threadFlag(cmd, &thread)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatNames, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
