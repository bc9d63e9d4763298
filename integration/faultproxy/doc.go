// Package faultproxy is a TCP proxy that breaks connections on demand, in the
// ways in which networks and servers do: slowly, silently, or at once.
//
// It knows nothing of what it forwards. Tests put it between a client and a
// private PostgreSQL server.
package faultproxy
