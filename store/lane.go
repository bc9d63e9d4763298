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

// check refuses names that PostgreSQL can't store, and so can't look for.
func (l Lane) check() error {
	return checkTexts(text{"queue", l.Queue}, text{"tenant", l.Tenant}, text{"ordering_key", l.OrderingKey})
}
