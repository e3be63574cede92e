// Package httpclient sends HTTP requests to the instances of a service.
//
//	w, err := d.Watch(ctx, "orders") // of package discovery
//	transport, err := httpclient.New(w, discovery.RoundRobin, nil)
//	client := &http.Client{Transport: transport}
//	answer, err := client.Get("http://orders/7") // the host may be any: it becomes that of an instance
//
// # What it promises
//
//   - Each try goes to an instance that the request has not been sent to. One that fails is reported with discovery.Watch.Down, but
//     not if the caller has given up, the request cannot be sent, or its body cannot be read.
//   - A request is repeated only if the server cannot have seen it, or if it may be repeated by the rule of net/http: GET, HEAD,
//     OPTIONS and TRACE, and any with the header Idempotency-Key or X-Idempotency-Key; and if it has no body or
//     GetBody. Otherwise the error is returned. An answer is returned, whatever its status.
//   - The name by which a server's certificate is checked never comes from ZooKeeper.
package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
)

const (
	dialTimeout   = 3 * time.Second
	headerTimeout = 30 * time.Second
)

// Transport is an http.RoundTripper. It is safe for concurrent use.
type Transport[T any] struct {
	watch    *discovery.Watch[T]
	strategy discovery.Strategy[T]
	base     http.RoundTripper
}

// New makes a Transport for the instances of a Watch, which is closed after it. strategy chooses among those that a
// request has not been sent to. base sends the requests.
//
// A nil base is a clone of http.DefaultTransport that gives up a connection after 3 s, and an answer whose header has not come after 30 s.
// A base of your own needs such limits, too: an instance that hangs stays in the list as long as its session lives.
//
// The error is framework.ErrBadArgument if watch or strategy is nil.
func New[T any](watch *discovery.Watch[T], strategy discovery.Strategy[T], base http.RoundTripper) (*Transport[T], error) {
	if watch == nil || strategy == nil {
		return nil, fmt.Errorf("httpclient: %w: nil watch or strategy", framework.ErrBadArgument)
	}
	if base == nil {
		base = defaultBase()
	}
	return &Transport[T]{watch, strategy, base}, nil
}

func defaultBase() *http.Transport {
	base := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok { // programs may replace it
		base = standard.Clone()
	}
	base.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	base.ResponseHeaderTimeout = headerTimeout
	return base
}

// CloseIdleConnections is called by http.Client.CloseIdleConnections.
func (t *Transport[T]) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip sends a request to an instance, and to another one if that fails: see the package comment. The scheme https uses the SSL
// ports of instances, and needs a base with TLSClientConfig.ServerName: otherwise ZooKeeper would say whose certificate is right. http uses the
// other ports. Instances without that port or without an address are left out.
//
// Errors are that of the last try, discovery.ErrNoInstance if there was none to send the request to, framework.ErrBadArgument for another
// scheme, for https without a name and for a header that HTTP does not allow, and that of the request's context or body.
func (t *Transport[T]) RoundTrip(request *http.Request) (*http.Response, error) {
	err := t.check(request)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	tried := map[string]bool{} // by path
	for {
		i, host, ends := t.pick(request, tried)
		if ends != nil {
			if err == nil { // nothing was sent, so nobody has closed it
				closeBody(request)
			}
			return nil, cmp.Or(err, ends)
		}
		try := request.Clone(request.Context())
		if len(tried) > 0 && request.GetBody != nil {
			body, failed := request.GetBody()
			if failed != nil {
				return nil, failed
			}
			try.Body = body
		}
		if try.Body != nil && try.Body != http.NoBody {
			try.Body = upload{try.Body}
		}
		tried[i.Path()] = true
		try.Host = cmp.Or(request.Host, request.URL.Host)
		try.URL.Host = host
		var answer *http.Response
		if answer, err = t.base.RoundTrip(try); err == nil {
			answer.Request = request
			return answer, nil
		}
		var unread *bodyError
		if request.Context().Err() != nil || errors.As(err, &unread) { // it is the caller's, and says nothing of the instance
			return nil, err
		}
		t.watch.Down(i)
		if !repeatable(request, err) {
			return nil, err
		}
	}
}

func (t *Transport[T]) check(request *http.Request) error {
	switch request.URL.Scheme {
	case "http":
	case "https":
		if base, ok := t.base.(*http.Transport); ok && (base.TLSClientConfig == nil || base.TLSClientConfig.ServerName == "") {
			return fmt.Errorf("httpclient: %w: https needs a base with TLSClientConfig.ServerName", framework.ErrBadArgument)
		}
	default:
		return fmt.Errorf("httpclient: %w: scheme %q", framework.ErrBadArgument, request.URL.Scheme)
	}
	for name, values := range request.Header { // net/http would refuse them at each instance
		if name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(strings.Join(values, ""), notInValue) {
			return fmt.Errorf("httpclient: %w: header %q", framework.ErrBadArgument, name)
		}
	}
	return nil
}

func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// upload is the body of a request. It says of an error that it came from there.
type upload struct{ io.ReadCloser }

func (u upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// pick chooses one of the instances that were not tried.
func (t *Transport[T]) pick(request *http.Request, tried map[string]bool) (i discovery.Instance[T], host string, err error) {
	none := false
	i, err = t.watch.Pick(func(turn discovery.Turn, among []*discovery.Instance[T]) int {
		var left []*discovery.Instance[T]
		var at []int
		for n, i := range among {
			if !tried[i.Path()] && hostOf(*i, request.URL.Scheme) != "" {
				left, at = append(left, i), append(at, n)
			}
		}
		if none = len(left) == 0; none {
			return 0
		}
		chosen := t.strategy(turn, left)
		if chosen < 0 || chosen >= len(left) {
			return -1 // Pick says what is wrong
		}
		return at[chosen]
	})
	if none {
		err = fmt.Errorf("httpclient: %w", discovery.ErrNoInstance)
	}
	return i, hostOf(i, request.URL.Scheme), err
}

// hostOf is where an instance takes requests of a scheme, or "".
func hostOf[T any](i discovery.Instance[T], scheme string) string {
	port := i.Port
	if scheme == "https" {
		port = i.SSLPort
	}
	if i.Address == "" || port == 0 {
		return ""
	}
	return net.JoinHostPort(i.Address, strconv.Itoa(port))
}

// repeatable reports whether a request that failed with err may be sent again.
func repeatable(request *http.Request, err error) bool {
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		return false
	}
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "dial" { // nothing was sent
		return true
	}
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
