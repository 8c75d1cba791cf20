package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/superstep-dev/superstep/internal/servers/servertest"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// revisions are those of the protocol whose requirements are tested.
var revisions = []string{"2025-11-25", "2026-07-28"}

// suite returns a command of the protocol's conformance suite, whose failures must be
// those that a file lists with their reasons, and which must fail.
func suite(t *testing.T, revision string, args ...string) *exec.Cmd {
	t.Helper()
	servertest.Packages(t, "the protocol's conformance suite", "conformance")
	failures, err := filepath.Abs(filepath.Join("testdata", "conformance-"+revision+".yml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	args = append([]string{"--import", "./node20.mjs", "node_modules/@modelcontextprotocol/conformance/dist/index.js"}, args...)
	cmd := exec.CommandContext(ctx, "node", append(args, "--requirements", revision, "--expected-failures", failures, "--output-dir", t.TempDir(), "--timeout", "120000")...)
	cmd.Dir, cmd.WaitDelay = "conformance", 5*time.Second
	return cmd
}

// examine runs the suite. It measures times, and on a busy machine may find one that is
// too long: what is wrong fails twice.
func examine(t *testing.T, suite func() *exec.Cmd) {
	t.Helper()
	if _, err := suite().CombinedOutput(); err == nil {
		return
	}
	if out, err := suite().CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheClientConformsToTheProtocol(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			self, err := filepath.Abs(os.Args[0])
			if err != nil {
				t.Fatal(err)
			}
			examine(t, func() *exec.Cmd {
				cmd := suite(t, revision, "client", "--command", self)
				cmd.Env = append(os.Environ(), childVar+"=conformance", turnVar+"="+filepath.Join(t.TempDir(), "turn"), "GORACE=atexit_sleep_ms=0")
				return cmd
			})
		})
	}
}

// turnVar names a file that a client locks: the suite starts all of them at once, and
// on a small machine none would be in time.
const turnVar = "SUPERSTEP_TEST_MCP_TURN"

// conform is a client that does what a scenario of the suite expects.
func conform(ctx context.Context, server string) error {
	turn := flock.New(os.Getenv(turnVar))
	if err := turn.Lock(); err != nil {
		return err
	}
	defer turn.Close()
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if data := os.Getenv("MCP_CONFORMANCE_CONTEXT"); data != "" {
		if err := json.Unmarshal([]byte(data), &given); err != nil {
			return err
		}
	}
	at := mcp.HTTP{URL: server}
	if strings.HasPrefix(scenario, "auth/") {
		const back = "http://localhost:3000/callback"
		cfg := &auth.AuthorizationCodeHandlerConfig{
			RedirectURL:                     back,
			AuthorizationCodeFetcher:        says,
			ClientIDMetadataDocumentConfig:  &auth.ClientIDMetadataDocumentConfig{URL: "https://conformance-test.local/client-metadata.json"},
			DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{RedirectURIs: []string{back}}},
		}
		if given.ClientID != "" {
			cfg.PreregisteredClient = &oauthex.ClientCredentials{ClientID: given.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: given.ClientSecret}}
		}
		var err error
		if at.OAuth, err = mcp.OAuth(ctx, server, cfg, &vault{}); err != nil {
			return err
		}
	}
	c, err := mcp.Connect(ctx, mcp.Config{Transport: at, Elicit: func(_ context.Context, e mcp.Elicitation) (mcp.ElicitationAnswer, error) {
		a := mcp.ElicitationAnswer{Action: mcp.Accept}
		if strings.Contains(string(e.Schema), "confirmed") {
			a.Content = json.RawMessage(`{"confirmed":true}`)
		}
		return a, nil
	}})
	if err != nil {
		return err
	}
	defer c.Close()
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	if scenario == "http-standard-headers" {
		resources, err := c.Resources(ctx)
		if err != nil {
			return err
		}
		for _, r := range resources {
			_, _ = c.ReadResource(ctx, r.URI) // what it says is no part of the scenario
		}
		prompts, err := c.Prompts(ctx)
		if err != nil {
			return err
		}
		for _, p := range prompts {
			_, _ = c.GetPrompt(ctx, p.Name, nil)
		}
	}
	args := map[string]json.RawMessage{"add_numbers": json.RawMessage(`{"a":5,"b":3}`)}
	for _, t := range tools {
		if t.Spec().Name == "json_schema_2020_12_tool" {
			args["json_schema_echo"] = json.RawMessage(`{"schema":` + string(t.Spec().Schema) + `}`)
		}
	}
	for _, t := range tools {
		name := t.Spec().Name
		calls := []json.RawMessage{args[name]}
		switch {
		case scenario == "http-invalid-tool-headers":
			calls[0] = json.RawMessage(`{"region":"us-west1"}`)
		case len(given.ToolCalls) > 0:
			calls = nil
			for _, call := range given.ToolCalls {
				if call.Name == name {
					calls = append(calls, call.Arguments)
				}
			}
		}
		for _, args := range calls {
			if _, err := t.Call(ctx, args); err != nil {
				fmt.Fprintln(os.Stderr, err) // which the scenario may want
				if strings.HasPrefix(scenario, "auth/") {
					return err
				}
			}
		}
	}
	return nil
}

// says is a person who lets the client in: the suite's server asks nothing.
func says(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		return nil, err
	}
	q := to.Query()
	return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}
