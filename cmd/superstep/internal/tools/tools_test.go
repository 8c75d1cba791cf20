package tools

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/tool"
)

func TestTheCalculatorIsExact(t *testing.T) {
	for expression, want := range map[string]string{
		"6*7":                      "42",
		"6 × 7 ÷ 2":                "21",
		"(1 + 2) * -3":             "-9",
		"0.1 + 0.2":                "0.3",
		"1/4":                      "0.25",
		"1/3":                      "0.333333333333333",
		"2**100":                   "1267650600228229401496703205376",
		"9223372036854775807 + 1":  "9223372036854775808",
		"2^-2":                     "0.25",
		"-2**2":                    "-4",
		"2**0.5":                   "1.4142135623731",
		"7 % 3":                    "1",
		"-7 % 3":                   "-1",
		"5.5 % 2":                  "1.5",
		"(-1)**1000000":            "1",
		"0**5":                     "0",
		"0**0":                     "1",
		"sqrt(16/9)*3":             "4",
		"sqrt(2)":                  "1.4142135623731",
		"max(1, 3, 2) - min(4, 2)": "1",
		"abs(-3) + floor(-0.5) + ceil(0.5) + round(-2.5)": "0",
		"round(2*pi)": "6",
		"1_000 + 1e3": "2000",
	} {
		got, err := Calculate(expression)
		if err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", expression, got, err, want)
		}
	}
}

func TestTheCalculatorRefusesWhatIsNoArithmetic(t *testing.T) {
	for expression, want := range map[string]error{
		"":                        ErrSyntax,
		"1 +":                     ErrSyntax,
		"(1":                      ErrSyntax,
		"1; 2":                    ErrArithmetic,
		"x + 1":                   ErrArithmetic,
		"$env":                    ErrArithmetic,
		`"a" + "b"`:               ErrArithmetic,
		"1 < 2":                   ErrArithmetic,
		"[1, 2]":                  ErrArithmetic,
		"1..1000000000":           ErrArithmetic,
		"len(1)":                  ErrArithmetic,
		"now()":                   ErrArithmetic,
		"let x = 1; x":            ErrArithmetic,
		"map(1..9, # * 2)":        ErrArithmetic,
		"abs(1, 2)":               ErrArithmetic,
		"true ? 1 : 2":            ErrArithmetic,
		"1/0":                     ErrUndefined,
		"1 % 0":                   ErrUndefined,
		"0 ** -1":                 ErrUndefined,
		"sqrt(-1)":                ErrUndefined,
		"(-8) ** 0.5":             ErrUndefined,
		"9**9**9":                 ErrMagnitude,
		"2**999999999999":         ErrMagnitude,
		"1.5**9999":               ErrMagnitude,
		strings.Repeat("9", 2000): ErrMagnitude,
	} {
		got, err := Calculate(expression)
		var e *CalcError
		if !errors.As(err, &e) || !errors.Is(err, want) {
			t.Errorf("%.30s is %s, %v; want %v", expression, got, err, want)
		}
	}
}

