package producers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/integration/testdb"
	"github.com/lockstep-pg/lockstep/store"
)

// C11: a payload of any size goes in, by function and by INSERT, and so do
// 10,000 rows at once; what is signalled is short and of one size.
func TestC11_SignalsDoNotGrowWithPayloads(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	db.Exec(t, "select lockstep.set_limits(payload_bytes => 6000000)")
	producer, listener := newClient(t, db), newClient(t, db)
	listener.listen("lockstep")
	longest, shortest := 0, 1000
	for _, bytes := range []int{2, 7990, 8001, 5_000_000} {
		text := strings.Repeat("x", bytes-2)
		if _, err := store.New(producer.Conn).Enqueue(t.Context(), store.NewJob{Kind: "k", Payload: text}); err != nil {
			t.Errorf("%d bytes: %v", bytes, err)
		}
		for _, key := range []any{nil, fmt.Sprint(bytes)} {
			if _, err := producer.Exec(t.Context(), "insert into lockstep.job (kind, ordering_key, payload) values ('k', $1, to_jsonb($2::text))", key, text); err != nil {
				t.Errorf("%d bytes, key %v: %v", bytes, key, err)
			}
		}
		for range 3 {
			n := listener.signal()
			longest, shortest = max(longest, n), min(shortest, n)
		}
		if n := testdb.Value[int](t, db, "select count(*) from lockstep.job where octet_length(payload::text) = $1", bytes); n != 3 {
			t.Errorf("%d of 3 jobs of %d bytes are there", n, bytes)
		}
	}
	for _, key := range []string{"null", "i::text", "'one'"} {
		producer.do("insert into lockstep.job (kind, ordering_key) select 'k', " + key + " from generate_series(1, 10000) i")
		n := listener.signal()
		longest, shortest = max(longest, n), min(shortest, n)
	}
	// Only the digits of the turn may differ.
	if longest > 64 || longest-shortest > 5 {
		t.Errorf("signals are %d to %d bytes long", shortest, longest)
	}
	if n := listener.heard(); n != 0 {
		t.Errorf("%d signals more than statements", n)
	}
}

// signal is the length of the next signal.
func (c *client) signal() int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	n, err := c.WaitForNotification(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return len(n.Payload)
}
