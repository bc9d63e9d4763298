package dispatcher_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/store"
)

// TestClaimsBeyondAnAnswer: jobs whose payloads are together too large for one
// answer, or for the time it may take, run all the same: fewer at a time.
func TestClaimsBeyondAnAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"too large": "raise exception using errcode = 'program_limit_exceeded', message = 'string buffer exceeds maximum allowed length'",
		"too late":  "perform pg_sleep(60)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.db.Exec(t, `
				create function too_much() returns trigger language plpgsql as $$
				begin
					if (select count(*) from before join after using (id) where after.attempt > before.attempt) > 2 then
						`+fault+`;
					end if;
					return null;
				end $$;
				create trigger too_much after update on lockstep.job referencing old table as before new table as after
					for each statement execute function too_much()`)
			d := r.dispatcher(dispatcher.Config{})
			d.SetCallTimeout(500 * time.Millisecond)
			dispatcher.Handle(d, "k", nop)
			ids := r.enqueue(slices.Repeat([]store.NewJob{{Kind: "k"}}, 5)...)
			r.start(d)
			for _, id := range ids {
				r.awaitType(dispatcher.Recorded, id)
				if state, attempt, note := r.fate(id); state != "completed" || attempt != 1 {
					t.Errorf("job %d: %s in attempt %d (%s)", id, state, attempt, note)
				}
			}
		})
	}
}

// TestReportsBeyondTheirTime: outcomes that are together too large to be sent in
// the time that a report may take are recorded all the same: fewer at a time.
func TestReportsBeyondTheirTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.db.Exec(t, `
		create function too_much() returns trigger language plpgsql as $$
		begin
			if (select count(*) from before) > 2 then
				perform pg_sleep(60);
			end if;
			return null;
		end $$;
		create trigger too_much after delete on lockstep.job referencing old table as before
			for each statement execute function too_much()`)
	d := r.dispatcher(dispatcher.Config{})
	d.SetCallTimeout(500 * time.Millisecond)
	release := make(chan struct{})
	dispatcher.Handle(d, "k", func(context.Context, dispatcher.Job[payload]) error {
		<-release
		return nil
	})
	ids := r.enqueue(slices.Repeat([]store.NewJob{{Kind: "k"}}, 10)...)
	r.start(d)
	for _, id := range ids {
		r.awaitType(dispatcher.Started, id)
	}
	close(release)
	for _, id := range ids {
		r.awaitType(dispatcher.Recorded, id)
	}
}
