// Package roles has tests of who may do what: each cell of the table in
// docs/roles.md, which functions run with whose rights, and that a tenant reaches
// nothing of another's.
package roles
