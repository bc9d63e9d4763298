package faultproxy

import (
	"context"
	"net"
	"sync"
	"time"
)

// link is one client's connection and ours to the server.
type link struct {
	client, server *net.TCPConn
	ctx            context.Context
	cancel         context.CancelFunc

	mu       sync.Mutex
	up, down frames
	prepared map[string]string // SQL by the statement's name
	losing   *order            // the answer on its way is not for the client
	answer   Answer
	refused  bool // the statement committed nothing
	held     []byte
	survivor *net.TCPConn // goes on although the other side is closed
}

// serve forwards one connection until either side or the proxy ends it.
func (p *Proxy) serve(client *net.TCPConn) {
	fault, _ := p.now()
	if fault.Refuse {
		reset(client)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ctx, "tcp", p.leadsTo())
	if err != nil {
		reset(client)
		return
	}
	l := &link{
		client: client, server: server.(*net.TCPConn),
		up: frames{startup: true}, prepared: map[string]string{},
	}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	defer p.forget(l)
	p.mu.Lock()
	p.open[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // Close may have cut the open links just before this one was
	}

	var down sync.WaitGroup
	down.Go(func() {
		p.pump(l, l.client, l.server, func(f Fault) bool { return f.DropDown }, func(data []byte) ([]byte, bool) {
			return l.said(p, data)
		})
	})
	p.pump(l, l.server, l.client, func(f Fault) bool { return f.DropUp }, func(data []byte) ([]byte, bool) {
		l.heard(p, data)
		return data, false
	})
	down.Wait()
}

func (p *Proxy) forget(l *link) {
	l.cut()
	l.mu.Lock()
	l.drop(p)
	l.mu.Unlock()
	p.mu.Lock()
	delete(p.open, l)
	p.mu.Unlock()
}

// pump copies one direction, and ends the link with it: a side that has closed
// is seen by the other, but only as far as the fault lets it. see says what of
// a piece of data goes on, and whether the link breaks there.
func (p *Proxy) pump(l *link, to, from *net.TCPConn, stopped func(Fault) bool, see func([]byte) ([]byte, bool)) {
	defer l.closed(from)
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buffer)
		if !l.survives(from) {
			if !p.pass(l.ctx, stopped) {
				return
			}
			data, lost := see(buffer[:n])
			if lost {
				l.reset()
				l.lose()
				return
			}
			if _, err := to.Write(data); err != nil && !l.survives(from) {
				return
			}
		}
		if readErr != nil {
			return
		}
	}
}

// pass waits until a piece of data may go on; false when its link has ended.
func (p *Proxy) pass(ctx context.Context, stopped func(Fault) bool) bool {
	for {
		fault, changed := p.now()
		var due <-chan time.Time
		switch {
		case stopped(fault):
		case fault.Delay == 0:
			return ctx.Err() == nil
		default:
			due = time.After(fault.Delay)
		}
		select {
		case <-due:
			return true
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// survives tells whether a side goes on alone.
func (l *link) survives(side *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.survivor == side
}

// closed ends the link as one of its sides does, unless the other is to stay.
func (l *link) closed(side *net.TCPConn) {
	if l.survives(nil) || l.survives(side) {
		l.cut()
	}
}

// halve closes one side, and lets the other believe that all is well.
func (l *link) halve(survivor, other *net.TCPConn) {
	l.mu.Lock()
	first := l.survivor == nil
	if first {
		l.survivor = survivor
	}
	l.mu.Unlock()
	if first {
		reset(other)
	}
}

func (l *link) cut() {
	l.cancel()
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) reset() {
	l.cancel()
	reset(l.client)
	reset(l.server)
}

// reset closes a connection so that its peer sees RST instead of an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
