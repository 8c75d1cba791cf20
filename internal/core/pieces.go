package core

// Pieces makes values, with room for several at a time: to make one at a time costs
// more than many of them do. Whoever keeps one keeps its neighbours, so there are few:
// at most Most, or 8.
type Pieces[T any] struct {
	Most int
	room []T
	size int // of the room that was made last
	made int // since Begin
	last int // needed from the Begin before to the last one
}

// Begin forgets what room is left: others are to be the neighbours of the values to
// come, of which as many are expected as there were since it was called last.
func (p *Pieces[T]) Begin() { *p = Pieces[T]{Most: p.Most, last: p.made - len(p.room)} }

// Next returns a zero value that nobody has used.
func (p *Pieces[T]) Next() *T {
	if len(p.room) == 0 {
		most := p.Most
		if most == 0 {
			most = 8
		}
		if p.size = min(p.size+1, most); p.made < p.last { // else what is left over at the end is wasted
			p.size = min(p.last-p.made, most)
		}
		p.room = make([]T, p.size)
		p.made += p.size
	}
	v := &p.room[0]
	p.room = p.room[1:]
	return v
}
