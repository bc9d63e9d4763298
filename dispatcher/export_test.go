package dispatcher

import "time"

// SetCallTimeout makes a call to the database that gets no answer fail sooner.
func (d *Dispatcher) SetCallTimeout(timeout time.Duration) { d.callTimeout = timeout }
