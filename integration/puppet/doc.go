// Package puppet is a worker process for tests: a real dispatcher whose
// handlers do what the payloads of their jobs say, and which keeps a journal of
// it in the database.
//
// The journal is written over connections of its own, a row per commit, and
// every row is stamped by the database's clock. It is the handlers' word on what
// happened, to be compared with what Lockstep has on record.
//
//	func TestMain(m *testing.M) {
//		puppet.Register()
//		os.Exit(workerproc.Main(m))
//	}
//
//	func TestSomething(t *testing.T) {
//		scene := puppet.NewScene(t)
//		x := scene.Start(t, puppet.Config{Name: "x", Kinds: []string{"k"}})
//		job := scene.Enqueue(t, puppet.Job{Kind: "k", Script: puppet.Script{"x": puppet.Hold()}})
//		scene.AwaitStart(t, "x", job)
//		x.Kill(t)
//	}
package puppet
