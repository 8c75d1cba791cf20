// Package expr provides the values and the expressions of dialogues.
//
// An expression is small and total: it ends, it never fails, and it reads only what
// its [Env] shows it. What can't be computed is none; an ordering between values that
// have none is unknown, passes through not, and decides and and or as in Kleene's
// logic, so that not (amount > 10) is false while the amount is missing: a guard must
// not open by absence.
//
// A parsed [Expr] knows the paths that it reads and types itself before it runs.
package expr
