// Package sidecar is `lockstep run` and `lockstep drain`: a dispatcher that
// pushes jobs to apps beside it, from one file of settings.
package sidecar
