package studio_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/superstep-dev/superstep/docs/site"
	"github.com/superstep-dev/superstep/internal/servers/servertest"
)

// The documentation is read in a browser as docs.test.mjs says. It stands where visit.mjs
// looks for the studio, since it may stand anywhere.
func TestTheDocumentationIsReadInABrowser(t *testing.T) {
	chromium := program("chromium", "chromium-browser", "google-chrome")
	if chromium == "" {
		missing(t, "Chromium")
	}
	servertest.Packages(t, "the documentation in a browser", ".")
	h := httptest.NewServer(site.Handler("/studio/"))
	t.Cleanup(h.Close)
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "docs.test.mjs")
	cmd.Env = append(os.Environ(), "STUDIO_URL="+h.URL, "CHROMIUM="+chromium)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}
