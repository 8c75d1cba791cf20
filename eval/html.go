package eval

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"json": func(data json.RawMessage) string {
		var b bytes.Buffer
		if json.Indent(&b, data, "", "  ") != nil {
			return string(data)
		}
		return b.String()
	},
	"talk": func(messages []chat.Message) string {
		h := chat.Of(messages...)
		return h.String()
	},
	"calls":   func(r Result) []Call { return r.Calls() },
	"text":    func(r Result) string { return r.Text() },
	"short":   shortTime,
	"inc":     func(i int) int { return i + 1 },
	"percent": percent,
	"join":    strings.Join,
	"passes":  func(c CaseReport) int { return c.passes() },
	"passed":  func(r RunReport) bool { return r.Passed() },
	"ok":      func(c CaseReport) bool { return c.Passed() },
	"when":    func(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") },
}).Parse(page))

// WriteHTML writes the report as a page that stands by itself: it loads nothing and runs
// nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, struct {
		*Report
		Title string
		Rows  [][2]string
	}{r, r.title(), r.Summary.rows()}); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
