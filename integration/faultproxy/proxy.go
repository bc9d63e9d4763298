package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Fault is what a Proxy does to its connections, beginning at once, also with
// those that are open. The zero value forwards everything.
type Fault struct {
	// Refuse resets every new connection.
	Refuse bool
	// DropUp stops what clients send, DropDown what the server sends, without
	// a sign to either. Both together are a black hole: connections open and
	// stay open, and nothing comes out. What was stopped is delivered late,
	// when the fault is over, as by a network that repeats lost packets.
	DropUp, DropDown bool
	// Delay is how long each piece of data is held up, in each direction.
	Delay time.Duration
}

// BlackHole swallows everything in both directions.
var BlackHole = Fault{DropUp: true, DropDown: true}

// Proxy forwards TCP connections to one address. Its methods may be called
// from any goroutine.
type Proxy struct {
	listener net.Listener
	ctx      context.Context // ends with the proxy
	stop     context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex
	target  string
	fault   Fault
	changed chan struct{} // closed when fault changes
	open    map[*link]struct{}
	orders  []*order // answers to be lost
}

// Start listens on a free loopback port and forwards to target ("host:port").
func Start(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	p := &Proxy{
		target: target, listener: listener,
		changed: make(chan struct{}), open: map[*link]struct{}{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p, nil
}

// Port is the one to connect to on 127.0.0.1.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Set makes fault the rule from now on; Fault{} ends every fault.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	close(p.changed)
	p.changed = make(chan struct{})
}

// LeadTo has new connections forwarded to another address, as where a name or a
// virtual address moves to another machine. Those that are open stay.
func (p *Proxy) LeadTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *Proxy) leadsTo() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Open is how many connections are forwarded.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Cut ends the open connections in order (FIN), as a server that stops does.
func (p *Proxy) Cut() { p.each((*link).cut) }

// Reset breaks the open connections (RST), as a machine that restarted does.
func (p *Proxy) Reset() { p.each((*link).reset) }

// Strand breaks the open connections for the server, and leaves the clients'
// sides open and silent, as where a server's machine has vanished.
func (p *Proxy) Strand() { p.each(func(l *link) { l.halve(l.client, l.server) }) }

// Abandon breaks the open connections for the clients, and leaves the server's
// sides open and silent, as where a client's machine has vanished: its sessions
// go on, with all that they hold, until Bury.
func (p *Proxy) Abandon() { p.each(func(l *link) { l.halve(l.server, l.client) }) }

// Bury ends what Strand and Abandon have left open.
func (p *Proxy) Bury() {
	p.each(func(l *link) {
		if !l.survives(nil) {
			l.cut()
		}
	})
}

// Close ends the proxy and its connections, and waits for its goroutines.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	p.Cut()
	p.work.Wait()
	return err
}

func (p *Proxy) each(end func(*link)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		end(l)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// now returns the current fault, and what is closed when it changes.
func (p *Proxy) now() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}
