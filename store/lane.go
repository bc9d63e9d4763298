package store

// Lane names a lane.
type Lane struct {
	Queue       string // "" is "default"
	Tenant      string // "" is no tenant
	OrderingKey string
}

func (l Lane) args() []any {
	if l.Queue == "" {
		l.Queue = defaultQueue
	}
	return []any{l.Queue, l.Tenant, l.OrderingKey}
}
