// Package pgbouncer puts a private PgBouncer in front of a private server, for
// a test: transaction mode, a free port on the loopback address, gone with the
// test.
//
// PgBouncer refuses to run as root, so root's runs as the user that root's
// PostgreSQL runs as. install.sh finds the program or installs it.
package pgbouncer
