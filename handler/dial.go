package handler

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// loopback is where targets may be unless others are allowed.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// dialTimeout bounds the way to a target.
const dialTimeout = 5 * time.Second

// idleTimeout is how long a connection is kept that nothing is sent on. It is
// less than servers keep theirs (often 2 or 5 s): a push that is sent as the app
// closes its end may have been seen, and so is a failed attempt.
const idleTimeout = 1500 * time.Millisecond

// forbiddenError is an address that no one allowed.
type forbiddenError struct{ address netip.Addr }

func (e *forbiddenError) Error() string {
	return fmt.Sprintf("the target's address %s is not in the list of allowed ones", e.address)
}

// newTransport opens connections to allowed addresses only. The address is
// looked at as the socket connects, after the name was resolved, so that a name
// that changes its mind gains nothing.
func newTransport(c PushConfig) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return checkAddress(c.Allow, address)
	}}
	return &http.Transport{
		Proxy:                  nil, // a proxy would connect for us, to anywhere
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxConnsPerHost:        c.Parallel,
		MaxIdleConnsPerHost:    c.Parallel,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

func checkAddress(allow []netip.Prefix, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
	for _, prefix := range allow {
		if prefix.Contains(ip) {
			return nil
		}
	}
	return &forbiddenError{ip}
}