func TestTheClockKnowsZones(t *testing.T) {
	now := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	for zone, want := range map[string]string{
		"":           "Thursday, 2026-01-15 12:00:00 UTC (+00:00)",
		"Asia/Tokyo": "Thursday, 2026-01-15 21:00:00 JST (+09:00)",
	} {
		if got, err := clock(now, zone); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", zone, got, err, want)
		}
	}
	for _, zone := range []string{"Mars/Base", "../../etc/passwd", "/etc/localtime"} {
		if got, err := clock(now, zone); !errors.Is(err, ErrZone) {
			t.Errorf("%q: %s, %v", zone, got, err)
		}
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// call calls a tool as an agent does.
func call(t *testing.T, dir, name string, args any) (string, error) {
	t.Helper()
	set, err := tool.NewSet(In(dir)...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := set.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Call(context.Background(), data)
	if err != nil {
		return "", err
	}
	return chat.Message{Parts: r.Content}.Text(), nil
}

func TestFilesAreReadBelowTheFolderOnly(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "home")
	put(t, filepath.Join(top, "secret.txt"), "secret")
	put(t, filepath.Join(dir, "a.txt"), "one\ntwo\nthree\n")
	put(t, filepath.Join(dir, "sub", "b.txt"), "b")
	put(t, filepath.Join(dir, "binary"), "a\x00b")
	put(t, filepath.Join(dir, "latin1"), "caf\xe9")
	put(t, filepath.Join(dir, "large"), strings.Repeat("x", MaxFile+1))
	put(t, filepath.Join(dir, "long"), strings.Repeat("x", maxResult+100))
	links := map[string]string{"out": "../secret.txt", "abs": filepath.Join(top, "secret.txt"), "up": "..", "in": "a.txt"}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	for path, want := range map[string]string{
		"a.txt": "one\ntwo\nthree\n", "./sub/../a.txt": "one\ntwo\nthree\n", "sub/b.txt": "b", "in": "one\ntwo\nthree\n",
		"long": "[cut: 100 of 32868 bytes are left out]",
	} {
		if got, err := call(t, dir, ReadFile, readArgs{Path: path}); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %.60q, %v; want %q", path, got, err, want)
		}
	}
	if got, err := call(t, dir, ReadFile, readArgs{Path: "a.txt", FirstLine: 2, Lines: 1}); err != nil || !strings.HasPrefix(got, "two\n") || strings.Contains(got, "three") {
		t.Errorf("the second line is %q, %v", got, err)
	}
	for path, want := range map[string]error{
		"../secret.txt": ErrPath, "sub/../../secret.txt": ErrPath, filepath.Join(top, "secret.txt"): ErrPath, "": ErrPath, "a\x1b.txt": ErrPath, "a\n": ErrPath,
		"out": nil, "abs": nil, "up/secret.txt": nil,
		"nowhere": ErrMissing, "sub": ErrFolder, "binary": ErrBinary, "latin1": ErrBinary, "large": ErrTooLarge,
	} {
		got, err := call(t, dir, ReadFile, readArgs{Path: path})
		var e *FileError
		if !errors.As(err, &e) || want != nil && !errors.Is(err, want) || strings.Contains(got, "secret") || want == nil && strings.Contains(err.Error(), top) {
			t.Errorf("%s: %q, %v; want %v", path, got, err, want)
		}
	}
	if _, err := call(t, dir, ReadFile, readArgs{Path: "a.txt", FirstLine: 9}); !errors.Is(err, ErrLines) {
		t.Error(err)
	}
	got, err := call(t, dir, ListFiles, listArgs{})
	if err != nil || !strings.Contains(got, "a.txt (14 bytes)\n") || !strings.Contains(got, "sub/\n") || !strings.Contains(got, "out (special)\n") {
		t.Errorf("%s, %v", got, err)
	}
	for _, path := range []string{"..", "up", "a.txt", "nowhere"} {
		if got, err := call(t, dir, ListFiles, listArgs{Folder: path}); err == nil {
			t.Errorf("%s is listed: %s", path, got)
		}
	}
}

func TestFilesAreWrittenWholeAndBelowTheFolderOnly(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "home")
	put(t, filepath.Join(top, "secret.txt"), "secret")
	put(t, filepath.Join(dir, "a.txt"), "old")
	for name, to := range map[string]string{"out": "../secret.txt", "up": "..", "in": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, path := range []string{"a.txt", "new/deep/b.txt"} {
		if got, err := call(t, dir, WriteFile, WriteArgs{path, "new\n"}); err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(data) != "new\n" {
			t.Errorf("%s holds %q, %v", path, data, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "a.txt")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	for _, path := range []string{"../secret.txt", "../new.txt", "out", "up/secret.txt", "up/new.txt", "in", "new", "a.txt/b", ""} {
		if got, err := call(t, dir, WriteFile, WriteArgs{path, "new"}); err == nil {
			t.Errorf("%s: %s", path, got)
		}
	}
	if _, err := call(t, dir, WriteFile, WriteArgs{"large", strings.Repeat("x", MaxFile+1)}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if data, err := os.ReadFile(filepath.Join(top, "secret.txt")); err != nil || string(data) != "secret" {
		t.Errorf("the file outside holds %q, %v", data, err)
	}
	for _, at := range []string{top, dir} {
		entries, err := os.ReadDir(at)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".superstep-") || e.Name() == "new.txt" || err != nil {
				t.Errorf("left behind in %s: %s, %v", at, e.Name(), err)
			}
		}
	}
}
