package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the command lines that the help of commands shows, without the name of the
// program. Commands that have their own keep them.
var examples = map[string][]string{
	"run": {
		`run approval --input '{"item": "a chair", "amount": 120}'`,
		`run approval --thread t-1 --input @order.json --interactive`,
		`run greeter --input '{"name": "Ann"}' --config title=Dr.`,
	},
	"continue":          {"continue --thread t-1", "continue approval --thread t-1 --at CHECKPOINT --interrupt-before pay"},
	"serve":             {"serve", "serve --port 8080 --store postgres://localhost/agents", "serve --host 0.0.0.0 --allow-origin https://agents.example.com"},
	"mcp":               {"mcp --store sqlite:agents.db"},
	"runner":            {"runner --store postgres://localhost/agents"},
	"graphs":            {"graphs", "graphs --url http://localhost:8123"},
	"threads":           {"threads", "threads --graph approval --status interrupted", "threads --metadata customer=c-7", "threads --stuck"},
	"state":             {"state --thread t-1", "state approval --thread t-1 --at CHECKPOINT --json"},
	"history":           {"history --thread t-1", "history approval --thread t-1 --limit 5"},
	"stats":             {"stats", "stats t-1"},
	"draw":              {"draw approval", "draw approval --format svg --output approval.svg", "draw approval --thread t-1"},
	"fork":              {"fork --thread t-1 --at CHECKPOINT"},
	"copy":              {"copy t-1 t-2"},
	"repair":            {"repair t-1", "repair --store file:threads"},
	"delete":            {"delete t-1 --yes"},
	"export":            {"export t-1 --output t-1.json"},
	"import":            {"import t-1.json"},
	"replay":            {"replay t-1.json"},
	"eval compare":      {"eval compare old.json new.json"},
	"dialogue validate": {"dialogue validate tables"},
	"dialogue schema":   {"dialogue schema --output tables/dialogue.schema.json"},
	"dialogue draw":     {"dialogue draw tables", "dialogue draw tables --flow book_table --format ascii"},
	"dialogue test":     {"dialogue test tables", "dialogue test tables --ways once,restart,twice,beside"},
	"dialogue coverage": {"dialogue coverage tables --min 90"},
	"dialogue chat":     {"dialogue chat tables --patterns patterns.yaml", "dialogue chat tables --model openai:gpt-5 --thread anna"},
	"dialogue serve":    {"dialogue serve tables --model openai:gpt-5"},
	"dialogue explain":  {"dialogue explain anna", "dialogue explain anna --as-test tables/tests/anna.yaml"},
	"dialogue diff":     {"dialogue diff old new", "dialogue diff old new --threads"},
}

// addExamples gives the commands below cmd their examples.
func addExamples(root *cobra.Command, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addExamples(root, c)
		lines := examples[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]
		if c.Example == "" && len(lines) > 0 {
			c.Example = "  " + root.Name() + " " + strings.Join(lines, "\n  "+root.Name()+" ")
		}
	}
}
