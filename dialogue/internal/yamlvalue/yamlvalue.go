// Package yamlvalue reads values out of YAML by YAML 1.2's core schema: yes, no, on and
// off are texts.
package yamlvalue

import (
	"iter"
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

// Pairs are the keys and values of a map, none of another node.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if !yield(Follow(n.Content[i]), Follow(n.Content[i+1])) {
				return
			}
		}
	}
}

// Get returns the value of a key of a map, nil if there is none.
func Get(n *yaml.Node, key string) *yaml.Node {
	for k, v := range Pairs(n) {
		if k.Value == key {
			return v
		}
	}
	return nil
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
		for k, v := range Pairs(n) {
			members[k.Value] = Of(v)
		}
		return expr.ObjectOf(members)
	}
	return Scalar(n)
}
