package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/web"
)

// TestARowLockedForAMoment is waited for, whatever is to be done to its job or
// lane: who asks once is told 503 only of one that stays locked.
func TestARowLockedForAMoment(t *testing.T) {
	t.Parallel()
	r := newAPI(t, web.APIConfig{})
	want[struct{}](t, r.do(t, "POST", "/v1/queues", `{"name": "default", "on_dead": "block"}`), 200)
	dead := func(key string) int64 {
		id := testdb.Value[int64](t, r.db, "select id from lockstep.enqueue('dead', ordering_key => nullif($1, ''))", key)
		r.kill(t, "dead")
		return id
	}
	scheduled := func() int64 {
		return testdb.Value[int64](t, r.db, "select id from lockstep.enqueue('k', delay => '1 h')")
	}
	hold := func(table string, id int64) (release func()) {
		conn := r.db.Conn(t)
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("begin; select from lockstep.%s where id = %d for update", table, id)); err != nil {
			t.Fatal(err)
		}
		return func() { _, _ = conn.Exec(context.Background(), "rollback") }
	}
	held := scheduled()
	release := hold("job", held)
	a := r.do(t, "POST", fmt.Sprintf("/v1/jobs/%d/cancel", held), "")
	release()
	if want[told](t, a, http.StatusServiceUnavailable); a.header.Get("Retry-After") != "1" {
		t.Errorf("of a row that stays locked: %v", a.header)
	}
	for _, c := range []struct {
		table      string
		id         int64
		path, body string
	}{
		{"job", held, "/v1/jobs/%d/cancel", ""},
		{"job", scheduled(), "/v1/jobs/%d/retry", ""},
		{"job", scheduled(), "/v1/jobs/%d/reschedule", `{"delay": "2h"}`},
		{"job", scheduled(), "/v1/jobs/%d/priority", `{"priority": 1}`},
		{"dead_job", dead(""), "/v1/dead/%d/replay", ""},
		{"dead_job", dead(""), "/v1/dead/%d/discard", ""},
		{"job", dead("a"), "/v1/lanes/unblock", `{"ordering_key": "a"}`},
		{"job", dead("b"), "/v1/lanes/skip-head", `{"ordering_key": "b"}`},
	} {
		if strings.Contains(c.path, "%d") {
			c.path = fmt.Sprintf(c.path, c.id)
		}
		release := hold(c.table, c.id)
		released := make(chan struct{})
		go func() {
			defer close(released)
			<-time.After(50 * time.Millisecond) // while the request tries
			release()
		}()
		if a := r.do(t, "POST", c.path, c.body); a.status != http.StatusOK {
			t.Errorf("%s: answered %d: %s", c.path, a.status, a.body)
		}
		<-released
	}
}

// TestDrainsAreBounded: one more than may be at a time is told so at once.
func TestDrainsAreBounded(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}), make(chan struct{})
	r := newAPI(t, web.APIConfig{MaxDrains: 2, Drain: func(context.Context) (web.Drained, error) {
		began <- struct{}{}
		<-end
		return web.Drained{}, nil
	}})
	drain := func() answered { return r.do(t, "POST", "/v1/drain", "") }
	ended := make(chan answered, 2)
	for range 2 {
		go func() { ended <- drain() }()
		<-began
	}
	a := drain()
	if p := want[told](t, a, http.StatusServiceUnavailable); a.header.Get("Retry-After") != "1" || p.Detail == "" {
		t.Errorf("%v %+v", a.header, p)
	}
	close(end)
	for range 2 {
		want[web.Drained](t, <-ended, http.StatusOK)
	}
	go func() { <-began }()
	want[web.Drained](t, drain(), http.StatusOK)
}
