package engine

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/engine/wire"
)

// Watch is a framework.Watch, which fires once.
type Watch struct {
	shared  *wire.Watch
	client  Client
	session *Session
}

// Done returns a channel that is closed when the watch has fired.
func (w *Watch) Done() <-chan struct{} { return w.shared.Done() }

// Event returns the event of [wire.Watch.Event] with the caller's path.
func (w *Watch) Event() zk.Event {
	event := w.shared.Event()
	event.Path = w.client.Unreal(event.Path)
	return event
}

// OnFire calls f with the event that fires the watch: see [wire.Watch.OnFire]. session is the
// session in which the watch was set. The path of the event is the server's.
func (w *Watch) OnFire(f func(event zk.Event, session *Session)) {
	session := w.session
	w.shared.OnFire(func(event zk.Event) { f(event, session) })
}

// Watched sends a read that sets a watch, and returns its result and the watch: see [wire.Watched].
func Watched[T any](ctx context.Context, c Client, l *Connection, path string, kind wire.WatchKind, ask wire.Reading[T]) (T, *Watch, error) {
	value, w, err := wire.Watched(ctx, l.Conn, path, kind, ask)
	return value, &Watch{w, c, l.session}, err
}

// AddWatch sets a persistent watch on a path of the namespace, and waits for the answer.
func (c Client) AddWatch(ctx context.Context, l *Connection, path string, mode wire.Mode, f func(zk.Event)) (*wire.PersistentWatch, error) {
	return l.Conn.AddWatch(ctx, c.Real(path), mode, c.watcher(f))
}

// watcher returns a function for events with the server's paths, which calls f, a function of a
// user.
func (c Client) watcher(f func(zk.Event)) func(zk.Event) {
	return func(event zk.Event) {
		event.Path = c.Unreal(event.Path)
		defer c.Recover("watch function", event.Path)
		f(event)
	}
}
