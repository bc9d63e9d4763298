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
