package order_test

import (
	"reflect"
	"testing"
	"time"
)

// story is a small history that the oracle is shown.
type story struct {
	sent   []sent
	log    []entry
	states map[int64]string
}

var dawn = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// tell writes a log, an event a second.
func tell(events ...any) []entry {
	var log []entry
	for i := 0; i < len(events); i += 2 {
		at := dawn.Add(time.Duration(len(log)) * time.Second)
		log = append(log, entry{job: int64(events[i].(int)), event: events[i+1].(event), at: at})
	}
	return log
}

// two are jobs of one lane, the first committed a second before the second.
func two() []sent {
	return []sent{{id: 1, lane: "a", xid: 10}, {id: 2, lane: "a", xid: 20}}
}

var both = map[int64]string{1: "completed", 2: "completed"}

// TestOracleSees shows each fault to the oracle, and what looks like one.
func TestOracleSees(t *testing.T) {
	t.Parallel()
	commits := map[int64]time.Time{10: dawn, 20: dawn.Add(time.Second), 21: dawn.Add(time.Second)}
	for name, test := range map[string]struct {
		story
		want verdict // its counts of faults
	}{
		"order": {story: story{two(), tell(1, started, 1, completed, 2, started, 2, completed), both}},
		"a later commit first": {
			story{two(), tell(2, started, 2, completed, 1, started, 1, completed), both},
			verdict{outOfOrder: 1},
		},
		"other lanes": {
			story: story{
				[]sent{{id: 1, lane: "a", xid: 10}, {id: 2, lane: "b", xid: 20}},
				tell(2, started, 1, started, 1, completed, 2, completed), both,
			},
		},
		"the second of a transaction first": {
			story{
				[]sent{{id: 1, lane: "a", xid: 10}, {id: 2, lane: "a", xid: 10, place: 1}},
				tell(2, started, 2, completed, 1, started, 1, completed), both,
			},
			verdict{outOfOrder: 1},
		},
		"either, of one microsecond": {
			story: story{
				[]sent{{id: 1, lane: "a", xid: 20}, {id: 2, lane: "a", xid: 21}},
				tell(2, started, 2, completed, 1, started, 1, completed), both,
			},
		},
		"overlap": {
			story{two(), tell(1, started, 2, started, 1, completed, 2, completed), both},
			verdict{overlapped: 1, interrupted: 1},
		},
		"two attempts at once": {
			story{two()[:1], tell(1, started, 1, started, 1, completed), map[int64]string{1: "completed"}},
			verdict{overlapped: 1},
		},
		"retries": {story: story{two(), tell(1, started, 1, failed, 1, started, 1, completed, 2, started, 2, completed), both}},
		"amid retries": {
			story{two(), tell(1, started, 1, failed, 2, started, 2, completed, 1, started, 1, completed), both},
			verdict{interrupted: 1},
		},
		"a cancel while it ran": {
			story: story{
				two(), tell(1, started, 1, requested, 1, failed, 2, started, 2, completed),
				map[int64]string{1: "cancelled", 2: "completed"},
			},
		},
		"a cancel too late": {story: story{two()[:1], tell(1, started, 1, requested, 1, completed), map[int64]string{1: "completed"}}},
		"run although cancelled": {
			story{two()[:1], tell(1, cancelled, 1, started, 1, completed), map[int64]string{1: "completed"}},
			verdict{repeated: 1},
		},
		"run twice": {
			story{two()[:1], tell(1, started, 1, completed, 1, started, 1, completed), map[int64]string{1: "completed"}},
			verdict{repeated: 1},
		},
		"deleted while it ran": {
			story: story{two(), tell(1, started, 1, deleted, 2, started, 1, completed, 2, completed), map[int64]string{2: "completed"}},
		},
		"scheduled, out of the order": {
			story: story{
				[]sent{{id: 1, lane: "a", xid: 10, due: dawn.Add(2 * time.Second)}, {id: 2, lane: "a", xid: 20}},
				tell(2, started, 2, completed, 1, started, 1, completed), both,
			},
		},
		"before it is due": {
			story{
				[]sent{{id: 1, lane: "a", xid: 10, due: dawn.Add(time.Second)}},
				tell(1, started, 1, completed),
				map[int64]string{1: "completed"},
			},
			verdict{early: 1},
		},
		"rolled back": {
			story{two()[:1], tell(1, started, 1, completed, 7, started), map[int64]string{1: "completed", 8: "waiting"}},
			verdict{ghosts: 2},
		},
		"not known to be committed": {
			story{[]sent{{id: 1, lane: "a", xid: 99}}, tell(1, started, 1, completed), map[int64]string{1: "completed"}},
			verdict{ghosts: 1},
		},
		"never started": {story{two(), tell(1, started, 1, completed), both}, verdict{lost: 1}},
		"never ended":   {story{two()[:1], tell(1, started, 1, requested), both}, verdict{lost: 1, ghosts: 1}},
		"dead on record": {
			story{two()[:1], tell(1, started, 1, completed), map[int64]string{1: "dead"}},
			verdict{misrecorded: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := prove(test.sent, commits, test.log, test.states)
			got.jobs, got.events, got.notes = 0, nil, nil
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %v\nwant %v", got, test.want)
			}
		})
	}
}
