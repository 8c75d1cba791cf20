package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/superstep-dev/superstep/server/internal/db"
)

// publicOnly refuses connections to addresses that are not of the public
// internet, whatever name led there: a client must not reach what only the server
// can.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || carrier.Contains(ip) {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}

// carrier are the addresses of RFC 6598, which netip doesn't count as private.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

func webhookClient(private bool) *http.Client {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if !private {
		d.Control = publicOnly
	}
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConns: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
	}
}

// checkWebhook reports what is wrong with the address of a webhook.
func checkWebhook(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return invalid("webhook must be a URL that begins with http:// or https://")
	}
	return nil
}

// webhookTries is how often a webhook is called until it takes the call.
const webhookTries = 3

// notify calls a run's webhook, beside what else the server does.
func (s *Server) notify(ctx context.Context, run *db.Run, b *runBody, values json.RawMessage) {
	if b.Webhook == "" {
		return
	}
	data, err := json.Marshal(runView(run))
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "server: a webhook failed", slog.String("run", run.ID), slog.Any("error", err))
		return
	}
	o := objectOf(data)
	for name, at := range map[string]time.Time{"run_started_at": run.StartedAt, "run_ended_at": run.EndedAt, "webhook_sent_at": now()} {
		o[name], _ = json.Marshal(at) // cannot fail
	}
	o["values"] = values
	if run.Error != nil {
		o["values"] = json.RawMessage("null")
		o["error"], _ = json.Marshal(run.Error) // of texts
	}
	data = o.raw()
	s.beside.Go(func() {
		for try := 1; ; try++ {
			if err = s.post(ctx, b.Webhook, data); err == nil {
				return
			}
			if try == webhookTries {
				break
			}
			time.Sleep(time.Duration(try) * time.Second)
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "server: a webhook failed", slog.String("run", run.ID), slog.Any("error", err))
	})
}

func (s *Server) post(ctx context.Context, to string, data []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.webhooks.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be used again
	if answer.StatusCode >= 400 {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}
