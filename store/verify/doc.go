// Package verify proves the promises of Lockstep on the data of a database in
// use: it reads what the queue recorded, and reports what should not be there.
//
//	report, err := verify.Run(ctx, pool, verify.Config{})
//	if err == nil && !report.Clean() {
//		for _, f := range report.Findings {
//			log.Print(f)
//		}
//	}
//
// It looks at three things. History, in the order of every lane: did jobs run
// in commit order, one at a time, with fences that grow? Identity: is every
// job in one place only? And the present: is there work that nobody will ever
// do? docs/verify.md tells what each finding means and what to do about it.
//
// It only reads, in read-only transactions that see one snapshot each, and it
// may run on a standby. It holds a few kilobytes whatever there is to read: rows
// stream, and the server sorts them in its temporary files.
package verify
