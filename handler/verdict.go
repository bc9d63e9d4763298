package handler

import (
	"fmt"
	"strconv"
	"strings"
)

// Verdict is what an answer of a target means for the job.
type Verdict string

// The verdicts.
const (
	Done   Verdict = "done"   // completed; the answer becomes the result
	Dead   Verdict = "dead"   // failed for good
	Retry  Verdict = "retry"  // failed; again after Retry-After or the queue's backoff
	Target Verdict = "target" // the target's fault: no attempt is used, its circuit may open
)

// answers are the verdicts by status, where nothing else is configured: what is
// not listed is Done from 200 to 299, and else Retry.
//
// A 409 that names a greater fencing token than the push had tells that the
// claim is lost, whatever is configured.
var answers = map[int]Verdict{
	400: Dead, 410: Dead, 413: Dead, 415: Dead, 422: Dead,
	401: Target, 403: Target, 404: Target, 405: Target, 421: Target,
}

// verdict is what a status means.
func (c PushConfig) verdict(status int) Verdict {
	for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "xx"} {
		if v, ok := c.Answers[key]; ok {
			return v
		}
	}
	if v, ok := answers[status]; ok {
		return v
	}
	if status >= 200 && status <= 299 {
		return Done
	}
	return Retry
}

// checkAnswers refuses what verdict would not understand.
func checkAnswers(table map[string]Verdict) error {
	for key, v := range table {
		n, err := strconv.Atoi(strings.Replace(key, "xx", "00", 1))
		switch {
		case err != nil || n < 200 || n > 599 || len(key) != 3:
			return fmt.Errorf("%q is not a status (200 to 599) and not a class (2xx to 5xx)", key)
		case v != Done && v != Dead && v != Retry && v != Target:
			return fmt.Errorf("%q means %q; it must be done, dead, retry or target", key, v)
		}
	}
	return nil
}
