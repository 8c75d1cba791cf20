// Package yamlvalue reads values out of YAML by YAML 1.2's core schema: yes, no, on and
// off are texts.
package yamlvalue

import (
	"math"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/dialogue/expr"
)

// Follow returns the node that an alias stands for.
func Follow(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

var number = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// Quoted says whether a scalar is a text by the way it is written.
func Quoted(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 || n.Tag == "!!str" && n.Style&yaml.TaggedStyle != 0
}

// Scalar returns the value of a scalar, none for another node.
func Scalar(n *yaml.Node) expr.Value {
	n = Follow(n)
	if n == nil || n.Kind != yaml.ScalarNode {
		return expr.Value{}
	}
	if Quoted(n) {
		return expr.Str(n.Value)
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return expr.Value{}
	case "true", "True", "TRUE":
		return expr.Bool(true)
	case "false", "False", "FALSE":
		return expr.Bool(false)
	}
	if number.MatchString(n.Value) {
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(f, 0) {
			return expr.Num(f)
		}
	}
	return expr.Str(n.Value)
}

// Of returns the value of any node.
func Of(n *yaml.Node) expr.Value {
	n = Follow(n)
	if n == nil {
		return expr.Value{}
	}
	switch n.Kind {
	case yaml.SequenceNode:
		items := make([]expr.Value, len(n.Content))
		for i, x := range n.Content {
			items[i] = Of(x)
		}
		return expr.ListOf(items...)
	case yaml.MappingNode:
		members := map[string]expr.Value{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			members[Follow(n.Content[i]).Value] = Of(n.Content[i+1])
		}
		return expr.ObjectOf(members)
	}
	return Scalar(n)
}
