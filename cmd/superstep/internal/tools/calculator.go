package tools

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// The kinds of [CalcError].
var (
	ErrSyntax     = errors.New("cannot be read")
	ErrArithmetic = errors.New("is not arithmetic")
	ErrUndefined  = errors.New("is not defined")
	ErrMagnitude  = errors.New("is too large to be calculated")
)

// CalcError says why an expression has no value. [errors.Is] matches its kind.
type CalcError struct {
	Expression string // or the part of it that is wrong
	Err        error
	Detail     string // may be empty
}

func (e *CalcError) Error() string {
	s := fmt.Sprintf("%q %v", e.Expression, e.Err)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns the kind.
func (e *CalcError) Unwrap() error { return e.Err }

// The bounds of a calculation.
const (
	maxExpression = 1000 // bytes
	maxBits       = 4096 // of a numerator or denominator
	maxDigits     = 15   // of what isn't exact
)

// Calculate returns the value of an arithmetic expression: numbers, + - * / % and
// ** or ^ for powers, parentheses, the functions abs, ceil, floor, max, min, round
// and sqrt, and pi and e. Fractions are exact, so that 0.1 + 0.2 is 0.3; what has
// no end as a decimal number is rounded to 15 digits.
//
// It is read and calculated here: an engine for expressions has more than arithmetic,
// counts modulo 2 to the power of 64, and weighs more than all that is calculated with it.
func Calculate(expression string) (string, error) {
	if len(expression) > maxExpression {
		return "", &CalcError{Expression: expression[:20] + "…", Err: ErrMagnitude, Detail: fmt.Sprintf("it has %d bytes, the limit is %d", len(expression), maxExpression)}
	}
	c := &calculation{text: signs.Replace(expression)}
	v, err := c.sum()
	if err == nil && c.peek() != "" {
		err = c.unexpected()
	}
	if err != nil {
		return "", err
	}
	return decimal(v), nil
}

// signs are how people write operators.
var signs = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-")

// calculation reads an expression and calculates it on the way: a sum has terms, a term
// factors, a factor a sign or a power, whose exponent is a factor again.
type calculation struct {
	text string
	at   int
}

// token is a number, a name, or a character or two that stand for themselves.
var token = regexp.MustCompile(`^(?:(?:\d[\d_]*(?:\.\d[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?|[\pL_$][\pL\d_]*|\*\*|[^\s])`)

// peek returns the next token; empty at the end.
func (c *calculation) peek() string {
	c.at += len(c.text[c.at:]) - len(strings.TrimLeft(c.text[c.at:], " \t\r\n"))
	return token.FindString(c.text[c.at:])
}

// take takes the next token if it is one of some, and returns it.
func (c *calculation) take(of ...string) string {
	next := c.peek()
	for _, t := range of {
		if next == t {
			c.at += len(t)
			return t
		}
	}
	return ""
}

// unexpected says that the expression doesn't go on as it may.
func (c *calculation) unexpected() error {
	next := c.peek()
	if next == "" {
		return &CalcError{Expression: c.text, Err: ErrSyntax, Detail: "it ends too early"}
	}
	kind := ErrArithmetic
	if strings.Contains("+-*/%^(),", next) || next == "**" || next[0] >= '0' && next[0] <= '9' {
		kind = ErrSyntax
	}
	return &CalcError{Expression: c.text, Err: kind, Detail: fmt.Sprintf("%q in column %d is not expected there", next, len([]rune(c.text[:c.at]))+1)}
}

// wrong says what is wrong with what stands from a place on.
func (c *calculation) wrong(from int, kind error, detail string) error {
	return &CalcError{Expression: strings.TrimSpace(c.text[from:c.at]), Err: kind, Detail: detail}
}

func (c *calculation) sum() (*big.Rat, error)  { return c.chain(c.term, "+", "-") }
func (c *calculation) term() (*big.Rat, error) { return c.chain(c.factor, "*", "/", "%") }

// chain reads operands with operators between them, and calculates from the left.
func (c *calculation) chain(operand func() (*big.Rat, error), operators ...string) (*big.Rat, error) {
	c.peek()
	from := c.at
	v, err := operand()
	for err == nil {
		op := c.take(operators...)
		if op == "" {
			break
		}
		var w *big.Rat
		if w, err = operand(); err == nil {
			v, err = c.binary(from, op, v, w)
		}
	}
	return v, err
}

func (c *calculation) factor() (*big.Rat, error) {
	switch c.take("-", "+") {
	case "-":
		v, err := c.factor()
		if err != nil {
			return nil, err
		}
		return v.Neg(v), nil
	case "+":
		return c.factor()
	}
	c.peek()
	from := c.at
	base, err := c.operand()
	if err != nil || c.take("**", "^") == "" {
		return base, err
	}
	exp, err := c.factor()
	if err != nil {
		return nil, err
	}
	return c.power(from, base, exp)
}

func (c *calculation) operand() (*big.Rat, error) {
	next := c.peek()
	from := c.at
	switch {
	case next == "":
		return nil, c.unexpected()
	case next == "(":
		c.at++
		v, err := c.sum()
		if err == nil && c.take(")") == "" {
			err = c.unexpected()
		}
		return v, err
	case next[0] >= '0' && next[0] <= '9' || next[0] == '.' && len(next) > 1:
		c.at += len(next)
		if _, exp, ok := strings.Cut(strings.ToLower(next), "e"); ok && len(exp) > 5 {
			return nil, c.wrong(from, ErrMagnitude, "")
		}
		v, ok := new(big.Rat).SetString(strings.ReplaceAll(next, "_", ""))
		if !ok {
			return nil, c.wrong(from, ErrSyntax, "")
		}
		return c.bounded(from, v)
	case next == "_" || len(next) > 1 && next != "**" || strings.ToUpper(next) != strings.ToLower(next):
		c.at += len(next)
		if c.take("(") != "" {
			return c.call(from, next)
		}
		switch next {
		case "pi":
			return c.rat(from, math.Pi)
		case "e":
			return c.rat(from, math.E)
		}
		return nil, c.wrong(from, ErrArithmetic, "")
	}
	return nil, c.unexpected()
}

// call reads a function's arguments and calls it.
func (c *calculation) call(from int, name string) (*big.Rat, error) {
	var args []*big.Rat
	for c.take(")") == "" {
		if len(args) > 0 && c.take(",") == "" {
			return nil, c.unexpected()
		}
		v, err := c.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return c.apply(from, name, args)
}

// rat returns a number to so many digits as what isn't exact has.
func (c *calculation) rat(from int, f float64) (*big.Rat, error) {
	v, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', maxDigits, 64))
	if !ok { // infinite, or not a number
		return nil, c.wrong(from, ErrUndefined, "")
	}
	return c.bounded(from, v)
}

func (c *calculation) bounded(from int, v *big.Rat) (*big.Rat, error) {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, c.wrong(from, ErrMagnitude, "")
	}
	return v, nil
}

func (c *calculation) binary(from int, op string, a, b *big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	switch op {
	case "+":
		v.Add(a, b)
	case "-":
		v.Sub(a, b)
	case "*":
		v.Mul(a, b)
	case "/", "%":
		if b.Sign() == 0 {
			return nil, c.wrong(from, ErrUndefined, "division by zero")
		}
		v.Quo(a, b)
		if op == "%" {
			// The rest has the sign of a, as in Go.
			whole := new(big.Rat).SetInt(new(big.Int).Quo(v.Num(), v.Denom()))
			v.Sub(a, whole.Mul(whole, b))
		}
	}
	return c.bounded(from, v)
}

func (c *calculation) power(from int, a, b *big.Rat) (*big.Rat, error) {
	if !b.IsInt() {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return c.rat(from, math.Pow(x, y))
	}
	if a.Sign() == 0 && b.Sign() < 0 {
		return nil, c.wrong(from, ErrUndefined, "division by zero")
	}
	if b.Sign() == 0 {
		return new(big.Rat).SetInt64(1), nil
	}
	if a.Sign() == 0 {
		return a, nil
	}
	if new(big.Rat).Abs(a).Cmp(big.NewRat(1, 1)) == 0 { // its exponent may be of any size
		if b.Num().Bit(0) == 0 {
			a.Abs(a)
		}
		return a, nil
	}
	exp := new(big.Int).Abs(b.Num())
	bits := int64(max(a.Num().BitLen(), a.Denom().BitLen()))
	if !exp.IsInt64() || exp.Int64() > maxBits || (bits-1)*exp.Int64() > maxBits {
		return nil, c.wrong(from, ErrMagnitude, "")
	}
	num, den := new(big.Int).Exp(a.Num(), exp, nil), new(big.Int).Exp(a.Denom(), exp, nil)
	if b.Sign() < 0 {
		num, den = den, num
	}
	return c.bounded(from, new(big.Rat).SetFrac(num, den))
}

func (c *calculation) apply(from int, name string, vs []*big.Rat) (*big.Rat, error) {
	one := len(vs) == 1
	switch {
	case name == "abs" && one:
		return vs[0].Abs(vs[0]), nil
	case name == "floor" && one:
		return floor(vs[0]), nil
	case name == "ceil" && one:
		return new(big.Rat).Neg(floor(vs[0].Neg(vs[0]))), nil
	case name == "round" && one: // halves away from zero
		half := big.NewRat(1, 2)
		if vs[0].Sign() < 0 {
			return new(big.Rat).Neg(floor(half.Sub(half, vs[0]))), nil
		}
		return floor(half.Add(half, vs[0])), nil
	case name == "sqrt" && one:
		return c.root(from, vs[0])
	case (name == "max" || name == "min") && len(vs) > 0:
		best := vs[0]
		for _, v := range vs[1:] {
			if order := v.Cmp(best); order > 0 == (name == "max") && order != 0 {
				best = v
			}
		}
		return best, nil
	}
	return nil, c.wrong(from, ErrArithmetic, "there are abs, ceil, floor, round and sqrt of one number, and max and min of several")
}

// floor returns the largest integer that is not above v.
func floor(v *big.Rat) *big.Rat {
	// The denominator is positive, so Euclid's quotient is the floor.
	return new(big.Rat).SetInt(new(big.Int).Div(v.Num(), v.Denom()))
}

func (c *calculation) root(from int, v *big.Rat) (*big.Rat, error) {
	if v.Sign() < 0 {
		return nil, c.wrong(from, ErrUndefined, "the root of a negative number")
	}
	num, den := new(big.Int).Sqrt(v.Num()), new(big.Int).Sqrt(v.Denom())
	if r := new(big.Rat).SetFrac(num, den); new(big.Rat).Mul(r, r).Cmp(v) == 0 {
		return r, nil
	}
	f, _ := v.Float64()
	return c.rat(from, math.Sqrt(f))
}

// decimal writes a number: in full if it ends within 20 places.
func decimal(v *big.Rat) string {
	if places, exact := v.FloatPrec(); exact && places <= 20 {
		return v.FloatString(places)
	}
	return new(big.Float).SetPrec(256).SetRat(v).Text('g', maxDigits)
}
