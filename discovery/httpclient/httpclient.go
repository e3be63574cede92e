// Package httpclient sends HTTP requests to the instances of a service.
//
//	w, err := d.Watch(ctx, "orders") // of package discovery
//	transport, err := httpclient.New(w, discovery.RoundRobin)
//	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
//	response, err := client.Get("http://orders/7") // an instance replaces the host
//
// # What it promises
//
//   - Each try is sent to an instance that the request was not sent to before. There are at most
//     three tries.
//   - A request is retried only if it was not sent, or if net/http would retry it: GET, HEAD,
//     OPTIONS and TRACE, and any method with the header Idempotency-Key or X-Idempotency-Key. A
//     request with a body also needs GetBody.
//   - A response is returned, whatever its status.
//   - The name in a server's certificate is never compared with one from ZooKeeper.
//
// # Failures
//
// The kind of a failure decides whether it is reported with discovery.Watch.ReportError:
//
//   - Not sent: the request cannot be sent at all, such as one with a line break in its URL. It is
//     neither retried nor reported.
//   - Given up: the context was canceled or its deadline exceeded, or the body could not be read.
//     It is neither retried nor reported. But if http.Client.Timeout passes before the header of
//     the response arrives, the failure is reported.
//   - Refused: the connection or the TLS handshake failed. It is reported and retried.
//   - Broken off: the connection was lost before the header of the response. It is reported, and
//     retried if the request permits that.
//
// # Addresses
//
// For the scheme http, an instance is called over HTTP at its port. An instance with an SSL port is
// called over HTTPS at that port if it has no other port or is an instance of Spring Cloud. For the
// scheme https, every instance is called at its SSL port.
//
// An instance without an address or without the needed port is skipped. An instance that needs
// HTTPS is also skipped if the base has no TLSClientConfig.ServerName.
//
// # The base
//
// The base sends the requests: see [WithBase]. The default is a clone of http.DefaultTransport
// without a proxy. Its timeouts are 3 s for a connection and 30 s for the header of a response. Any
// other base needs such timeouts as well: an instance that hangs stays in the list until its
// session expires.
//
// For https the base must be an *http.Transport with TLSClientConfig.ServerName. To add traces or
// metrics, wrap the [Transport], not the base.
package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/opt"
)

const (
	maxTries      = 3
	dialTimeout   = 3 * time.Second
	headerTimeout = 30 * time.Second
)

// Transport is an http.RoundTripper that sends requests to the instances of a service. It is safe
// for concurrent use.
type Transport[T any] struct {
	watch    *discovery.Watch[T]
	strategy discovery.Strategy[T]
	base     http.RoundTripper
}

// Option configures a Transport. [New] rejects invalid values with framework.ErrBadArgument.
type Option func(*config) error

type config struct{ base http.RoundTripper }

// WithBase sets the base, which sends the requests. It needs timeouts for a connection and for the
// header of a response, and for https it must be an *http.Transport with
// TLSClientConfig.ServerName. The default is a clone of http.DefaultTransport without a proxy.
func WithBase(base http.RoundTripper) Option {
	return opt.Checked(base != nil, func(c *config) { c.base = base }, "nil base")
}

// New returns a Transport for the instances of watch. The caller must close watch after the
// Transport's last use. strategy chooses among the instances to which a request was not sent yet.
//
// New returns framework.ErrBadArgument if watch or strategy is nil, or an option is invalid.
func New[T any](watch *discovery.Watch[T], strategy discovery.Strategy[T], opts ...Option) (*Transport[T], error) {
	if watch == nil || strategy == nil {
		return nil, fmt.Errorf("httpclient: %w: nil watch or strategy", framework.ErrBadArgument)
	}
	var cfg config
	if err := opt.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("httpclient: %w", err)
	}
	if cfg.base == nil {
		cfg.base = defaultBase()
	}
	return &Transport[T]{watch, strategy, cfg.base}, nil
}

func defaultBase() *http.Transport {
	base := &http.Transport{}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok { // programs may replace it
		base = standard.Clone()
	}
	base.Proxy = nil // a proxy for the internet knows no instance
	base.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	base.ResponseHeaderTimeout = headerTimeout
	return base
}

