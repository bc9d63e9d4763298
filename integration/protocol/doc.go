// Package protocol tests the SQL of the lane protocol with several real
// sessions at once, without a dispatcher.
//
// The rules that stand in the SQL because their opposite was seen to go wrong
// each have a test, TestSeen_…: it plays one scene on the schema as it is, where
// it must end well, and on builds of it with that one rule taken out, where it
// must go wrong in the way that was seen.
package protocol
