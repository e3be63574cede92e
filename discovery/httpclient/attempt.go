package httpclient

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// failure is the kind of a failed attempt.
type failure int

const (
	notSent   failure = iota // the base has refused the request
	givenUp                  // the caller gave up
	wrongName                // the certificate was verified by a name from ZooKeeper
	timedOut                 // the instance owes the header of its answer after http.Client.Timeout
	refused                  // the request was not sent
	brokenOff                // the instance may have the request
)

// attempt is a request to one instance.
type attempt struct {
	request *http.Request
	body    *upload // nil: none

	standard bool // the base is an *http.Transport, whose configuration is known

	// Reports of the base: it asks for a connection, has one, and uses the wrong name.
	asked, connected, misnamed atomic.Bool
}

// newAttempt returns an attempt to send a request by base. again says that its body has been read.
func newAttempt(request *http.Request, base http.RoundTripper, again bool) (*attempt, error) {
	a := &attempt{}
	_, a.standard = base.(*http.Transport)
	a.request = request.Clone(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { a.asked.Store(true) },
		GotConn: func(info httptrace.GotConnInfo) {
			a.connected.Store(true)
			a.verify(info.Conn)
		},
	}))
	if again && request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		a.request.Body = body
	}
	if a.request.Body != nil && a.request.Body != http.NoBody {
		a.body = &upload{ReadCloser: a.request.Body, ctx: request.Context(), want: request.ContentLength}
		a.request.Body = a.body
	}
	return a, nil
}

// verify ends a connection whose certificate was verified by the address of the instance, before
// the request is sent.
func (a *attempt) verify(conn net.Conn) {
	secure, ok := conn.(*tls.Conn)
	if !ok || a.standard {
		return
	}
	name := secure.ConnectionState().ServerName // "" if that is an IP address
	if name == "" || strings.EqualFold(name, a.request.URL.Hostname()) {
		a.misnamed.Store(true)
		_ = conn.Close()
	}
}

// failure returns the kind of an error of the base.
func (a *attempt) failure(err error) failure {
	ctx := a.request.Context()
	//lint:ignore SA1019 http.Client sets it for its Timeout
	cancel := a.request.Cancel
	dial := (*net.OpError)(nil)
	unread := (*bodyError)(nil)
	switch {
	case a.misnamed.Load():
		return wrongName
	case errors.As(err, &unread) || a.body.wrong():
		return givenUp
	case passed(ctx) && cancel != nil && a.asked.Load() && a.body.sent():
		return timedOut
	case ctx.Err() != nil || closed(cancel):
		return givenUp
	case a.standard && !a.asked.Load():
		return notSent
	case a.asked.Load() && !a.connected.Load(), errors.As(err, &dial) && dial.Op == "dial":
		return refused
	}
	return brokenOff
}

// passed reports whether the deadline has passed.
func passed(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return limited && !time.Now().Before(deadline)
}

func closed(cancel <-chan struct{}) bool {
	select {
	case <-cancel:
		return true
	default:
		return false
	}
}

// upload is the body of a request. It marks its errors, and counts the bytes that were read.
type upload struct {
	io.ReadCloser
	ctx  context.Context // the context of the request
	want int64           // the length that the request announces; 0 and -1: unknown
	read atomic.Int64
	done atomic.Bool // all was read, in time
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	read := u.read.Add(int64(n))
	if (err == io.EOF || u.want > 0 && read >= u.want) && !passed(u.ctx) {
		u.done.Store(true)
	}
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

// sent reports whether all of the body was read. A nil upload is empty.
func (u *upload) sent() bool { return u == nil || u.done.Load() }

// wrong reports whether the body had another length than announced.
func (u *upload) wrong() bool {
	return u != nil && u.want > 0 && u.done.Load() && u.read.Load() != u.want
}

// bodyError is an error of the body of a request.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error { return e.error }
