//go:build unix

package chaos

import (
	"io"
	"net"
	"sync"
)

// proxy passes on what clients and a server say, until the connections are cut.
type proxy struct {
	l      net.Listener
	server string

	mu    sync.Mutex
	conns map[net.Conn]bool // both ends
	done  bool
	wg    sync.WaitGroup
}

func newProxy(server string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{l: l, server: server, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.l.Addr().String() }

// add keeps a connection to be cut. It reports false when there are to be none.
func (p *proxy) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	s, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer s.Close()
	if !p.add(c) || !p.add(s) {
		return
	}
	var wg sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	wg.Go(func() { pass(s, c) })
	pass(c, s)
	wg.Wait()
	p.mu.Lock()
	delete(p.conns, c)
	delete(p.conns, s)
	p.mu.Unlock()
}

// cut resets all connections and returns how many clients lost theirs.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns) / 2
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the other end hears of a reset
		}
		c.Close()
	}
	return n
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	p.cut()
	p.wg.Wait()
}
