package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/console"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// Tools adds tools that the command mcp serves beside the graphs.
func Tools(tools ...tool.Tool) Option {
	return func(a *app) { a.tools = append(a.tools, tools...) }
}

// mcpServing is what the command mcp was told.
type mcpServing struct {
	serving
	http string
}

func (a *app) mcpCommand() *cobra.Command {
	var o mcpServing
	cmd := &cobra.Command{
		Use: "mcp", GroupID: "run", Short: "Serve the graphs and tools as tools of the Model Context Protocol",
		Long: `Serve the graphs and tools as tools of the Model Context Protocol, to one client over the
standard input and output, or to any over streamable HTTP at /mcp.

The arguments of a graph's tool are its input and, to go on with a thread, the thread's
ID. What a graph asks, the client's user is asked where the client can; else the result
says what waits, and the tool answer_thread answers, be it days later.

With API keys in SUPERSTEP_API_KEYS, separated by commas, clients over HTTP must send one
of them, as Authorization: Bearer or the header x-api-key. Without keys the server
listens on this machine only, unless --allow-anyone says otherwise.`,
		Args: args(0, 0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.mustKeys = cmd.Flags().Changed("api-keys-env")
			if o.http == "" {
				for _, flag := range []string{"api-keys-env", "allow-anyone"} {
					if cmd.Flags().Changed(flag) {
						return Usage("--%s is for --http, which is missing", flag)
					}
				}
			}
			o.log = slog.NewTextHandler(cmd.ErrOrStderr(), nil)
			return a.serveMCP(cmd, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.http, "http", "", "serve over HTTP at this address, as in 127.0.0.1:8124, in the place of the standard input and output")
	f.StringVar(&o.keysEnv, "api-keys-env", keysVariable, "the variable of the environment that has the API keys")
	f.BoolVar(&o.anyone, "allow-anyone", false, "listen for other machines although there are no API keys")
	if len(a.demo) > 0 {
		f.BoolVar(&o.demo, "demo", false, "serve example graphs as well")
	}
	return a.indexFlags(cmd)
}

func (a *app) serveMCP(cmd *cobra.Command, o mcpServing) error {
	ctx, drain, end := console.Stops(cmd.Context(), func(bool) {})
	defer end()
	ctx, cancel := console.Until(ctx, drain) // a thread goes on from its last step
	defer cancel()
	s, err := a.mcpServer(ctx, o.demo)
	if err != nil {
		return err
	}
	if o.http != "" {
		return a.listenMCP(ctx, s, o)
	}
	in, ok := cmd.InOrStdin().(io.ReadCloser)
	if !ok {
		in = io.NopCloser(cmd.InOrStdin())
	}
	if err := s.Serve(ctx, in, nopCloser{cmd.OutOrStdout()}); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// mcpServer returns a server of the program's graphs, with the store, and tools.
func (a *app) mcpServer(ctx context.Context, demo bool) (*mcp.Server, error) {
	var graphs []mcp.Graph
	for _, g := range a.forOthers(demo) {
		graphs = append(graphs, mcp.Graph{Graph: g.Graph, Name: g.name, Description: g.description})
	}
	if len(graphs) == 0 && len(a.tools) == 0 {
		return nil, a.nothingToServe("mcp")
	}
	items, err := a.memories()
	if err != nil {
		return nil, err
	}
	store, err := a.open(ctx, true)
	if err != nil {
		return nil, err
	}
	for i, g := range graphs {
		if graphs[i].Graph, err = g.Graph.With(graph.WithCheckpointer(store), items); err != nil {
			return nil, err
		}
	}
	s, err := mcp.NewServer(a.name, cmp.Or(a.version, "0"), a.tools...)
	if err != nil {
		return nil, err
	}
	a.atClose(s.Close) // connections that broke have told already
	return s, s.SetGraphs(graphs...)
}

// listenMCP serves over HTTP until the context ends.
func (a *app) listenMCP(ctx context.Context, s *mcp.Server, o mcpServing) error {
	keys, err := o.apiKeys()
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(o.http)
	if err != nil {
		return Usage("--http must be HOST:PORT, as in 127.0.0.1:8124: %w", err)
	}
	if !thisMachine(host) && len(keys) == 0 && !o.anyone {
		return Hint(Usage("--http %s would let other machines in, and there is no authentication", o.http),
			"set %s to the API keys that clients must have, or pass --allow-anyone", o.keysEnv)
	}
	l, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(withKeys(keys, s.Handler())))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(o.log, slog.LevelWarn)}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = s.Close() // ends what the clients listen to
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if h.Shutdown(wait) != nil {
			_ = h.Close() // who doesn't end in time is cut off
		}
	})
	url := "http://" + l.Addr().String() + "/mcp"
	if a.json {
		if err := writeJSON(a.console.Out, map[string]string{"url": url}, false); err != nil {
			return errors.Join(err, l.Close())
		}
	} else {
		fmt.Fprintf(a.console.Out, "Serving at %s\n", url)
		a.console.Notef("Threads are kept in %s. Ctrl-C stops.", a.storeName())
	}
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// withKeys lets in who has one of some keys; anybody where there are none.
func withKeys(keys []string, next http.Handler) http.Handler {
	if len(keys) == 0 {
		return next
	}
	var hashes [][sha256.Size]byte
	for _, k := range keys {
		if _, key, named := strings.Cut(k, "="); named && strings.Trim(key, "=") != "" { // name=key, and no base64
			k = key
		}
		hashes = append(hashes, sha256.Sum256([]byte(k)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if key == "" {
			key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		got, ok := sha256.Sum256([]byte(key)), 0
		for _, want := range hashes {
			ok |= subtle.ConstantTimeCompare(got[:], want[:])
		}
		if ok != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "an API key is needed, as Authorization: Bearer or x-api-key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
