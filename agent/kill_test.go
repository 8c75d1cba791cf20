//go:build unix

package agent_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// killEnv makes the test binary the process that is killed; its value is a
// folder.
const killEnv = "SUPERSTEP_AGENT_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		if err := victim(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim runs an agent whose model wants two tools called at once. Each notes
// what it does; the second one hangs while there is a file "hang".
func victim(ctx context.Context, dir string) error {
	note := func(text string) error {
		f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = fmt.Fprintln(f, text)
		return err
	}
	first := tool.New("first", "", func(ctx context.Context, _ struct{}) (string, error) {
		return "one", note("first " + tool.InfoOf(ctx).IdempotencyKey)
	})
	second := tool.New("second", "", func(ctx context.Context, _ struct{}) (string, error) {
		if err := note("second begins " + tool.InfoOf(ctx).IdempotencyKey); err != nil {
			return "", err
		}
		if _, err := os.Stat(filepath.Join(dir, "hang")); err == nil {
			select {}
		}
		return "two", note("second ends")
	})
	m := model.Func(func(_ context.Context, r *model.Request) (*model.Response, error) {
		if err := note(fmt.Sprint("model is asked, ", len(r.Messages), " messages")); err != nil {
			return nil, err
		}
		if r.Messages[len(r.Messages)-1].Role == chat.RoleUser {
			return &model.Response{Message: chat.Assistant("", call("1", "first", ""), call("2", "second", ""))}, nil
		}
		return &model.Response{Message: chat.Assistant("done: " + r.Messages[len(r.Messages)-2].Text() + ", " + r.Messages[len(r.Messages)-1].Text())}, nil
	})
	store, err := sqlite.Open(filepath.Join(dir, "threads.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := agent.New(agent.ReAct[agent.State]{Model: m, Tools: []tool.Tool{first, second}}, graph.WithCheckpointer(store))
	if err != nil {
		return err
	}
	input := agent.Ask[agent.State]("go")
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		input = nil // go on
	} else if err := os.WriteFile(filepath.Join(dir, "started"), nil, 0o644); err != nil {
		return err
	}
	snap, err := g.Thread("t").Invoke(ctx, g.Input(input))
	if err != nil {
		return err
	}
	return note(snap.State.LastResponse.Get())
}

// An agent whose process is killed between two tool calls goes on after a
// restart: neither the model nor the first tool is called again.
func TestAnAgentSurvivesItsProcess(t *testing.T) {
	dir := t.TempDir()
	hang := filepath.Join(dir, "hang")
	if err := os.WriteFile(hang, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	effects := func() string {
		data, _ := os.ReadFile(filepath.Join(dir, "effects"))
		return string(data)
	}
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	cmd := start()
	for !strings.Contains(effects(), "second begins") {
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	if err := start().Wait(); err != nil {
		t.Fatalf("the second process: %v\n%s", err, effects())
	}
	lines := strings.Split(strings.TrimSpace(effects()), "\n")
	keys := map[string]bool{}
	var got []string
	for _, l := range lines {
		if f := strings.Fields(l); f[0] == "first" || strings.HasPrefix(l, "second begins") {
			keys[f[0]+f[len(f)-1]] = true
			l = strings.TrimSuffix(l, " "+f[len(f)-1])
		}
		got = append(got, l)
	}
	want := "model is asked, 2 messages; first; second begins; second begins; second ends; model is asked, 5 messages; done: one, two"
	if g := strings.Join(got, "; "); g != want {
		t.Errorf("what happened: %s\nwant           %s", g, want)
	}
	if len(keys) != 2 {
		t.Errorf("the second tool had different idempotency keys: %v", keys)
	}
}
