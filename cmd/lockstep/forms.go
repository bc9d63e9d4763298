package main

import "errors"

// timeForm is what a due date has to look like.
const timeForm = "a time before the year 10000 as in 2030-01-31T12:00:00Z (RFC 3339)"

// What is refused though SQL has a meaning for it: an empty text is a value that
// was lost on the way, and no attempt would mean the default.
var (
	errEmpty     = errors.New("is empty; leave it out if there is none")
	errNoAttempt = errors.New("is 0; it must be from 1 to 32767")
)
