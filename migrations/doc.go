// Package migrations brings Lockstep's schema into a database and tells what
// state it is in.
//
// The schema is made by the numbered files in sql/, applied in order. All that
// are pending go into one transaction, so a database holds a version or the
// one before, never half of one. Any number of processes may call [Up] at once:
// one applies, the others wait for it and go on. A lock that running work holds
// is waited for briefly and again a little later, so that nothing ever queues up
// behind a waiting migration.
//
// A file that begins with the line "-- replaceable" holds functions, triggers
// and views, each made with `create or replace`; one that does not holds tables.
// An upgrade applies the new files, and again the replaceable ones whose text
// has changed, in the order of their numbers. So each function stands in one
// place. A change to a replaceable file always comes with a new number.
//
// In the files, @schema@ stands for the schema's name as a quoted identifier and
// @schema_literal@ for the name as a quoted string; everything in them is
// qualified. An identifier inside a string is written in dollar quotes, as in
// nextval($name$@schema@.turn$name$): any other quote may be part of the name.
package migrations
