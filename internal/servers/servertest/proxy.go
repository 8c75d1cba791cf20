package servertest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, passes on what they say, and breaks
// their connections when it is told to. It may be used by several goroutines.
type Proxy struct {
	l      net.Listener
	server string
	tap    func() Tap

	mu    sync.Mutex
	links map[*link]bool
	done  bool
	wg    sync.WaitGroup
}

// link is a connection of a client and the one to the server that belongs to it.
type link struct{ client, server net.Conn }

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// Tap listens to one connection through a [Proxy] and may interfere. Each of its
// functions is called by one goroutine, and they by two. Nil functions let
// everything pass. The bytes are valid during the call, and are what happened to
// come together: a message may be in parts.
type Tap struct {
	Request func(b []byte)         // before the server gets it
	Answer  func(b []byte) Verdict // before the client gets it
}

// Verdict says what becomes of an answer.
type Verdict int

const (
	Pass Verdict = iota
	Drop         // the client does not get it
	Cut          // the client does not get it, and the connection ends
)

// NewProxy stands before the server at an address, until the test ends. Tap is
// called for each connection; nil for none.
func NewProxy(t testing.TB, server string, tap func() Tap) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if tap == nil {
		tap = func() Tap { return Tap{} }
	}
	p := &Proxy{l: l, server: server, tap: tap, links: map[*link]bool{}}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(p.close)
	return p
}

// Addr returns the host and port where clients find the proxy.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Refuse has the proxy take no connections any more. Those that are stay.
func (p *Proxy) Refuse() { p.l.Close() }

// Cut ends all connections and returns how many clients lost theirs.
func (p *Proxy) Cut() int { return p.cut(func(*link) {}) }

// Reset does as [Proxy.Cut], and both ends hear of a reset.
func (p *Proxy) Reset() int {
	return p.cut(func(l *link) {
		for _, c := range []net.Conn{l.client, l.server} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
	})
}

func (p *Proxy) cut(before func(*link)) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		before(l)
		l.close()
	}
	clear(p.links)
	return n
}

func (p *Proxy) close() {
	p.Refuse()
	p.mu.Lock()
	p.done = true
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}

// add keeps a connection to be cut. It reports false when there are to be none.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.done {
		p.links[l] = true
	}
	return !p.done
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close() // where there is no server
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	l := &link{client, server}
	if !p.add(l) {
		server.Close()
		return
	}
	defer p.remove(l)
	tap := p.tap()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.close()
	wg.Go(func() {
		defer l.close()
		pass(client, func(b []byte) bool {
			if tap.Request != nil {
				tap.Request(b)
			}
			// What the server said before it went away is still to be passed on.
			_, _ = server.Write(b)
			return true
		})
	})
	pass(server, func(b []byte) bool {
		v := Pass
		if tap.Answer != nil {
			v = tap.Answer(b)
		}
		if v == Pass {
			_, err := client.Write(b)
			return err == nil
		}
		return v == Drop
	})
}

// pass hands on what comes from a connection until it ends or to has enough.
func pass(from net.Conn, to func(b []byte) bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 && !to(b[:n]) || err != nil {
			return
		}
	}
}
