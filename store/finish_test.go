package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/store"
)

// Every outcome of an attempt, and that a repeated report is known for one.
func TestFinishOutcomes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for outcome, want := range map[store.Outcome]store.State{
		store.Completed: store.StateCompleted,
		store.Failed:    store.StateReady, // after no delay
		store.Dead:      store.StateDead,
		store.Snoozed:   store.StateReady,
		store.Released:  store.StateReady,
		store.Cancelled: store.StateCancelled,
	} {
		r.db.Exec(t, "delete from lockstep.job")
		id := r.put("", 1)[0]
		job := r.take()
		if state := r.report(job, outcome); state != store.FinishDone {
			t.Errorf("%s: %s", outcome, state)
		}
		r.expectState(id, want)
		refunded := outcome == store.Snoozed || outcome == store.Released
		if used := r.status(id).Attempt; used == 0 != refunded {
			t.Errorf("%s used up %d attempts", outcome, used)
		}
		if state := r.report(job, outcome); state != store.FinishAlready {
			t.Errorf("%s again: %s", outcome, state)
		}
	}
}

func TestFinishNotMine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.put("a", 1)[0]
	job := r.take()
	thief := *r
	thief.worker = store.NewWorkerID()
	if state := thief.report(job, store.Completed); state != store.FinishLost {
		t.Errorf("another worker's report: %s", state)
	}
	release := r.hold(id)
	if state := r.report(job, store.Completed); state != store.FinishBusy {
		t.Errorf("while the row is locked: %s", state)
	}
	if state := r.extend(job); state != store.ExtendBusy {
		t.Errorf("extend while the row is locked: %s", state)
	}
	release()
	if state := r.extend(job); state != store.Extended {
		t.Errorf("extend: %s", state)
	}
	if state := thief.extend(job); state != store.ExtendLost {
		t.Errorf("another worker's extend: %s", state)
	}
	r.db.Exec(t, "update lockstep.job set lease_until = clock_timestamp()")
	again := r.take()
	if again.Fence <= job.Fence || again.Attempt != 2 {
		t.Errorf("claimed again with fence %d after %d, attempt %d", again.Fence, job.Fence, again.Attempt)
	}
	if state := r.report(job, store.Completed); state != store.FinishLost {
		t.Errorf("a late report: %s", state)
	}
}

func (r *rig) extend(job store.Job) store.ExtendState {
	r.t.Helper()
	states, err := r.Extend(r.t.Context(), r.worker, []store.Claim{claim(job)}, lease)
	if err != nil {
		r.t.Fatal(err)
	}
	return states[job.ID]
}

// While another transaction is at its lane, a job's outcome is recorded and the
// lane moves on a little later, by a second report or by Due.
func TestFinishPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.put("a", 3)
	for i, moveOn := range []func(store.Job){
		func(job store.Job) {
			if state := r.report(job, store.Completed); state != store.FinishDone {
				t.Errorf("the second report: %s", state)
			}
		},
		func(store.Job) {
			if moved, err := r.Due(t.Context(), 10); err != nil || moved.Retired != 1 {
				t.Errorf("due: %+v, %v", moved, err)
			}
		},
	} {
		job := r.take()
		release := r.hold(ids[i+1])
		if state := r.report(job, store.Completed); state != store.FinishPending {
			t.Errorf("with the next job locked: %s", state)
		}
		r.expectState(ids[i], store.StateCompleted)
		r.expectState(ids[i+1], store.StateWaiting)
		release()
		moveOn(job)
		r.expectState(ids[i+1], store.StateReady)
	}
}

// Asked to, a finish hands the lane's next job over, claimed.
func TestFinishHandsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := r.put("a", 3)
	job := r.take()
	next := r.finish(store.FinishArgs{Take: []string{"k"}}, store.Finish{Claim: claim(job), Outcome: store.Completed}).Next
	if next == nil || next.ID != ids[1] || next.Attempt != 1 || next.Fence <= job.Fence {
		t.Fatalf("handed over: %+v, want job %d", next, ids[1])
	}
	r.expectState(ids[1], store.StateRunning)
	r.put("", 1) // it has waited: no hand-over past it
	if last := r.finish(store.FinishArgs{Take: []string{"k"}}, store.Finish{Claim: claim(*next), Outcome: store.Completed}).Next; last != nil {
		t.Errorf("job %d was handed over past one that is ready", last.ID)
	}
	r.expectState(ids[2], store.StateReady)
}

// C53: what a report says never makes it fail.
func TestC53FinishKeepsWhatItCan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, test := range []struct {
		report store.Finish
		result string
		error  string
	}{
		{store.Finish{Outcome: store.Completed, Result: json.RawMessage(`{"a": 1}`)}, `{"a": 1}`, ""},
		{store.Finish{Outcome: store.Completed, Result: json.RawMessage(`"\u0000"`)}, `{"lockstep_result_dropped": "holds a zero character (\\u0000) at byte 1, which PostgreSQL can't store"}`, ""},
		{store.Finish{Outcome: store.Completed, Result: json.RawMessage(`{`)}, `{"lockstep_result_dropped": "is not valid JSON: unexpected end of JSON input"}`, ""},
		{store.Finish{Outcome: store.Completed, Result: json.RawMessage(`"` + strings.Repeat("x", 65536) + `"`)}, `{"lockstep_result_dropped": "65538 bytes, over the limit of 65536"}`, ""},
		{store.Finish{Outcome: store.Dead, Error: "a\x00b\xff\xfec"}, "", "a\uFFFDb\uFFFDc"},
		{store.Finish{Outcome: store.Dead, Error: "x" + strings.Repeat("é", 40_000)}, "", "x" + strings.Repeat("é", 32_767)},
	} {
		id := r.put("", 1)[0]
		test.report.Claim = claim(r.take())
		if state := r.finish(store.FinishArgs{}, test.report).State; state != store.FinishDone {
			t.Errorf("%s: %s", test.report.Outcome, state)
		}
		if status := r.status(id); string(status.Result) != test.result || status.Error != test.error {
			t.Errorf("kept %.100q and %.100q, want %.100q and %.100q", status.Result, status.Error, test.result, test.error)
		}
	}
}

// A delay is kept within 0 and 366 days.
func TestFinishClampsDelays(t *testing.T) {
	t.Parallel()
	for given, want := range map[time.Duration]time.Duration{-time.Hour: 0, time.Hour: time.Hour, 1<<63 - 1: 366 * 24 * time.Hour} {
		r := newRig(t)
		id := r.put("", 1)[0]
		job := r.take()
		r.finish(store.FinishArgs{}, store.Finish{Claim: claim(job), Outcome: store.Snoozed, Delay: &given})
		if wait := r.status(id).RunAt.Sub(job.ClaimedAt); wait < want || wait > want+time.Minute {
			t.Errorf("a snooze of %v takes %v, want %v", given, wait, want)
		}
	}
}
