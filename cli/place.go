package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/client"
)

// urlEnv is the environment variable that names a server unless --url or --store
// is given, keyEnv the one with its API key.
const (
	urlEnv = "SUPERSTEP_URL"
	keyEnv = "SUPERSTEP_API_KEY"
)

// serverAnnotation marks commands that work over a server as well.
const serverAnnotation = "github.com/superstep-dev/superstep/cli/server"

// OverServer marks a command of the program's own as one that heeds --url, which
// the others refuse, and returns it.
func OverServer(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[serverAnnotation] = "yes"
	return cmd
}

// onStore are the commands that look at a store or change it, and know nothing of
// servers.
var onStore = []string{"stats", "prune", "repair", "export", "import", "events send", "runner", "dialogue chat", "dialogue explain"}

// checkURL refuses --url, and its variable, where they would be ignored.
func (a *app) checkURL(cmd *cobra.Command) error {
	f := cmd.Root().PersistentFlags()
	a.storeGiven = f.Changed("store")
	name := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
	if !f.Changed("url") {
		if !a.storeGiven && os.Getenv(urlEnv) != "" && os.Getenv(storeEnv) == "" && slices.Contains(onStore, name) {
			return &usageError{fmt.Errorf("%q works on a store, and %s names a server", name, urlEnv), "run it where the store is, with --store"}
		}
		return nil
	}
	if a.storeGiven {
		return Usage("--url and --store exclude each other")
	}
	if a.urlFlag == "" {
		return &usageError{fmt.Errorf("--url is empty"), "for example: --url http://localhost:8123"}
	}
	if cmd.Annotations[serverAnnotation] == "" {
		return &usageError{fmt.Errorf("%q works on a store, and not over a server", name), "run it where the store is, with --store in the place of --url"}
	}
	return nil
}

// serverURL returns the server that is meant; empty for a store.
func (a *app) serverURL() string {
	if a.urlFlag != "" {
		return a.urlFlag
	}
	if a.storeGiven {
		return ""
	}
	return os.Getenv(urlEnv)
}

// remote reports whether the command line names a server.
func (a *app) remote() bool { return a.serverURL() != "" }

// place returns the place that the command line names, which is to be opened before threads
// are looked at.
func (a *app) place() (place, error) {
	url := a.serverURL()
	if url == "" {
		return &local{a: a}, nil
	}
	if a.urlFlag == "" && os.Getenv(storeEnv) != "" {
		return nil, &usageError{fmt.Errorf("%s and %s are both set", urlEnv, storeEnv), "say which is meant with --url or --store"}
	}
	return a.server(url)
}

// server returns the place that a URL names.
func (a *app) server(url string) (*remote, error) {
	if a.index.model != "" || a.index.length != 0 || len(a.index.fields) > 0 {
		return nil, Usage("--store-index is for the memory beside a store: that of a server has the index that the server was given")
	}
	r := &remote{a: a}
	c, err := client.New(url, client.APIKey(os.Getenv(keyEnv)), client.OnReconnect(r.noteLost))
	if err != nil {
		hint := "for example: --url http://localhost:8123"
		switch {
		case bareAddress.MatchString(url):
			hint = fmt.Sprintf("did you mean http://%s?", url)
		case a.urlFlag == "":
			hint = fmt.Sprintf("it comes from %s; for example: http://localhost:8123", urlEnv)
		}
		return nil, &usageError{err, hint}
	}
	r.c = c
	return r, nil
}

// placeArg returns the flag that names the place, if one was given. A password is
// not repeated; where the environment has the place, no flag is needed for it.
func (a *app) placeArg() string {
	if !a.remote() {
		return a.storeArg()
	}
	if a.urlFlag == "" {
		return ""
	}
	c, err := client.New(a.urlFlag)
	if err != nil {
		return ""
	}
	return " --url " + quote(c.URL())
}
