package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
	if !public(ip) {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}

func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// special are addresses that netip doesn't count as private: of the machine
// itself, of carriers, of protocols and of tests, and those of IPv6 behind which
// there is one of IPv4.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2002::/16"),
}

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
		// Its address may hold a secret.
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
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
