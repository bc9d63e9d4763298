package model_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// row is a job as the database has it.
type row struct {
	ID       int64
	State    string
	Lane     string // queue/key
	Attempt  int
	Fence    int64
	Stage    string // "": it is not a live one
	Turn     int64
	LaneTurn int64
	Lost     int
}

const rowsSQL = `
	select v.id, v.state, v.queue || '/' || coalesce(v.ordering_key, '') as lane, v.attempt, coalesce(v.fence, 0) as fence,
	       coalesce(j.stage::text, '') as stage, coalesce(j.turn, 0) as turn, coalesce(j.lane_turn, 0) as lane_turn, coalesce(j.lost, 0) as lost
	  from lockstep.jobs v left join lockstep.job j on j.id = v.id order by v.id`

// Compare ends the run unless the model and the database agree about every job,
// every lane, and the order of the ready line.
func (w *world) Compare() {
	rows, _ := w.conn.Query(context.Background(), rowsSQL)
	there, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	w.must("reading the jobs", err)
	known := w.all(func(j *job) bool { return j.at != unknown })
	for i := range max(len(there), len(known)) {
		switch {
		case i == len(there) || i < len(known) && there[i].ID > known[i].id:
			w.failf(w.t, "job %d is not there; the model says it is %s", known[i].id, known[i].state())
		case i == len(known) || there[i].ID < known[i].id:
			w.failf(w.t, "job %d is there, %s; the model does not know it", there[i].ID, there[i].State)
		}
		w.compareJob(there[i], known[i])
	}
	w.compareLanes(there)
	w.compareLine()
	w.step++
}

func (w *world) compareJob(there row, j *job) {
	about := fmt.Sprintf("job %d: ", j.id)
	agree(w, about+"state", there.State, j.state())
	agree(w, about+"attempt", there.Attempt, j.attempt)
	agree(w, about+"fence", there.Fence, j.fence)
	if j.live() {
		agree(w, about+"losses", there.Lost, j.lost)
	}
	j.turn = there.Turn
}

// compareLanes compares each lane's head, and those that wait, in order.
func (w *world) compareLanes(there []row) {
	slices.SortFunc(there, func(a, b row) int { return cmp.Compare(a.LaneTurn, b.LaneTurn) })
	for name, l := range w.lanes {
		var heads, waiting []int64
		for _, r := range there {
			switch {
			case r.Lane != name:
			case r.Stage == "r" || r.Stage == "b":
				heads = append(heads, r.ID)
			case r.Stage == "w":
				waiting = append(waiting, r.ID)
			}
		}
		var head []*job
		if l.head != nil {
			head = append(head, l.head)
		}
		agree(w, name+": heads", fmt.Sprint(heads), fmt.Sprint(ids(head)))
		agree(w, name+": waiting", fmt.Sprint(waiting), fmt.Sprint(ids(l.waiting)))
	}
}

// compareLine sees that whoever became ready later stands behind. Between those
// of one step any order will do.
func (w *world) compareLine() {
	line := w.all(func(j *job) bool { return j.at == runs })
	slices.SortFunc(line, func(a, b *job) int { return cmp.Compare(a.turn, b.turn) })
	for i := 1; i < len(line); i++ {
		if line[i-1].step > line[i].step {
			w.failf(w.t, "the ready line is %v, though %d became ready after %d", ids(line), line[i-1].id, line[i].id)
		}
	}
}
