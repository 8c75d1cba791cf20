package checkpoint

import "strings"

// A namespace of a subgraph's log is that of the log around it and a [Segment] behind a
// bar.
const bar = "|"

// InNamespace returns the namespace of a subgraph's log in that of the log around it.
func InNamespace(namespace, segment string) string { return namespace + bar + segment }

// Below reports whether a namespace is that of a subgraph's log, however deep, inside of
// another.
func Below(namespace, of string) bool { return strings.HasPrefix(namespace, of+bar) }

var escape, unescape = strings.NewReplacer("%", "%25", "|", "%7C", ":", "%3A", "#", "%23"), strings.NewReplacer("%25", "%", "%7C", "|", "%3A", ":", "%23", "#")

// Segment is the part of a namespace that names the run of a subgraph: its node, a colon
// and the ID of the task. Behind that are a dot and a number, if what the task had come to
// was given up so often, and # and the key of the call, if it has one. Without a task, of
// a subgraph that keeps its state for the thread, it is the node alone, and the key.
func Segment(node, task, key string) string {
	s := escape.Replace(node)
	if task != "" {
		s += ":" + task
	}
	if key != "" {
		s += "#" + escape.Replace(key)
	}
	return s
}

// CutSegment takes the first segment of a namespace apart: see [Segment]. The rest begins
// with the bar before the next, if there is one.
func CutSegment(namespace string) (node, task, key, rest string) {
	s := strings.TrimPrefix(namespace, bar)
	if i := strings.Index(s, bar); i >= 0 {
		s, rest = s[:i], s[i:]
	}
	s, key, _ = strings.Cut(s, "#")
	node, task, _ = strings.Cut(s, ":")
	return unescape.Replace(node), task, unescape.Replace(key), rest
}
