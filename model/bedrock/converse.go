package bedrock

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/chat"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/internal/vendor"
)

// Model is a model by the Converse API. It is a [model.Model].
type Model struct {
	name     string
	defaults model.Config
	table    model.Table
	api      *vendor.API
	err      *model.Error // why no request can be made
}

type settings = vendor.Settings

// Option is a setting of [New].
type Option func(*settings)

// HTTPClient is used for requests instead of [http.DefaultClient].
func HTTPClient(c *http.Client) Option { return func(s *settings) { s.HTTP = c } }

// Header is sent with every request. It replaces the header of that name that would be
// sent anyway.
func Header(key, value string) Option { return func(s *settings) { s.SetHeader(key, value) } }

// OnRequest gives a function that sees each request before it is signed and sent: it may
// alter the header, and what it returns is sent as the body. Its error is that of the call.
func OnRequest(f func(ctx context.Context, header http.Header, body []byte) ([]byte, error)) Option {
	return func(s *settings) { s.Hook = f }
}

// IdleTimeout says how long a stream may be silent before it counts as broken, with
// an error of [model.ErrorTimeout]. The default is ten minutes; less than 0 is no
// limit. For whole answers the context of the call is the only limit.
func IdleTimeout(d time.Duration) Option { return func(s *settings) { s.Idle = d } }

// Defaults are the settings of requests that don't have their own. Fields of
// Extra are taken one by one.
func Defaults(c model.Config) Option { return func(s *settings) { s.Defaults = c } }

// Capabilities gives the table of what models take and give, in the place of
// [model.KnownModels].
func Capabilities(t model.Table) Option { return func(s *settings) { s.Table = t } }

// New returns a model by the Converse API. It reads the environment and does nothing else;
// what is wrong is the error of the calls. The model never repeats a request by itself: see
// [model.Retry].
func New(modelID string, a Account, opts ...Option) *Model {
	var s settings
	for _, o := range opts {
		o(&s)
	}
	s.Cloud = a.cloud(func(r *http.Request, body []byte) ([]byte, error) {
		if strings.HasSuffix(r.URL.Path, "/converse-stream") {
			r.Header.Set("Accept", eventStream)
		}
		return body, nil
	})
	m := &Model{name: modelID, defaults: s.Defaults, table: s.TableOf()}
	m.api, m.err = s.API(provider, nil, failure)
	return m
}

// Capabilities implements [model.Capable].
func (m *Model) Capabilities(name string) (model.Capabilities, bool) {
	return m.table.Named(provider, cmp.Or(name, m.defaults.Model, m.name))
}

// Generate returns the whole answer.
func (m *Model) Generate(ctx context.Context, req *model.Request) (*model.Response, error) {
	call, name, err := m.call(req, false)
	if err != nil {
		return nil, err
	}
	return m.api.Generate(ctx, call, func(body []byte) (chat.Message, error) { return answered(name, body) })
}

// Stream yields the answer in chunks as they come.
func (m *Model) Stream(ctx context.Context, req *model.Request) iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		call, name, err := m.call(req, true)
		if err != nil {
			yield(chat.Chunk{}, err)
			return
		}
		m.api.Stream(ctx, func() (vendor.Call, error) { return call, nil },
			func(body []byte) (chat.Message, error) { return answered(name, body) },
			func() vendor.Stream { return &decoder{model: name} })(yield)
	}
}

// failure makes an error of a status; what AWS says is put in by [refused].
func failure(status int, body []byte) *model.Error {
	return &model.Error{Provider: provider, Status: status, Kind: vendor.KindOf(status), Message: vendor.Shorten(body)}
}

// invalid says that a request can't be sent.
func invalid(format string, args ...any) *model.Error {
	return vendor.Invalid(provider, format, args...)
}

// unreadable says that an answer can't be understood.
func unreadable(format string, args ...any) *model.Error {
	return vendor.Unreadable(provider, format, args...)
}
