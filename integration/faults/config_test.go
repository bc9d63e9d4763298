package faults

import (
	"encoding/json"
	"time"
)

const (
	workerRole   = "worker"
	producerRole = "producer"
	ready        = "ready" // what both print once they are at work

	kindPlain = "plain"
	kindTx    = "tx"

	skipQueue  = "skip"
	blockQueue = "block"

	lanes       = 12 // of each queue
	concurrency = 8  // of each worker, in each queue
)

// actorConfig is what a process is started with.
type actorConfig struct {
	Name    string // no other process of the run has it
	URL     string // the one address of the database that it knows
	Witness string
	Seed    uint64
	Lease   time.Duration
}

func (c actorConfig) args() []string {
	encoded, _ := json.Marshal(c) // can't fail: strings and numbers
	return []string{string(encoded)}
}

func actorFrom(args []string) (c actorConfig, err error) {
	return c, json.Unmarshal([]byte(args[0]), &c)
}

// setUp is what the database has besides Lockstep. Backoffs are short: suspects
// of killing their workers wait in one.
const setUp = `
	create table effect (marker text not null, fence bigint not null);
	insert into lockstep.queue (name, on_dead, backoff_base, backoff_cap) values
		('skip', 'skip', '200 ms', '2 s'), ('block', 'block', '200 ms', '2 s')`
