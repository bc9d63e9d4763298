// Package languages tries the workers of the documentation that are not in Go:
// in plain psql, and in Node.js with nothing but a PostgreSQL driver.
package languages
