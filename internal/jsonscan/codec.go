package jsonscan

import (
	"fmt"
	"strconv"
)

// Codec writes the members of an object, or reads them from JSON without white space. Whoever
// has one takes the members in their order: each is written, unless it is what goes without
// saying, or read, and what goes without saying where it isn't there. So one list of members
// says how both is done. The first thing that can't be read ends it.
type Codec struct {
	Writing bool
	B       []byte // what was written, or what is read
	I       int    // how far it was read
	Err     error

	Next []byte                // when reading: the key of the next member, nil behind the last
	From int                   // where that begins
	Skip func(key []byte) bool // of members that are passed over; may be nil
}

// Fail ends reading where it has come to.
func (c *Codec) Fail() {
	if c.Err == nil {
		c.Err = fmt.Errorf("it can't be read from byte %d on", c.I)
	}
}

// Peek returns the next byte that is read, 0 if there is none.
func (c *Codec) Peek() byte {
	if !c.Writing && c.Err == nil && c.I < len(c.B) {
		return c.B[c.I]
	}
	return 0
}

// Expect reads one byte.
func (c *Codec) Expect(b byte) {
	if c.Peek() != b {
		c.Fail()
		return
	}
	c.I++
}

// More reads a comma, and reports whether there was one.
func (c *Codec) More() bool {
	if c.Peek() != ',' {
		return false
	}
	c.I++
	return true
}

// Value reads a value and returns it as it stands.
func (c *Codec) Value() []byte {
	if c.Err == nil {
		if end := endOfValue(c.B, c.I, 1); end >= 0 {
			v := c.B[c.I:end]
			c.I = end
			return v
		}
	}
	c.Fail()
	return nil
}

// Key reads the key of a member, as it stands between its quotes, and the colon.
func (c *Codec) Key() []byte {
	k := c.Value()
	c.Expect(':')
	if c.Err != nil || k[0] != '"' {
		c.Fail()
		return nil
	}
	return k[1 : len(k)-1]
}

// Int reads a whole number.
func (c *Codec) Int() int64 {
	n, err := strconv.ParseInt(string(c.Value()), 10, 64)
	if err != nil {
		c.Fail()
	}
	return n
}

// Bool reads true or false.
func (c *Codec) Bool() bool {
	v := string(c.Value())
	if v != "true" && v != "false" {
		c.Fail()
	}
	return v == "true"
}

// Text reads a string.
func (c *Codec) Text() string {
	s, ok := Text(c.Value())
	if !ok {
		c.Fail()
	}
	return s
}

// Begin reads the beginning of an object.
func (c *Codec) Begin() {
	c.Expect('{')
	if c.Peek() != '}' {
		c.next()
	}
}

// Step goes to the next member, when the value of one has been read.
func (c *Codec) Step() {
	if c.Writing {
		return
	}
	if c.Next, c.From = nil, c.I+1; c.More() {
		c.next()
	}
}

func (c *Codec) next() {
	for {
		c.From = c.I
		c.Next = c.Key()
		if c.Next == nil || c.Skip == nil || !c.Skip(c.Next) {
			return
		}
		c.Value()
		if c.Next = nil; !c.More() {
			return
		}
	}
}

// Has reports whether there is a member with a key, of which the value is what comes next;
// when writing, there are those that are said. Behind a value that was read comes [Codec.Step].
func (c *Codec) Has(key string, said bool) bool {
	if !c.Writing {
		return c.Err == nil && string(c.Next) == key
	}
	if said {
		c.B = append(append(append(c.B, `,"`...), key...), `":`...)
	}
	return said
}

// Take takes a member by how its value is written and read. The other value goes without
// saying.
func Take[T comparable](c *Codec, key string, v *T, other T, write func([]byte, T) []byte, read func(*Codec) T) {
	switch has := c.Has(key, *v != other); {
	case !has:
		if !c.Writing { // then it is that, and may be another's
			*v = other
		}
	case c.Writing:
		c.B = write(c.B, *v)
	default:
		*v = read(c)
		c.Step()
	}
}

// Integer takes a member that is a whole number.
func Integer[N ~int | ~int64](c *Codec, key string, n *N, other N) {
	switch has := c.Has(key, *n != other); {
	case c.Writing && has:
		c.B = strconv.AppendInt(c.B, int64(*n), 10)
	case c.Writing:
	case has:
		*n = N(c.Int())
		c.Step()
	default:
		*n = other
	}
}

// List takes an array: it calls f with the number of each element, n of them when writing. It
// returns how many there are.
func (c *Codec) List(n int, f func(i int)) int {
	if c.Writing {
		c.B = append(c.B, '[')
		for i := range n {
			if i > 0 {
				c.B = append(c.B, ',')
			}
			f(i)
		}
		c.B = append(c.B, ']')
		return n
	}
	c.Expect('[')
	n = 0
	if c.Peek() != ']' {
		for more := c.Err == nil; more; more = c.More() {
			f(n)
			n++
		}
	}
	c.Expect(']')
	return n
}
