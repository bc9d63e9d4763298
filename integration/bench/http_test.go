package bench

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
	"github.com/lockstep-pg/lockstep/web"
)

// BenchmarkBatch measures what the batch route enqueues in a second, 10,000
// items of a small payload in each request.
func BenchmarkBatch(b *testing.B) {
	server := serve(b, freshDatabase(b))
	const items = 10_000
	body := bytes.Repeat([]byte(`{"kind": "mail.send", "payload": {"to": "ann@example.com", "n": 17}}`+"\n"), items)
	b.ResetTimer()
	for range b.N {
		response, err := server.Client().Post(server.URL+"/v1/jobs/batch", "application/x-ndjson", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		answers, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || bytes.Count(answers, []byte(`"created"`)) != items {
			b.Fatalf("%v: %.200s", err, answers)
		}
	}
	b.ReportMetric(float64(b.N*items)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
	b.Logf("requests of %d items, one after the other; %s", items, setup())
}

// BenchmarkPost compares the median of single requests with that of the same
// enqueue by SQL on a pool, turn by turn.
func BenchmarkPost(b *testing.B) {
	const rounds, unmeasured = 2000, 50 // the first make connections and plans
	pool := freshDatabase(b)
	server, db := serve(b, pool), store.New(pool)
	var requests, statements []time.Duration
	b.ResetTimer()
	for range b.N*rounds + unmeasured {
		began := time.Now()
		response, err := server.Client().Post(server.URL+"/v1/jobs", "application/json", bytes.NewReader([]byte(`{"kind": "mail.send", "payload": {"n": 17}}`)))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		requests = append(requests, time.Since(began))
		if response.StatusCode != http.StatusCreated {
			b.Fatal(response.Status)
		}
		began = time.Now()
		if _, err := db.Enqueue(b.Context(), store.NewJob{Kind: "mail.send", Payload: map[string]int{"n": 17}}); err != nil {
			b.Fatal(err)
		}
		statements = append(statements, time.Since(began))
	}
	post, sql := median(requests[unmeasured:]), median(statements[unmeasured:])
	b.ReportMetric(float64(post.Microseconds()), "µs-post")
	b.ReportMetric(float64(sql.Microseconds()), "µs-sql")
	b.ReportMetric(float64(post)/float64(sql), "post/sql")
	b.ReportMetric(0, "ns/op")
	b.Logf("%d single requests on loopback, and as many enqueues by SQL; %s", len(requests)-unmeasured, setup())
}

// serve serves the API over a pool.
func serve(b *testing.B, pool *pgxpool.Pool) *httptest.Server {
	api := web.NewAPI(web.APIConfig{Pool: pool, Logger: slog.New(slog.DiscardHandler)})
	server := httptest.NewServer(api)
	b.Cleanup(server.Close)
	b.Cleanup(api.Stop)
	return server
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
