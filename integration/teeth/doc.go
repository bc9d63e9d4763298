// Package teeth shows that the tests can fail: it takes rules out of the SQL and
// the Go code, one at a time, and looks which tests turn red.
//
// Each mutant is a build of this module with a few edits, made by go test's
// overlay, so no file is touched. The tests it must fail are those of behaviour:
// random runs, the oracle of commit order, the comparison with a model. A mutant
// that they do not catch fails here, and so does one whose edits no longer fit
// the files. All mutants together take minutes:
//
//	make teeth
//
// Without -teeth the edits and the tests' names are only checked to fit.
package teeth
