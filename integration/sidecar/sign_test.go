package sidecar

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// signPush signs a body as the sidecar would, for job 1.
func signPush(t *testing.T, h http.Header, body []byte) {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := signer.Sign("1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	h.Set("Webhook-Id", "1")
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("Webhook-Signature", signature)
	h.Set("Lockstep-Kind", "k")
	h.Set("Content-Type", "application/json")
}
