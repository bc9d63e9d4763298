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
}

// serve forwards one connection until either side or the proxy ends it.
func (p *Proxy) serve(client *net.TCPConn) {
	if fault, _ := p.now(); fault.Refuse {
		reset(client)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn)}
	l.ctx, l.cancel = context.WithCancel(p.ctx)
	defer p.forget(l)
	p.mu.Lock()
	p.open[l] = struct{}{}
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		return // Close may have cut the open links just before this one was
	}

	var down sync.WaitGroup
	down.Go(func() { p.pump(l, l.client, l.server, func(f Fault) bool { return f.DropDown }) })
	p.pump(l, l.server, l.client, func(f Fault) bool { return f.DropUp })
	down.Wait()
}

func (p *Proxy) forget(l *link) {
	l.cut()
	p.mu.Lock()
	delete(p.open, l)
	p.mu.Unlock()
}

// pump copies one direction, and ends the link with it: a side that has closed
// is seen by the other, but only as far as the fault lets it.
func (p *Proxy) pump(l *link, to, from *net.TCPConn, stopped func(Fault) bool) {
	defer l.cut()
	buffer := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buffer)
		if !p.pass(l.ctx, stopped) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil || readErr != nil {
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
