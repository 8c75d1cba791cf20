package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// What a release is made of is there, and each package of the command has files for each
// of its targets. Nothing is compiled: that is done by who makes the release.
func TestAReleaseHasWhatItIsMadeOf(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Builds []struct {
			Main         string
			Goos, Goarch []string
		}
		Archives []struct{ Files []string }
		Dockers  []struct{ Dockerfile string } `yaml:"dockers_v2"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.Dockers) != 1 {
		t.Fatalf("%+v: want one of each", c)
	}
	for _, file := range append(c.Archives[0].Files, c.Dockers[0].Dockerfile) {
		if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
			t.Error(err)
		}
	}
	b := c.Builds[0]
	slices.Sort(b.Goos)
	if !slices.Equal(b.Goos, []string{"darwin", "linux", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("it is for %q on %q", b.Goos, b.Goarch)
	}
	for _, system := range b.Goos {
		for _, arch := range b.Goarch {
			cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-f", "{{with .Error}}{{$.ImportPath}}: {{.}}{{end}}", b.Main)
			cmd.Dir = "../.."
			cmd.Env = append(os.Environ(), "GOFLAGS=", "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
			out, err := cmd.Output()
			if bad := strings.TrimSpace(string(out)); err != nil || bad != "" {
				t.Errorf("%s/%s: %v %s", system, arch, err, bad)
			}
		}
	}
}

// A released version has its section in the changelog, newest first, and "Unreleased"
// stands above them; the notes of a release are prepared before its tag.
func TestTheChangelogIsByVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(sections) == 0 || sections[0][1] != "Unreleased" {
		t.Fatalf("the first section is %v, want Unreleased", sections)
	}
	version := regexp.MustCompile(`^(\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$`)
	for _, s := range sections[1:] {
		m := version.FindStringSubmatch(s[1])
		if m == nil {
			t.Errorf("section %q: want a version and its date, as in 1.2.3 - 2027-01-31", s[1])
			continue
		}
		if _, err := os.Stat("../../docs/contributing/notes/v" + m[1] + ".md"); err != nil {
			t.Error(err)
		}
	}
}
