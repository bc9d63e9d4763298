package faultproxy

import (
	"bytes"
	"strings"
)

// Answer is what a server said to a statement, and its client never heard.
type Answer struct {
	// SQL is the statement, as it was prepared or sent.
	SQL string
	// Tag is what the server called the command when it was done: "COMMIT",
	// "SELECT 1".
	Tag string
}

// LoseAnswer loses the answer to the next statement that match accepts, on any
// connection: the server carries it out and commits it, and then the connection
// breaks (RST). What commits nothing does not count: a statement that fails or
// that leaves a transaction open, a COMMIT that turns out to be a rollback. It is
// answered as ever, and the next one is waited for.
//
// The channel gets one value, when the connection has been broken. Until then
// forget takes the order back, and tells whether that was in time; if it was
// not, the value is there or on its way.
//
// This reads PostgreSQL's protocol, version 3, unencrypted. Other connections
// pass untouched.
func (p *Proxy) LoseAnswer(match func(sql string) bool) (lost <-chan Answer, forget func() bool) {
	o := &order{match: match, lost: make(chan Answer, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, o)
	return o.lost, func() bool { return p.take(func(other *order) bool { return other == o }) != nil }
}

// order is an answer that is to be lost.
type order struct {
	match func(sql string) bool
	lost  chan Answer // has room for one
}

// take removes the first order that fits from the list.
func (p *Proxy) take(fits func(*order) bool) *order {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.orders {
		if fits(o) {
			p.orders = append(p.orders[:i:i], p.orders[i+1:]...)
			return o
		}
	}
	return nil
}

func (p *Proxy) putBack(o *order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, o)
}

// heard follows what the client says. When it asks for something whose answer
// is to be lost, the link keeps the server's words to itself from now on.
func (l *link) heard(p *Proxy, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up.feed(data, func(kind byte, body []byte) {
		sql, executed := l.statement(kind, body)
		if !executed || l.losing != nil {
			return
		}
		if o := p.take(func(o *order) bool { return o.match(sql) }); o != nil {
			l.losing, l.answer, l.refused = o, Answer{SQL: sql}, false
		}
	})
}

// statement is what a message of the client has the server carry out. Bind
// stands for the Execute that follows it.
func (l *link) statement(kind byte, body []byte) (sql string, executed bool) {
	first, rest, _ := strings.Cut(string(body[:min(len(body), 1<<20)]), "\x00")
	second, _, _ := strings.Cut(rest, "\x00")
	switch kind {
	case 'Q':
		return first, true
	case 'P':
		l.prepared[first] = second
	case 'B':
		sql, executed = l.prepared[second]
	}
	return sql, executed
}

// said follows what the server says. It returns what the client may hear of it
// now, and whether that was an answer that is complete, and lost.
func (l *link) said(p *Proxy, data []byte) (pass []byte, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.losing == nil {
		l.down.feed(data, func(byte, []byte) {})
		return data, false
	}
	l.held = append(l.held, data...)
	ready := false
	l.down.feed(data, func(kind byte, body []byte) {
		switch kind {
		case 'C':
			l.answer.Tag = string(bytes.TrimRight(body, "\x00"))
			l.refused = l.refused || l.answer.Tag == "ROLLBACK"
		case 'E':
			l.refused = true
		case 'Z':
			ready = true
			l.refused = l.refused || string(body) != "I"
		}
	})
	if !ready || !l.refused {
		return nil, ready
	}
	pass, l.held = l.held, nil
	l.drop(p)
	return pass, false
}

// lose fulfils the order.
func (l *link) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losing.lost <- l.answer
	l.losing = nil
}

// drop leaves the order, if there is one, to another link. The caller holds the
// lock.
func (l *link) drop(p *Proxy) {
	if l.losing != nil {
		p.putBack(l.losing)
		l.losing = nil
	}
}
