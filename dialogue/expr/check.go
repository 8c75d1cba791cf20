package expr

import "fmt"

// Types says of a path what kind of value it has. Any path whose kind isn't known is
// Unknown.
type Types func(Path) (Kind, bool)

// Check types the expression and returns what can never be computed: arithmetic and
// ordering of values that have none. It returns the kind of the result and whether that
// is known.
func (e *Expr) Check(types Types) (Kind, bool, []*SyntaxError) {
	c := &checker{source: e.source, types: types}
	kind, ok := c.kind(e.root)
	return kind, ok, c.problems
}

type checker struct {
	source   string
	types    Types
	problems []*SyntaxError
}

func (c *checker) problem(offset int, format string, args ...any) {
	c.problems = append(c.problems, &SyntaxError{Source: c.source, Offset: offset, Reason: fmt.Sprintf(format, args...)})
}

func (c *checker) kind(n *node) (Kind, bool) {
	switch n.op {
	case opConst:
		return n.value.kind, true
	case opPath:
		return c.types(n.path)
	case opList:
		for _, a := range n.args {
			c.kind(a)
		}
		return List, true
	case opIf:
		c.kind(n.args[0])
		a, okA := c.kind(n.args[1])
		b, okB := c.kind(n.args[2])
		return a, okA && okB && a == b
	case opCall:
		for i, a := range n.args {
			k, ok := c.kind(a)
			switch n.name {
			case "round", "abs":
				if ok && (k == Boolean || k == List || k == Object) {
					c.problem(a.offset, "%s(…) needs a number, and value %d is a %s", n.name, i+1, k)
				}
			case "date", "days":
				if ok && k != Text && k != None {
					c.problem(a.offset, "%s(…) needs a date, and value %d is a %s", n.name, i+1, k)
				}
			case "len":
				if ok && (k == Boolean || k == Number) {
					c.problem(a.offset, "len(…) needs a text, list or object, not a %s", k)
				}
			}
		}
		switch n.name {
		case "filled":
			return Boolean, true
		case "len", "round", "abs", "days":
			return Number, true
		case "date", "today", "now", "uuid":
			return Text, true
		}
		return None, false
	case opAdd, opSub, opMul, opDiv, opMod, opNeg:
		for _, a := range n.args {
			k, ok := c.kind(a)
			_, numeric := a.value.AsNumber()
			switch {
			case !ok || k == Number || k == None:
			case k == Text && (a.op != opConst || numeric):
			case k == Text && n.op == opAdd:
				c.problem(a.offset, "+ adds numbers only; join texts by writing them as \"{a}{b}\"")
			default:
				c.problem(a.offset, "a %s can't be calculated with", k)
			}
		}
		return Number, true
	case opLt, opLe, opGt, opGe:
		a, okA := c.kind(n.args[0])
		b, okB := c.kind(n.args[1])
		for i, k := range []Kind{a, b} {
			if []bool{okA, okB}[i] && (k == Boolean || k == List || k == Object) {
				c.problem(n.args[i].offset, "a %s has no order; compare it with == or !=", k)
			}
		}
		return Boolean, true
	}
	for _, a := range n.args {
		c.kind(a)
	}
	return Boolean, true
}
