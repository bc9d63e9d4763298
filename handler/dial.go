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
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

func checkAddress(allow []netip.Prefix, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	for _, prefix := range allow {
		if prefix.Contains(ip) {
			return nil
		}
	}
	return &forbiddenError{ip}
}
