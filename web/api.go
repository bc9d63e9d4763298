package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockstep-pg/lockstep/store"
)

// APIConfig says what an API works on, and whom it lets in.
type APIConfig struct {
	// Pool is the database. Required; a few connections will do, as a request
	// holds one for the length of a statement.
	Pool *pgxpool.Pool

	// Schema is where Lockstep lives. "": store.DefaultSchema.
	Schema string

	// Token lets a request do everything; it comes as Authorization: Bearer. "":
	// there is none.
	Token string

	// ReadToken lets a request read. If it is given and Token is not, nobody can
	// write. If neither is, everybody can do everything: serve such an API on a
	// loopback address only.
	ReadToken string

	// Hosts may be named as Host on a loopback address, besides loopback's own
	// names: those under which a proxy on this machine is known. Others are
	// refused there, since a web page may give its own name that address.
	Hosts []string

	// MaxBody is the longest body, and the longest item of a batch, in bytes.
	// Zero: 4 MiB. What a payload may have is the schema's limit (1 MiB unless
	// set_limits moved it).
	MaxBody int64

	// MaxWaiters bounds the requests that wait for a job's end. Zero: 100.
	MaxWaiters int

	// MaxDrains bounds the drains that are under way. Zero: 4.
	MaxDrains int

	// Timeout bounds a request that neither streams nor waits. Zero: 10 s.
	Timeout time.Duration

	// Drain works, or waits for work to be done, until nothing is ready or ctx
	// ends. Nil: there is no route for it.
	Drain func(ctx context.Context) (Drained, error)

	// Logger is told of errors that are nobody's fault outside. Nil: slog.Default().
	Logger *slog.Logger
}

// Drained is what a drain did.
type Drained struct {
	Attempts  int64   `json:"attempts"`
	Completed int64   `json:"completed"`
	Failed    int64   `json:"failed"`
	Dead      int64   `json:"dead"`
	Snoozed   int64   `json:"snoozed"`    // not tried or not the job's fault: again later
	GivenBack int64   `json:"given_back"` // cut off at the end
	Seconds   float64 `json:"seconds"`
	More      bool    `json:"more"` // its time was over, or it was asked to end, first
	// Down are the targets that were not pushed to at the end, as their circuits
	// were open: their jobs may still be ready.
	Down []string `json:"down,omitempty"`
}

func (c APIConfig) withDefaults() APIConfig {
	setDefault(&c.Schema, store.DefaultSchema)
	setDefault(&c.MaxBody, 4<<20)
	setDefault(&c.MaxWaiters, 100)
	setDefault(&c.MaxDrains, 4)
	setDefault(&c.Timeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, to T) {
	var zero T
	if *field == zero {
		*field = to
	}
}

// API is an http.Handler of /v1/… and /openapi.json, over the functions of a
// Lockstep schema.
type API struct {
	config  APIConfig
	store   *store.Store
	mux     *http.ServeMux
	handler http.Handler // serve behind its guard
	huma    huma.API
	spec    []byte
	origins *http.CrossOriginProtection

	bodies  places // held while a body is read and worked on
	batches places
	waiters places
	drains  places
	stopped chan struct{}
	stop    sync.Once
}

// How many requests may hold a body in memory at a time.
const (
	maxBodies  = 32
	maxBatches = 4
)

// NewAPI returns an API. Mount it at /v1/ and /openapi.json. It answers 404 for a
// path that is not clean, as /v1//jobs; an http.ServeMux before it redirects that.
func NewAPI(c APIConfig) *API {
	c = c.withDefaults()
	a := &API{
		config: c, store: store.New(c.Pool).In(c.Schema), mux: http.NewServeMux(), origins: http.NewCrossOriginProtection(),
		bodies: make(places, maxBodies), batches: make(places, maxBatches),
		waiters: make(places, c.MaxWaiters), drains: make(places, c.MaxDrains), stopped: make(chan struct{}),
	}
	a.huma = humago.New(a.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI:    "3.1.0",
			Info:       &huma.Info{Title: "Lockstep", Version: "1", Description: "A job queue in PostgreSQL. Errors are problems by RFC 9457."},
			Components: &huma.Components{SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}},
			Security:   []map[string][]string{{"token": {}}, {}},
		},
		Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}, DefaultFormat: "application/json",
		RejectUnknownQueryParameters: true, Transformers: []huma.Transformer{tellDetail},
	})
	a.handler = a.Guard(http.HandlerFunc(a.serve))
	a.enqueueRoutes()
	a.jobRoutes()
	a.steerRoutes()
	a.deadRoutes()
	a.queueRoutes()
	a.laneRoutes()
	a.fleetRoutes()
	a.spec, _ = json.Marshal(a.huma.OpenAPI()) // it holds nothing that can't be marshalled
	a.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(a.spec)
	})
	return a
}

// Stop ends the waiting of requests for jobs: they are answered at once. Give it
// to http.Server.RegisterOnShutdown.
func (a *API) Stop() { a.stop.Do(func() { close(a.stopped) }) }

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.handler.ServeHTTP(w, r)
}

// statuses are the errors that any route may answer with.
var statuses = []int{400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503}

// route registers a route whose handling may take so long.
func route[I, O any](a *API, o huma.Operation, longest time.Duration, fn func(context.Context, *I) (*O, error)) {
	o.Errors = statuses
	huma.Register(a.huma, o, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, longest)
		defer cancel()
		out, err := fn(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err, o.Method, o.Path)
		}
		return out, nil
	})
}

// post registers a route that takes a JSON object of type B, and documents it.
func post[I, O, B any](a *API, o huma.Operation, longest time.Duration, fn func(context.Context, *I) (*O, error)) {
	o.Method = http.MethodPost
	route(a, o, longest, fn)
	documentBody[B](a, o.Path, "application/json")
}
