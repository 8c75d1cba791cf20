package cli_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/checkpoint/sqlite"
	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
)

func TestDoctorSaysWhatIsWrongAndFailsIfThatWasAskedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"SUPERSTEP_STORE", "SUPERSTEP_URL", "SUPERSTEP_API_KEYS", "OPENAI_API_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("LC_ALL", "POSIX")
	store, err := sqlite.Open("old.db")
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if err := os.WriteFile("text.db", []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := newServer(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer func() { web.Close(); s.Close(context.Background()) }()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	freePort := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	free.Close()

	open := func(name string) (model.Model, error) {
		switch name {
		case "openai:good", "ollama:good":
			return scripted.New(scripted.Text("ok")), nil
		case "ollama:bad":
			return scripted.New(scripted.Error(errors.New("connection refused"))), nil
		}
		return nil, errors.New("no such provider")
	}
	for _, test := range []struct {
		args, model string
		code        int
		says        []string
	}{
		{"", "", 0, []string{"ok    versions  clinic 1.2.3, built with go", "ok    store     sqlite:superstep.db: there is none yet", "note  model     SUPERSTEP_MODEL is not set", "note  terminal  there is none to ask questions at", `the locale "POSIX" may not show`}},
		{"store --store old.db", "", 0, []string{"ok    store     old.db opens and can be read and written"}},
		{"store --store text.db", "", 1, []string{"bad   store     text.db doesn't open", "-> is it running"}},
		{"store --store new/er/t.db", "", 0, []string{"there is none yet"}},
		{"store --store text.db/t.db", "", 1, []string{"bad   store", "not a directory"}},
		{"server --port " + freePort, "", 0, []string{"ok    server    127.0.0.1:" + freePort + " is free for clinic serve"}},
		{"server --port " + port, "", 1, []string{"bad   server    127.0.0.1:" + port + " is taken by a server, version", "-> use it with --url " + web.URL}},
		{"server --url " + web.URL, "", 0, []string{"ok    server    " + web.URL + " answers"}},
		{"server --url http://127.0.0.1:" + freePort, "", 1, []string{"bad   server", "-> is the server running"}},
		{"model", "openai:good", 1, []string{"bad   model     SUPERSTEP_MODEL is openai:good, and OPENAI_API_KEY is not set", "-> export OPENAI_API_KEY=…"}},
		{"", "openai:good", 0, []string{"bad   model"}}, // that was not asked for
		{"model", "ollama:good", 0, []string{"ok    model     SUPERSTEP_MODEL is ollama:good; --check"}},
		{"model --check", "ollama:good", 0, []string{"ok    model     ollama:good answers after", ": ok"}},
		{"model --check", "ollama:bad", 1, []string{"bad   model     connection refused", "-> is the key right"}},
		{"--check", "", 1, []string{"bad   model     SUPERSTEP_MODEL is not set"}},
		{"model", "nobody:x", 1, []string{"bad   model     no such provider"}},
		{"model --json", "ollama:good", 0, []string{`"check": "model"`, `"level": "ok"`}},
		{"modle", "", 2, []string{`there is no check "modle"`, "versions, store, server, model, terminal"}},
	} {
		t.Setenv("SUPERSTEP_MODEL", test.model)
		var out bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"doctor"}, strings.Fields(test.args)...), strings.NewReader(""), &out, &out,
			cli.Program("clinic", "Is looked at."), cli.Version("1.2.3"), cli.Dialogue(cli.Dialogues{Model: open, Variable: "SUPERSTEP_MODEL"}))
		if code != test.code {
			t.Errorf("doctor %s: code %d, want %d\n%s", test.args, code, test.code, &out)
		}
		for _, part := range test.says {
			if !strings.Contains(out.String(), part) {
				t.Errorf("doctor %s doesn't say %q:\n%s", test.args, part, &out)
			}
		}
	}
	if _, err := os.Stat("superstep.db"); err == nil {
		t.Error("a store was made")
	}
}
