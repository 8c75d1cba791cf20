package tools

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
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
// The syntax is that of Expr. It is calculated here, since an engine for
// expressions has more than arithmetic and counts modulo 2 to the power of 64.
func Calculate(expression string) (string, error) {
	if len(expression) > maxExpression {
		return "", &CalcError{Expression: expression[:20] + "…", Err: ErrMagnitude, Detail: fmt.Sprintf("it has %d bytes, the limit is %d", len(expression), maxExpression)}
	}
	tree, err := parser.Parse(signs.Replace(expression))
	if err != nil {
		detail := err.Error()
		if e := new(file.Error); errors.As(err, &e) {
			detail = fmt.Sprintf("%s in column %d", e.Message, e.Column+1)
		}
		return "", &CalcError{Expression: expression, Err: ErrSyntax, Detail: detail}
	}
	v, err := value(tree.Node)
	if err != nil {
		return "", err
	}
	return decimal(v), nil
}

// signs are how people write operators.
var signs = strings.NewReplacer("×", "*", "·", "*", "÷", "/", "−", "-")

func value(n ast.Node) (*big.Rat, error) {
	switch n := n.(type) {
	case *ast.IntegerNode:
		return new(big.Rat).SetInt64(int64(n.Value)), nil
	case *ast.FloatNode:
		return rat(n, n.Value, -1)
	case *ast.IdentifierNode:
		switch n.Value {
		case "pi":
			return rat(n, math.Pi, maxDigits)
		case "e":
			return rat(n, math.E, maxDigits)
		}
	case *ast.UnaryNode:
		v, err := value(n.Node)
		switch {
		case err != nil:
			return nil, err
		case n.Operator == "-":
			return v.Neg(v), nil
		case n.Operator == "+":
			return v, nil
		}
	case *ast.BinaryNode:
		a, err := value(n.Left)
		if err != nil {
			return nil, err
		}
		b, err := value(n.Right)
		if err != nil {
			return nil, err
		}
		return binary(n, a, b)
	case *ast.BuiltinNode:
		return apply(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); ok {
			return apply(n, f.Value, n.Arguments)
		}
	}
	return nil, wrong(n, ErrArithmetic, "")
}

func wrong(n ast.Node, kind error, detail string) error {
	return &CalcError{Expression: n.String(), Err: kind, Detail: detail}
}

// rat returns a number to so many digits; to -1 it is the one that was written,
// not the nearest one that a float64 holds.
func rat(n ast.Node, f float64, digits int) (*big.Rat, error) {
	v, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', digits, 64))
	if !ok { // infinite, or not a number
		return nil, wrong(n, ErrUndefined, "")
	}
	return bounded(n, v)
}

func bounded(n ast.Node, v *big.Rat) (*big.Rat, error) {
	if v.Num().BitLen() > maxBits || v.Denom().BitLen() > maxBits {
		return nil, wrong(n, ErrMagnitude, "")
	}
	return v, nil
}

func binary(n *ast.BinaryNode, a, b *big.Rat) (*big.Rat, error) {
	v := new(big.Rat)
	switch n.Operator {
	case "+":
		v.Add(a, b)
	case "-":
		v.Sub(a, b)
	case "*":
		v.Mul(a, b)
	case "/", "%":
		if b.Sign() == 0 {
			return nil, wrong(n, ErrUndefined, "division by zero")
		}
		v.Quo(a, b)
		if n.Operator == "%" {
			// The rest has the sign of a, as in Go.
			whole := new(big.Rat).SetInt(new(big.Int).Quo(v.Num(), v.Denom()))
			v.Sub(a, whole.Mul(whole, b))
		}
	case "**", "^":
		return power(n, a, b)
	default:
		return nil, wrong(n, ErrArithmetic, "")
	}
	return bounded(n, v)
}

func power(n ast.Node, a, b *big.Rat) (*big.Rat, error) {
	if !b.IsInt() {
		x, _ := a.Float64()
		y, _ := b.Float64()
		return rat(n, math.Pow(x, y), maxDigits)
	}
	if a.Sign() == 0 && b.Sign() < 0 {
		return nil, wrong(n, ErrUndefined, "division by zero")
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
		return nil, wrong(n, ErrMagnitude, "")
	}
	num, den := new(big.Int).Exp(a.Num(), exp, nil), new(big.Int).Exp(a.Denom(), exp, nil)
	if b.Sign() < 0 {
		num, den = den, num
	}
	return bounded(n, new(big.Rat).SetFrac(num, den))
}

func apply(n ast.Node, name string, args []ast.Node) (*big.Rat, error) {
	vs := make([]*big.Rat, len(args))
	for i, a := range args {
		var err error
		if vs[i], err = value(a); err != nil {
			return nil, err
		}
	}
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
		return root(n, vs[0])
	case (name == "max" || name == "min") && len(vs) > 0:
		best := vs[0]
		for _, v := range vs[1:] {
			if c := v.Cmp(best); c > 0 == (name == "max") && c != 0 {
				best = v
			}
		}
		return best, nil
	}
	return nil, wrong(n, ErrArithmetic, "there are abs, ceil, floor, round and sqrt of one number, and max and min of several")
}

// floor returns the largest integer that is not above v.
func floor(v *big.Rat) *big.Rat {
	// The denominator is positive, so Euclid's quotient is the floor.
	return new(big.Rat).SetInt(new(big.Int).Div(v.Num(), v.Denom()))
}

func root(n ast.Node, v *big.Rat) (*big.Rat, error) {
	if v.Sign() < 0 {
		return nil, wrong(n, ErrUndefined, "the root of a negative number")
	}
	num, den := new(big.Int).Sqrt(v.Num()), new(big.Int).Sqrt(v.Denom())
	if r := new(big.Rat).SetFrac(num, den); new(big.Rat).Mul(r, r).Cmp(v) == 0 {
		return r, nil
	}
	f, _ := v.Float64()
	return rat(n, math.Sqrt(f), maxDigits)
}

// decimal writes a number: in full if it ends within 20 places.
func decimal(v *big.Rat) string {
	if places, exact := v.FloatPrec(); exact && places <= 20 {
		return v.FloatString(places)
	}
	return new(big.Float).SetPrec(256).SetRat(v).Text('g', maxDigits)
}
