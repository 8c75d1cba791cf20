package core

// Pieces makes values, with room for several at a time: to make one at a time costs
// more than many of them do. Whoever keeps one keeps its neighbours, so there are few:
// at most Most, or 8.
type Pieces[T any] struct {
	Most int
	room []T
	size int // of the room that was made last
}

// Next returns a zero value that nobody has used.
func (p *Pieces[T]) Next() *T {
	if len(p.room) == 0 {
		most := p.Most
		if most == 0 {
			most = 8
		}
		p.size = min(p.size+1, most) // what is left over at the end is wasted
		p.room = make([]T, p.size)
	}
	v := &p.room[0]
	p.room = p.room[1:]
	return v
}
