// Package postgres starts private PostgreSQL servers: one folder, one free
// port on the loopback address, ready within a second, gone without a trace.
// The demo and every test use it; an installed or running server is never
// touched, only the server binaries are shared.
//
// A server is meant for data that may be lost. It trusts every connection from
// this machine, and unless [Config].Durable is set it does not wait for the
// disk: its commits survive a kill of all its processes, not of the machine.
//
// [Server.Standby] makes a second server that follows the first, for tests of
// what a failover does.
//
// PostgreSQL refuses to run as root, so root's servers run as the user postgres
// or, where there is none, nobody. On Linux a server ends with the process that
// started it, however that ends; elsewhere it outlives a parent that is killed.
package postgres
