package faultproxy

import (
	"encoding/binary"
)

// largest is the longest message that is followed; a connection with a longer
// one is forwarded without looking at it from there on.
const largest = 64 << 20

// frames cuts one direction of a connection into PostgreSQL's messages: a type
// byte, a length that counts itself, a body.
type frames struct {
	// startup: the first message has no type byte, as clients begin.
	startup bool
	blind   bool // not PostgreSQL's protocol, or no longer known where a message begins
	part    []byte
}

// feed adds what was read, and shows each message that is complete with it.
// The body is only valid during the call.
func (f *frames) feed(data []byte, each func(kind byte, body []byte)) {
	if f.blind {
		return
	}
	f.part = append(f.part, data...)
	rest := f.part
	for {
		kind, body, length, ok := f.first(rest)
		if !ok {
			break
		}
		each(kind, body)
		rest = rest[length:]
	}
	f.part = append(f.part[:0], rest...)
}

// first is the message that data begins with; not ok until it is complete.
func (f *frames) first(data []byte) (kind byte, body []byte, length int, ok bool) {
	header := 5
	if f.startup {
		header = 4
	}
	if f.blind || len(data) < header {
		return 0, nil, 0, false
	}
	size := int(binary.BigEndian.Uint32(data[header-4:]))
	length = header - 4 + size
	if size < 4 || size > largest || f.startup && size > 10000 {
		f.blind = true
		return 0, nil, 0, false
	}
	if len(data) < length {
		return 0, nil, 0, false
	}
	body = data[header:length]
	if f.startup {
		f.startup = false
		f.blind = len(body) < 4 || binary.BigEndian.Uint16(body) != 3 // no session, or an encrypted one
		return 0, body, length, !f.blind
	}
	return data[0], body, length, true
}
