package expr

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Env is where an expression finds its names.
type Env interface {
	// Lookup returns the value of a path, and whether there is one. A slot that was
	// skipped has the value none.
	Lookup(path []string) (Value, bool)
	// Now is the time of the turn.
	Now() time.Time
	// UUID is the identifier of the turn and step.
	UUID() string
}

// Eval returns the expression's value. It never fails: what can't be computed is none,
// and a comparison without an answer is false.
func (e *Expr) Eval(env Env) Value { return e.root.eval(env).known() }

// True says whether the expression's value counts as true.
func (e *Expr) True(env Env) bool { return e.root.eval(env).truth() == yes }

// result is a value, or unknown: the answer of an ordering between what has no order.
type result struct {
	value   Value
	unknown bool
}

type truth uint8

const (
	no truth = iota
	unknown
	yes
)

func (r result) truth() truth {
	switch {
	case r.unknown:
		return unknown
	case r.value.Truth():
		return yes
	}
	return no
}

func (t truth) result() result {
	return result{value: Bool(t == yes), unknown: t == unknown}
}

// known returns the value; unknown counts as false.
func (r result) known() Value {
	if r.unknown {
		return Bool(false)
	}
	return r.value
}

func known(v Value) result { return result{value: v} }

func (n *node) eval(env Env) result {
	switch n.op {
	case opConst:
		return known(n.value)
	case opPath:
		v, _ := env.Lookup(n.path.Names)
		return known(v)
	case opIf:
		if n.args[0].eval(env).truth() == yes {
			return n.args[1].eval(env)
		}
		return n.args[2].eval(env)
	case opOr:
		left := n.args[0].eval(env).truth()
		if left == yes {
			return left.result()
		}
		return max(left, n.args[1].eval(env).truth()).result()
	case opAnd:
		left := n.args[0].eval(env).truth()
		if left == no {
			return left.result()
		}
		return min(left, n.args[1].eval(env).truth()).result()
	case opNot:
		return (yes - n.args[0].eval(env).truth()).result()
	case opList:
		items := make([]Value, len(n.args))
		for i, a := range n.args {
			items[i] = a.eval(env).known()
		}
		return known(Value{kind: List, list: items})
	case opCall:
		return known(functions[n.name].call(n, env))
	case opNeg:
		x, ok := n.args[0].eval(env).known().AsNumber()
		if !ok {
			return result{}
		}
		return known(Num(-x))
	}
	a, b := n.args[0].eval(env).known(), n.args[1].eval(env).known()
	switch n.op {
	case opAdd, opSub, opMul, opDiv, opMod:
		return known(arithmetic(n.op, a, b))
	}
	return compare(n.op, a, b)
}

func compare(o op, a, b Value) result {
	switch o {
	case opIn:
		return known(Bool(contains(a, b)))
	case opNotIn:
		return known(Bool(!a.IsNone() && !b.IsNone() && !contains(a, b)))
	case opEq:
		return known(Bool(a.Equal(b)))
	case opNe:
		return known(Bool(!a.Equal(b)))
	}
	c, ok := a.Order(b)
	if !ok {
		return result{unknown: true}
	}
	switch o {
	case opLt:
		return known(Bool(c < 0))
	case opLe:
		return known(Bool(c <= 0))
	case opGt:
		return known(Bool(c > 0))
	}
	return known(Bool(c >= 0))
}

// Compare says whether a comparison holds that is written with a sign such as == or <=.
func Compare(sign string, a, b Value) bool {
	o, ok := comparisons[sign]
	return ok && compare(o, a, b).truth() == yes
}

// contains says whether a is an item of the list b, a key of the object b or a part of
// the text b.
func contains(a, b Value) bool {
	switch b.kind {
	case List:
		return !a.IsNone() && slices.ContainsFunc(b.list, a.Equal)
	case Object:
		_, ok := b.object[a.text]
		return ok && a.kind == Text
	case Text:
		return !a.IsNone() && (a.kind == Text || a.kind == Number) && strings.Contains(b.text, a.String())
	}
	return false
}

func arithmetic(o op, a, b Value) Value {
	x, okX := a.AsNumber()
	y, okY := b.AsNumber()
	if !okX || !okY {
		return Value{}
	}
	switch o {
	case opAdd:
		return Num(x + y)
	case opSub:
		return Num(x - y)
	case opMul:
		return Num(x * y)
	case opDiv:
		return Num(x / y) // Num makes none of a division by zero
	}
	return Num(math.Mod(x, y))
}

type function struct {
	usage    string
	min, max int
	clock    bool
	call     func(n *node, env Env) Value
}

var functions map[string]function

var functionNames string

// Functions returns how each function is called, by name.
func Functions() []string {
	var usages []string
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		usages = append(usages, functions[name].usage)
	}
	return usages
}

