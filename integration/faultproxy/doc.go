// Package faultproxy is a TCP proxy that breaks connections on demand, in the
// ways in which networks and servers do: slowly, silently, or at once.
//
// Tests put it between a client and a private PostgreSQL server. It knows
// nothing of what it forwards, but for [Proxy.LoseAnswer], which looks at what
// is said to break a connection between a commit and its answer.
package faultproxy
