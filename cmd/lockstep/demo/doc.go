// Package demo runs a busy queue for a while and then proves, on its own data,
// that no job was lost, that no two jobs of a lane overlapped, and that every
// lane ran in the order in which its producers committed.
//
// The proof does not ask the queue. Producers remember what they committed and
// under which transaction id; handlers write a row when they start and a row
// when they end, over connections of their own, each committed at once. The two
// are compared with the commit times that PostgreSQL itself keeps
// (track_commit_timestamp). Where a given server does not keep them, two
// transactions are compared if one's COMMIT was answered before the other's was
// sent.
//
// Everything happens in a schema of the demo's own, in a private server that is
// removed at the end or in a database it is given.
package demo
