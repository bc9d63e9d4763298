// Package listener keeps one LISTEN connection for one channel alive, and
// tells at any moment how far it can be trusted.
//
// A notification is only ever a hint. PostgreSQL keeps none for a session that
// is away, so the order of things on every connection is: LISTEN, then look
// for a backlog (Config.OnCatchUp), then wait. What was committed before the
// LISTEN is found by the look, what is committed after it is notified, and
// nothing falls between.
//
// # Is anybody there?
//
// A socket can be dead without a sound, and a transaction-mode pooler accepts
// LISTEN and never delivers. So the listener notifies itself: once as soon as
// LISTEN stands, and again whenever nothing was heard for Config.ProbeInterval.
// The answers decide the Mode:
//
//	Connecting  no verified connection yet, or the last one was lost
//	Connected   LISTEN stands and has been seen to deliver
//	Stale       a connection that used to deliver fell silent and was closed
//	PollOnly    LISTEN was refused, or never delivered anything: rely on polling
//
// From any of them the listener works its way back to Connected by itself.
//
// # When it reconnects
//
// A connection is verified once the first probe came back on it. A verified
// connection that is lost is replaced at once; ten such losses within
// Config.HealthyAfter are forgiven, so that an administrator who ends the
// backend again and again costs milliseconds each time, and a server that
// accepts and drops us in a loop is not hammered. Everything else (connection
// refused, LISTEN refused, first probe unanswered, the eleventh loss) waits: 100
// ms ± 50 %, doubling, never above Config.MaxBackoff. The doubling starts anew
// only after a connection has stayed verified for Config.HealthyAfter.
//
// # Connections
//
// One, opened by Config.Connect and never inside a transaction: an idle LISTEN
// session in a transaction would hold back the server's whole notification
// queue. Behind a pooler, give the listener a direct address of its own.
package listener
