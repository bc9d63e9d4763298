// Package web holds http.Handlers: Health for probes and Metrics for Prometheus
// about a dispatcher, and API, which enqueues, reads and steers jobs. Any service
// can mount them.
//
//	metrics := web.NewMetrics(web.MetricsConfig{Queues: []string{"default"}, Count: db.CountJobs})
//	d, err := dispatcher.New(pool, dispatcher.Config{OnEvent: metrics.OnEvent})
//	metrics.Watch(d)
//	health := web.NewHealth(web.HealthConfig{Dispatcher: d, Lease: 30 * time.Second, Database: pool.Ping})
//	mux.Handle("GET /metrics", metrics)
//	mux.HandleFunc("GET /healthz", health.Alive)
//	mux.HandleFunc("GET /readyz", health.Ready)
//
//	api := web.NewAPI(web.APIConfig{Pool: pool, Token: token})
//	mux.Handle("/v1/", api)
//	mux.Handle("/openapi.json", api)
package web