func init() {
	texts := func(f func(string) string) func(*node, Env) Value {
		return func(n *node, env Env) Value {
			v := n.args[0].eval(env).known()
			if v.kind != Text {
				return v
			}
			return Str(f(v.text))
		}
	}
	extreme := func(better int) func(*node, Env) Value {
		return func(n *node, env Env) Value {
			var values []Value
			for _, a := range n.args {
				v := a.eval(env).known()
				if v.kind == List {
					values = append(values, v.list...)
				} else {
					values = append(values, v)
				}
			}
			var best Value
			for i, v := range values {
				if i == 0 {
					best = v
					continue
				}
				c, ok := v.Order(best)
				if !ok {
					return Value{}
				}
				if c == better {
					best = v
				}
			}
			return best
		}
	}
	functions = map[string]function{
		"filled": {usage: "filled(x)", min: 1, max: 1, call: func(n *node, env Env) Value {
			if a := n.args[0]; a.op == opPath {
				_, ok := env.Lookup(a.path.Names)
				return Bool(ok)
			}
			return Bool(!n.args[0].eval(env).known().IsNone())
		}},
		"len": {usage: "len(x)", min: 1, max: 1, call: func(n *node, env Env) Value {
			l, ok := n.args[0].eval(env).known().Len()
			if !ok {
				return Value{}
			}
			return Num(float64(l))
		}},
		"lower": {usage: "lower(x)", min: 1, max: 1, call: texts(strings.ToLower)},
		"upper": {usage: "upper(x)", min: 1, max: 1, call: texts(strings.ToUpper)},
		"trim":  {usage: "trim(x)", min: 1, max: 1, call: texts(strings.TrimSpace)},
		"round": {usage: "round(x, n)", min: 1, max: 2, call: func(n *node, env Env) Value {
			x, ok := n.args[0].eval(env).known().AsNumber()
			if !ok {
				return Value{}
			}
			digits := 0.0
			if len(n.args) == 2 {
				if digits, ok = n.args[1].eval(env).known().AsNumber(); !ok {
					return Value{}
				}
			}
			return Num(Round(x, int(max(-15, min(15, digits)))))
		}},
		"min": {usage: "min(x, …)", min: 1, max: -1, call: extreme(-1)},
		"max": {usage: "max(x, …)", min: 1, max: -1, call: extreme(1)},
		"abs": {usage: "abs(x)", min: 1, max: 1, call: func(n *node, env Env) Value {
			x, ok := n.args[0].eval(env).known().AsNumber()
			if !ok {
				return Value{}
			}
			return Num(math.Abs(x))
		}},
		"date": {usage: "date(x)", min: 1, max: 1, call: func(n *node, env Env) Value {
			t, ok := dateOf(n.args[0].eval(env).known())
			if !ok {
				return Value{}
			}
			return Str(t.Format(time.DateOnly))
		}},
		"days": {usage: "days(from, to)", min: 2, max: 2, call: func(n *node, env Env) Value {
			a, okA := dateOf(n.args[0].eval(env).known())
			b, okB := dateOf(n.args[1].eval(env).known())
			if !okA || !okB {
				return Value{}
			}
			return Num(math.Round(b.Sub(a).Hours() / 24))
		}},
		"today": {usage: "today()", clock: true, call: func(_ *node, env Env) Value {
			return Str(env.Now().Format(time.DateOnly))
		}},
		"now": {usage: "now()", clock: true, call: func(_ *node, env Env) Value {
			return Str(env.Now().Format(time.RFC3339))
		}},
		"uuid": {usage: "uuid()", clock: true, call: func(_ *node, env Env) Value { return Str(env.UUID()) }},
	}
	functionNames = strings.Join(slices.Sorted(maps.Keys(functions)), ", ")
}

// Round rounds half away from zero to a number of decimals.
func Round(x float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	// What is written as 1.005 lies a little below it; 15 digits are what a number has.
	scaled := x * scale
	rounded := math.Round(scaled + math.Copysign(math.Abs(scaled)*1e-15, scaled))
	if decimals < 0 {
		return rounded * math.Pow10(-decimals)
	}
	return rounded / scale
}

// dateOf returns the day of an ISO date or time.
func dateOf(v Value) (time.Time, bool) {
	if v.kind != Text || len(v.text) < len(time.DateOnly) {
		return time.Time{}, false
	}
	t, err := time.Parse(time.DateOnly, v.text[:len(time.DateOnly)])
	if err != nil {
		return time.Time{}, false
	}
	if rest := v.text[len(time.DateOnly):]; rest != "" && rest[0] != 'T' && rest[0] != ' ' {
		return time.Time{}, false
	}
	return t, true
}
