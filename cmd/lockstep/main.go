package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := hidePassword(os.Args, os.Environ()); err != nil {
		complain(os.Stderr, err)
		os.Exit(exitFailure)
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
