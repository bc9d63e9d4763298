// Package testdb gives every test a PostgreSQL database of its own.
//
// A test process has one private server, started with the first database and
// ended by [Main]. A database is a copy of one that was migrated once, which
// takes some tens of milliseconds, and is dropped when its test ends, whoever is
// still connected. So tests share nothing and can all be parallel.
//
//	func TestMain(m *testing.M) { os.Exit(testdb.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		db := testdb.New(t)
//		db.Exec(t, "select lockstep.enqueue('kind')")
//	}
package testdb
