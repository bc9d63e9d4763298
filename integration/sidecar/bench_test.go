package sidecar

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-pg/lockstep/dispatcher"
	"github.com/lockstep-pg/lockstep/handler"
	"github.com/lockstep-pg/lockstep/integration/testdb"
)

// BenchmarkPush measures what a push costs beside the app's own time: from the
// handler's start until its result is handed to finishing, signed, on loopback.
func BenchmarkPush(b *testing.B) {
	var mu sync.Mutex
	own := map[int64]time.Duration{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id, _ := strconv.ParseInt(r.Header.Get("Webhook-Id"), 10, 64)
		_ = json.NewEncoder(w).Encode(map[string]bool{"ok": true})
		mu.Lock()
		defer mu.Unlock()
		own[id] = time.Since(began)
	}))
	defer server.Close()
	push, err := handler.NewPush(handler.PushConfig{URL: server.URL, Secrets: []string{secret}})
	if err != nil {
		b.Fatal(err)
	}
	defer push.Close()
	db := testdb.New(b)
	var took []time.Duration
	routes := handler.Routes{{To: push}}
	d, err := dispatcher.New(db.Pool(b), dispatcher.Config{
		Queues: map[string]dispatcher.Queue{"default": {Concurrency: 1, Kinds: routes.Kinds("default")}}, Logger: slog.New(slog.DiscardHandler),
		OnEvent: func(e dispatcher.Event) {
			if e.Type == dispatcher.Ended {
				mu.Lock()
				defer mu.Unlock()
				took = append(took, e.Ran-own[e.JobID])
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	routes.Register(d, "default")
	db.Exec(b, "select lockstep.enqueue('k', '{\"n\": 1}') from generate_series(1, $1)", b.N+20)
	b.ResetTimer()
	if err := d.RunUntilIdle(context.Background()); err != nil {
		b.Fatal(err)
	}
	took = took[20:] // while connections and plans are made
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}
