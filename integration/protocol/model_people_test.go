package protocol_test

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstep-pg/lockstep/store"
)

// some is the id of a random job that a condition holds for; 0: there is none.
func (a *actor) some(from string) (id int64, err error) {
	err = a.conn.QueryRow(a.ctx, "select id from lockstep."+from+" order by random() limit 1").Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

// meddle is what people and other programs do meanwhile.
func (a *actor) meddle() error {
	switch n := a.rand.IntN(100); {
	case n < 8:
		return a.pausing()
	case n < 16:
		return a.steer()
	case n < 35:
		return a.onSome("job where hold <> 'x'", "cancel")
	case n < 43:
		return a.onSome("dead_job", "replay")
	case n < 48:
		return a.replayLane()
	case n < 50:
		return a.deleteLetter()
	case n < 60:
		return a.onSome("dead_job", "discard")
	case n < 68:
		return a.onLane("unblock_lane")
	case n < 76:
		return a.onLane("skip_head")
	case n < 80:
		return a.policy()
	case n < 92:
		return a.lockRow()
	default:
		return a.deleteHead()
	}
}

// allowed drops the errors that say that somebody else was faster.
func (a *actor) allowed(what string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	switch code(err) {
	case "", "LS005", "LS006":
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (a *actor) onSome(from, function string) error {
	id, err := a.some(from)
	if id == 0 || err != nil {
		return err
	}
	var answer string
	err = a.conn.QueryRow(a.ctx, "select lockstep."+function+"($1)", id).Scan(&answer)
	if err == nil {
		a.count(function + ": " + answer)
	}
	switch answer {
	case "replayed":
		a.mark(id, func(f *fact) { f.replayed = true })
	case "discarded":
		a.mark(id, func(f *fact) { f.discarded = true })
	}
	return a.allowed(function, err)
}

func (a *actor) onLane(function string) error {
	var done string
	err := a.conn.QueryRow(a.ctx, `select lockstep.`+function+`(l.queue, l.tenant, l.ordering_key)
		from (select * from lockstep.lanes where head_state in ('dead', 'ready') order by random() limit 1) l`).Scan(&done)
	if err == nil {
		a.count(function + ": " + done)
	}
	return a.allowed(function, err)
}

// replayLane starts a replay of what is dead in the lanes of a key, which whoever
// calls due() then drives, or cancels one.
func (a *actor) replayLane() error {
	if a.percent(20) {
		id, err := a.some("replay_run")
		if id != 0 && err == nil {
			_, err = store.New(a.conn).CancelReplay(a.ctx, id)
		}
		return err
	}
	key := strconv.Itoa(a.rand.IntN(6))
	_, err := store.New(a.conn).StartReplay(a.ctx, store.NewReplay{Rate: 200, Filter: store.DeadFilter{OrderingKey: key}})
	if err != nil {
		return fmt.Errorf("start_replay: %w", err)
	}
	a.count("replays started")
	rows, err := a.conn.Query(a.ctx, "select id from lockstep.dead_job where ordering_key = $1", key)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, id := range ids {
		a.mark(id, func(f *fact) { f.replayed = true }) // as far as is known: see replayedAnew
	}
	return err
}

// deleteLetter deletes the dead letter of a blocked head by hand, which must
// leave the head to all that people can do about it.
func (a *actor) deleteLetter() error {
	tag, err := a.conn.Exec(a.ctx, `delete from lockstep.dead_job where id = (
		select d.id from lockstep.dead_job d where d.blocking and exists (select from lockstep.job j where j.id = d.id and j.hold = 'x')
		order by random() limit 1 for update skip locked)`)
	if tag.RowsAffected() > 0 {
		a.count("letters deleted by hand")
	}
	return err
}

// policy has dead heads block their lanes, or not, for a while.
func (a *actor) policy() error {
	on := "block"
	if a.percent(30) {
		on = "skip"
	}
	_, err := a.conn.Exec(a.ctx, "select lockstep.set_queue('blocks', on_dead => $1)", on)
	return a.allowed("set_queue", err)
}

// lockRow holds a job's row for some milliseconds, as somebody's transaction.
func (a *actor) lockRow() error {
	return pgx.BeginFunc(a.ctx, a.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(a.ctx, "select from lockstep.job where id = (select id from lockstep.job order by random() limit 1) for update skip locked")
		if err == nil {
			_, err = tx.Exec(a.ctx, "select pg_sleep(0.01)")
		}
		return err
	})
}

// deleteHead deletes a lane's head by hand.
func (a *actor) deleteHead() error {
	var id int64
	before := time.Now()
	err := a.conn.QueryRow(a.ctx, `delete from lockstep.job where id = (
		select id from lockstep.job where stage = 'r' and ordering_key is not null and hold <> 'x' order by random() limit 1 for update skip locked)
		returning id`).Scan(&id)
	if err == nil {
		a.count("deleted by hand")
		a.mark(id, func(f *fact) { f.deleted = before })
	}
	return a.allowed("delete", err)
}

// keep is what any dispatcher does now and then.
func (a *actor) keep() error {
	db := store.New(a.conn)
	if _, err := db.Due(a.ctx, 50); err != nil {
		return fmt.Errorf("due: %w", err)
	}
	if a.percent(30) {
		if _, err := db.Sweep(a.ctx, 1000, "", nil); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	if a.percent(5) {
		if _, err := db.Upkeep(a.ctx); err != nil {
			return fmt.Errorf("upkeep: %w", err)
		}
	}
	return nil
}

// pausing pauses something, or resumes it; the run's jobs have the tenants ""
// and "t".
func (a *actor) pausing() error {
	scope := store.Scope{Queue: a.queue()}
	switch a.rand.IntN(4) {
	case 0:
		scope.Kind = "k"
	case 1:
		scope.OrderingKey = strconv.Itoa(a.rand.IntN(6))
		scope.Tenant = tenants[a.rand.IntN(len(tenants))]
	case 2:
		scope = store.Scope{Tenant: "t"}
	}
	db := store.New(a.conn)
	if a.percent(40) {
		fresh, err := db.Pause(a.ctx, scope, store.PauseNote{})
		a.count(fmt.Sprint("pause: ", fresh))
		return err
	}
	resumed, err := db.Resume(a.ctx, scope)
	if errors.Is(err, store.ErrBusy) {
		return nil
	}
	a.count(fmt.Sprint("resume: ", resumed.WasPaused))
	return err
}

var tenants = []string{"", "t"}

// steer gives a job another time or priority.
func (a *actor) steer() error {
	id, err := a.some("job where hold <> 'x'")
	if id == 0 || err != nil {
		return err
	}
	call := []string{
		"retry_now($1)", "reschedule($1, delay => '50 ms')", "reschedule($1, delay => '0')", "set_priority($1, 5)", "set_priority($1, -5)",
	}[a.rand.IntN(5)]
	var answer string
	if err = a.conn.QueryRow(a.ctx, "select lockstep."+call, id).Scan(&answer); err == nil {
		a.count(call + ": " + answer)
	}
	if answer == "scheduled" { // it may have left its lane, and joins it anew
		a.mark(id, func(f *fact) { f.scheduled = true })
	}
	return a.allowed(call, err)
}
