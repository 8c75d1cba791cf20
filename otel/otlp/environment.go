package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Environment returns the options that the environment gives, by the variables that the
// specification of OpenTelemetry names. Spans are to be sent if an endpoint is named, and
// neither OTEL_SDK_DISABLED nor OTEL_TRACES_EXPORTER=none says no.
//
// OTEL_EXPORTER_OTLP_ENDPOINT is the address of a collector, to which /v1/traces is added;
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is taken as it is. Of the others, of which those with
// TRACES in the name go first, _HEADERS, _TIMEOUT (milliseconds), _COMPRESSION (gzip, none)
// and _CERTIFICATE are known. _PROTOCOL may be http/json, which it is; another is an error,
// as is a certificate of a client. OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, the sampler
// and the batches are read by the SDK.
func Environment() (o Options, on bool, err error) {
	get := func(name string) string {
		return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	wrong := func(name, text string) (Options, bool, error) {
		return Options{}, false, fmt.Errorf("OTEL_EXPORTER_OTLP_%s=%q: %s", name, get(name), text)
	}
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	switch {
	case get("ENDPOINT") == "" || exporter == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"):
		return o, false, nil
	case exporter != "" && exporter != "otlp":
		return o, false, fmt.Errorf("OTEL_TRACES_EXPORTER=%q: it can be otlp or none", exporter)
	}
	if o.URL = os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); o.URL == "" {
		o.URL = strings.TrimRight(os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "/") + "/v1/traces"
	}
	if _, err := New(o); err != nil {
		return o, false, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT must be a URL, such as http://localhost:4318") // it may have a password
	}
	switch get("PROTOCOL") {
	case "", "http/json":
	default:
		return wrong("PROTOCOL", "spans are sent as http/json; collectors take it where they take http/protobuf, most often at port 4318")
	}
	switch get("COMPRESSION") {
	case "", "none":
	case "gzip":
		o.Gzip = true
	default:
		return wrong("COMPRESSION", "it can be gzip or none")
	}
	if text := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return wrong("TIMEOUT", "it must be a number of milliseconds, such as 10000")
		}
		o.Timeout = time.Duration(ms) * time.Millisecond
	}
	for _, pair := range strings.Split(get("HEADERS"), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return Options{}, false, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: one of them is not name=value, with the value as in a URL")
		}
		if o.Headers == nil {
			o.Headers = map[string]string{}
		}
		o.Headers[name] = value
	}
	for _, name := range []string{"CLIENT_KEY", "CLIENT_CERTIFICATE"} {
		if get(name) != "" {
			return wrong(name, "certificates of clients are not supported: let a collector on this machine send on what it gets")
		}
	}
	if file := get("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return wrong("CERTIFICATE", err.Error())
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return wrong("CERTIFICATE", "there is no certificate in it")
		}
		o.Client = client(&http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}})
	}
	return o, true, nil
}
