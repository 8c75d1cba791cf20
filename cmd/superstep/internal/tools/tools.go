// Package tools has the tools of the command "superstep chat": files below a
// folder, a calculator and a clock.
package tools

import (
	"context"
	"time"

	"github.com/superstep-dev/superstep/tool"
)

// The names of the tools.
const (
	ReadFile   = "read_file"
	ListFiles  = "list_files"
	WriteFile  = "write_file"
	Calculator = "calculator"
	Clock      = "current_time"
)

// maxResult bounds what a model is told of a file, in bytes. The rest it can ask
// for by line.
const maxResult = 32 << 10

// In returns the tools for a folder, which is the only place whose files they
// reach.
func In(dir string) []tool.Tool {
	f := Folder(dir)
	return []tool.Tool{
		tool.Limit(tool.New(ReadFile, "Reads a text file of the user's folder.", func(_ context.Context, in readArgs) (string, error) { return f.read(in) }), maxResult),
		tool.New(ListFiles, "Lists the files in the user's folder, or in a folder below it.", func(_ context.Context, in listArgs) (string, error) { return f.list(in.Folder) }),
		tool.New(Calculator, "Calculates with + - * / % ** and parentheses, and with abs, ceil, floor, max, min, round and sqrt. Integers are exact, however large.", func(_ context.Context, in calcArgs) (string, error) { return Calculate(in.Expression) }),
		tool.New(Clock, "Tells the date and the time.", func(_ context.Context, in clockArgs) (string, error) { return clock(time.Now(), in.Zone) }),
		tool.New(WriteFile, "Writes a text file into the user's folder, in place of what it held. The user is asked first.", func(_ context.Context, in WriteArgs) (string, error) { return f.write(in) }),
	}
}

type readArgs struct {
	Path      string `json:"path" jsonschema:"relative to the folder, such as notes/today.md"`
	FirstLine int    `json:"first_line,omitempty" minimum:"1" jsonschema:"where to begin; 1 if left out"`
	Lines     int    `json:"lines,omitempty" minimum:"1" jsonschema:"how many lines; all if left out"`
}

type listArgs struct {
	Folder string `json:"folder,omitempty" jsonschema:"relative to the user's folder, which it is if left out"`
}

type calcArgs struct {
	Expression string `json:"expression" jsonschema:"such as (3 + 4) * 5"`
}

type clockArgs struct {
	Zone string `json:"zone,omitempty" jsonschema:"a time zone such as Europe/Berlin; that of the user's computer if left out"`
}

// WriteArgs are the arguments of [WriteFile].
type WriteArgs struct {
	Path string `json:"path" jsonschema:"relative to the folder"`
	Text string `json:"text" jsonschema:"all that the file is to hold"`
}
