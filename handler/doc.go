// Package handler holds ready-made handlers: Push sends a job to an app over
// HTTP, Command runs a program for it. Routes tell which kinds of which queues
// go where.
//
//	push, err := handler.NewPush(handler.PushConfig{URL: "http://127.0.0.1:8080/jobs", Secrets: secrets})
//	routes := handler.Routes{{Kind: "mail.*", To: push}}
//	d, err := dispatcher.New(pool, dispatcher.Config{Queues: map[string]dispatcher.Queue{"default": {Kinds: routes.Kinds("default")}}})
//	routes.Register(d, "default")
//	err = d.Run(ctx)
package handler