// CloseIdleConnections closes the idle connections of the base. http.Client.CloseIdleConnections
// calls it.
func (t *Transport[T]) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip sends a request to an instance, and retries it at other instances if that fails and the
// request permits it: see the package comment, under Failures.
//
// Errors are
//   - framework.ErrBadArgument if the request cannot be sent, if its scheme is neither http nor
//     https, or if https is needed and the base has no ServerName;
//   - discovery.ErrNoInstance if no instance is available;
//   - framework.ErrEnded or framework.ErrClosed if the Watch or its client is closed;
//   - the error of the request's context or body;
//   - otherwise the error of the last attempt.
func (t *Transport[T]) RoundTrip(request *http.Request) (*http.Response, error) {
	err := t.check(request)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	tried := map[string]bool{} // by path
	for len(tried) < maxTries {
		i, target, none := t.pick(request, tried)
		if none != nil {
			if err == nil { // not sent, so the body is not closed
				closeBody(request)
			}
			return nil, cmp.Or(err, none)
		}
		a, failed := newAttempt(request, t.base, len(tried) > 0)
		if failed != nil {
			return nil, failed
		}
		tried[i.Path()] = true
		var answer *http.Response
		if answer, err = t.base.RoundTrip(t.address(a.request, target)); err == nil {
			answer.Request = request
			return answer, nil
		}
		var over bool
		switch a.failure(err) {
		case wrongName:
			return nil, fmt.Errorf("httpclient: %w: https requires a base with TLSClientConfig.ServerName", framework.ErrBadArgument)
		case notSent, givenUp:
			return nil, err
		case timedOut:
			over = true
		case refused:
			over = !rereadable(request)
		case brokenOff:
			over = !rereadable(request) || !repeatable(request)
		}
		t.watch.ReportError(i)
		if over {
			return nil, err
		}
	}
	return nil, err
}

// check refuses requests that could reach no instance.
func (t *Transport[T]) check(request *http.Request) error {
	switch request.URL.Scheme {
	case "http":
	case "https":
		if !t.named() {
			return fmt.Errorf("httpclient: %w: https requires a base with TLSClientConfig.ServerName", framework.ErrBadArgument)
		}
	default:
		return fmt.Errorf("httpclient: %w: unsupported scheme %q", framework.ErrBadArgument, request.URL.Scheme)
	}
	if strings.ContainsFunc(request.Method, notInName) {
		return fmt.Errorf("httpclient: %w: invalid method %q", framework.ErrBadArgument, request.Method)
	}
	for _, fields := range []http.Header{request.Header, request.Trailer} {
		for name, values := range fields {
			if name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(strings.Join(values, ""), notInValue) {
				return fmt.Errorf("httpclient: %w: invalid header %q", framework.ErrBadArgument, name)
			}
		}
	}
	// net/http knows the rest: it writes the request, without the body.
	head := *request
	if request.Body != nil && request.Body != http.NoBody {
		head.Body, head.ContentLength = io.NopCloser(strings.NewReader("")), -1
	}
	if err := head.Write(io.Discard); err != nil {
		return fmt.Errorf("httpclient: %w: %w", framework.ErrBadArgument, err)
	}
	return nil
}

func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// named reports whether the base may have a ServerName. For another RoundTripper than
// *http.Transport, the connection shows that.
func (t *Transport[T]) named() bool {
	base, ok := t.base.(*http.Transport)
	return !ok || base.TLSClientConfig != nil && base.TLSClientConfig.ServerName != ""
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// pick chooses one of the instances that were not tried.
func (t *Transport[T]) pick(request *http.Request, tried map[string]bool) (i discovery.Instance[T], target url.URL, err error) {
	unnamed := false
	i, err = t.watch.Pick(t.strategy, func(i *discovery.Instance[T]) bool {
		target := targetOf(*i, request.URL.Scheme)
		if target.Host == "" || tried[i.Path()] {
			return false
		}
		if target.Scheme == "https" && !t.named() {
			unnamed = true
			return false
		}
		return true
	})
	switch {
	case errors.Is(err, discovery.ErrNoInstance) && unnamed:
		err = fmt.Errorf("httpclient: %w: the instances require https, which requires a base with TLSClientConfig.ServerName", framework.ErrBadArgument)
	case errors.Is(err, discovery.ErrNoInstance):
		err = fmt.Errorf("httpclient: %w", discovery.ErrNoInstance)
	}
	return i, targetOf(i, request.URL.Scheme), err
}

// targetOf returns the scheme and the host with which an instance is called. Host is "" if it
// cannot be called.
func targetOf[T any](i discovery.Instance[T], scheme string) url.URL {
	if scheme == "https" || i.Secure() {
		return url.URL{Scheme: "https", Host: i.Addr(i.SSLPort)}
	}
	return url.URL{Scheme: "http", Host: i.Addr(i.Port)}
}

// address addresses a request to an instance.
func (t *Transport[T]) address(request *http.Request, target url.URL) *http.Request {
	request.Host = cmp.Or(request.Host, request.URL.Host)
	request.URL.Scheme, request.URL.Host = target.Scheme, target.Host
	base, ok := t.base.(*http.Transport)
	if !ok || base.Proxy == nil || target.Scheme != "http" || request.URL.Opaque != "" {
		return request
	}
	// A proxy is asked for a URI with the host of the header, unless the URI is opaque.
	if proxy, err := base.Proxy(request); err == nil && proxy != nil && strings.HasPrefix(proxy.Scheme, "http") {
		request.URL.Opaque = "//" + target.Host + request.URL.EscapedPath()
	}
	return request
}

// rereadable reports whether the body can be sent once more.
func rereadable(request *http.Request) bool {
	return request.Body == nil || request.Body == http.NoBody || request.GetBody != nil
}

// repeatable reports whether a request may be sent again that an instance may have received.
func repeatable(request *http.Request) bool {
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if _, found := request.Header[name]; found {
			return true
		}
	}
	return false
}
