package eval

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/superstep-dev/superstep/chat"
)

//go:embed report.css
var style string

// pageWriter writes HTML. It stands for html/template, whose calls of methods by name have
// the linker keep every method of every type of a program that has the command eval.
type pageWriter struct{ bytes.Buffer }

// put writes HTML, with the texts escaped that stand for its verbs.
func (p *pageWriter) put(format string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, t := range texts {
		escaped[i] = html.EscapeString(strings.ToValidUTF8(strings.ReplaceAll(t, "\x00", "\uFFFD"), "\uFFFD"))
	}
	fmt.Fprintf(p, format, escaped...)
}

// term writes what has a name, over several lines.
func (p *pageWriter) term(name, text string) {
	p.put("<dt>%s</dt><dd><pre tabindex=\"0\">%s</pre></dd>\n", name, text)
}

// when returns one text or another.
func when(is bool, text, otherwise string) string {
	if is {
		return text
	}
	return otherwise
}

func lines(calls []Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintln(&b, c)
	}
	return b.String()
}

func pretty(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, data, "", "  ") != nil {
		return string(data)
	}
	return b.String()
}

// WriteHTML writes the report as a page that stands by itself: it loads nothing and runs
// nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	var p pageWriter
	p.put("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<title>%s</title>\n", r.title())
	p.WriteString("<style>\n" + style + "</style>\n</head>\n<body>\n")
	sum := r.Summary
	p.put("<h1>%s</h1>\n<p>%s. %s of %s cases passed (%s), %s of %s runs.", r.title(), r.StartedAt.Format("2006-01-02 15:04:05 MST"),
		fmt.Sprint(sum.Passed), fmt.Sprint(sum.Cases), percent(sum.Rate()), fmt.Sprint(sum.RunsPassed), fmt.Sprint(sum.Runs))
	if r.Stopped != "" {
		p.put(` <span class="bad">Not all was run: %s</span>`, r.Stopped)
	}
	p.put("</p>\n<table>\n")
	for _, row := range sum.rows() {
		p.put("<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", row[0], row[1])
	}
	p.put("</table>\n<main>\n")
	for _, c := range r.Cases {
		p.caseOf(c)
	}
	p.put("</main>\n</body>\n</html>\n")
	_, err := w.Write(p.Bytes())
	return err
}

func (p *pageWriter) caseOf(c CaseReport) {
	p.WriteString("<details" + when(c.Passed(), "", " open") + ">\n<summary>")
	switch {
	case c.Passed():
		p.put(`<span class="ok">ok</span>`)
	case len(c.Runs) > 0:
		p.put(`<span class="bad">FAIL</span>`)
	default:
		p.put("not run")
	}
	p.put(" %s", c.Case.Name)
	if len(c.Runs) > 1 {
		p.put(" (%s of %s runs passed)", fmt.Sprint(c.passes()), fmt.Sprint(len(c.Runs)))
	}
	for _, tag := range c.Case.Tags {
		p.put(` <span class="tag">%s</span>`, tag)
	}
	p.put("</summary>\n<dl>\n")
	p.term("Input", pretty(c.Case.Input))
	if len(c.Case.Output) > 0 {
		p.term("Expected output", pretty(c.Case.Output))
	}
	if len(c.Case.Trajectory) > 0 {
		p.term("Expected calls", lines(c.Case.Trajectory))
	}
	p.put("</dl>\n")
	for i, run := range c.Runs {
		p.run(i+1, run)
	}
	p.put("</details>\n")
}

func (p *pageWriter) run(n int, run RunReport) {
	verdict := func(pass bool) string {
		return when(pass, `<span class="ok">passed</span>`, `<span class="bad">failed</span>`)
	}
	res := run.Result
	p.WriteString("<details" + when(run.Passed(), "", " open") + ">\n")
	p.put("<summary>Run %s: ", fmt.Sprint(n))
	p.WriteString(verdict(run.Passed()))
	p.put(", %s, cost %s", fmt.Sprint(shortTime(res.Latency)), fmt.Sprint(res.Cost))
	if res.Thread != "" {
		p.put(", thread %s", res.Thread)
	}
	p.put("</summary>\n")
	if run.Error != "" {
		p.put("<dl><dt class=\"bad\">The run failed</dt><dd><pre tabindex=\"0\">%s</pre></dd></dl>\n", run.Error)
	} else {
		p.put("<table>\n")
		for _, s := range run.Scores {
			p.put("<tr><th scope=\"row\">%s</th><td>", s.Name)
			p.WriteString(verdict(s.Pass))
			p.put("</td><td>%s</td><td>%s</td></tr>\n", fmt.Sprintf("%.2f", s.Value), when(s.Error != "", "It couldn't judge: "+s.Error, s.Reason))
		}
		p.put("</table>\n")
	}
	p.put("<dl>\n")
	if len(res.Output) > 0 {
		p.term("Output", res.Text())
	}
	if calls := res.Calls(); len(calls) > 0 {
		p.term("Calls of tools", lines(calls))
	}
	p.put("</dl>\n")
	if len(res.Messages) > 0 {
		talk := chat.Of(res.Messages...)
		p.put("<details><summary>Conversation</summary><pre tabindex=\"0\">%s</pre></details>\n", talk.String())
	}
	p.put("</details>\n")
}
