// Package clockstep steps the wall clock that one process sees, as an
// administrator or a time server steps a machine's: what time.Now tells jumps,
// timers and durations go on as before. Nobody else sees it.
//
// On Linux and amd64 it redirects the function with which the kernel tells
// programs the time (the vDSO's clock_gettime), so that code of any package is
// fooled. A clock that is handed in would reach only those who ask it. On other
// systems Step returns ErrUnsupported.
//
// It is for test processes alone.
package clockstep
