// Package languages tries what the documentation says to those who do not write
// Go: the workers in plain psql, and in Node.js with nothing but a PostgreSQL
// driver, and every example of the SQL reference.
package languages
