// Package cli gives a program commands to run its graphs and to look at their
// threads. One call in main is all it takes:
//
//	func main() {
//		cli.Main(cli.Graph(jokes.Graph()), cli.Graph(review.Graph()))
//	}
//
// The program then has commands to run graphs (run, resume, continue, chat, runner,
// events), to serve them (serve, and mcp for the Model Context Protocol), to look at
// their threads (graphs, threads, state, history, diff, stats, draw) and to change them
// (fork, update, copy, prune, repair, delete), to measure them with data sets (eval), and
// to check, draw and test assistants that are written in YAML (dialogue), and to find out
// what is wrong with the set-up (doctor), with help for each, and completion for shells.
// [New] gives the commands as a cobra command instead, to be made part of a larger program.
//
// # Stores
//
// Threads are kept in the store that --store names: "sqlite:PATH" (or a path
// that ends in .db or .sqlite), "file:DIR", "postgres://…", "redis://…", "s3://…" or
// "memory", with options as package stores describes them. The default is
// sqlite:superstep.db in the current folder, or what the environment variable
// SUPERSTEP_STORE says: the place for a URL with a password, which others can see
// in a command line. A program with a store of its own passes [UseStore], one
// with its own kinds of stores [OpenStore].
//
// # Servers
//
// With --url, or SUPERSTEP_URL in the environment, the commands run, resume,
// continue, chat, graphs, threads, state, history, diff, draw, fork, update, copy,
// delete, eval run and eval save work with a server of LangGraph's protocol in the place
// of a store, such as the command serve starts; its graphs need not be the program's. The
// API key is in SUPERSTEP_API_KEY. The output is the same as far as the protocol tells.
// The other commands refuse --url, and those that work on a store refuse SUPERSTEP_URL
// too, unless --store or SUPERSTEP_STORE names one. [Server] says how serve serves, and
// [ServeFlags] gives it flags that do.
//
// # Output
//
// Results go to the standard output, for people by default, as JSON with
// --json. Progress and messages go to the standard error. With --json an error
// is one JSON object there, with the members error, hint and code.
//
// # Exit codes
//
//	0  done
//	1  error
//	2  the command line is wrong
//	3  the thread waits for answers, a time or an event
//	4  stopped by Ctrl-C or SIGTERM; the thread can go on
//	5  the thread is in use by another run
//
// The first Ctrl-C lets a run finish its superstep, the second one cancels it.
package cli
