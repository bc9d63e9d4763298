// Package web holds http.Handlers about a dispatcher: Health for probes and
// Metrics for Prometheus. Any service that embeds a dispatcher can mount them.
//
//	metrics := web.NewMetrics(web.MetricsConfig{Queues: []string{"default"}, Count: db.CountJobs})
//	d, err := dispatcher.New(pool, dispatcher.Config{OnEvent: metrics.OnEvent})
//	metrics.Watch(d)
//	health := web.NewHealth(web.HealthConfig{Dispatcher: d, Lease: 30 * time.Second, Database: pool.Ping})
//	mux.Handle("GET /metrics", metrics)
//	mux.HandleFunc("GET /healthz", health.Alive)
//	mux.HandleFunc("GET /readyz", health.Ready)
package web
