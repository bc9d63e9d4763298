// Package workerproc runs parts of a test as processes of their own, which can
// be stopped and killed as a real worker can.
//
// A process is the test's own binary, started again with a role to play
// instead of tests to run:
//
//	func TestMain(m *testing.M) {
//		workerproc.Register("worker", func(ctx context.Context, args []string) error {
//			… // a dispatcher, until ctx ends
//		})
//		os.Exit(workerproc.Main(m))
//	}
//
//	func TestKilled(t *testing.T) {
//		worker := workerproc.Start(t, "worker", db.URL)
//		worker.Await(t, "ready") // a line that the role prints
//		worker.Kill(t)
//	}
//
// Whatever becomes of the test, its processes end with it.
package workerproc
