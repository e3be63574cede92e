package dubbo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/discovery"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/engine"
	"github.com/gocurator/curator/internal/operr"
	"github.com/gocurator/curator/internal/wait"
)

// Application is a process that offers gRPC services to consumers of Dubbo.
type Application struct {
	Name     string // application name, equal for all its instances
	Host     string // host name or IP address
	Port     int    // port of the gRPC server
	Services []Service
}

// Service is a gRPC service of an [Application].
type Service struct {
	Name    string   // full name, such as demo.Greeter, equal to the Java interface
	Methods []string // method names, as in Java
}

// Option configures [Register].
type Option func(*config) error

type config struct {
	base string // parent of the applications
	root string // parent of the metadata and the mapping
}

// WithGroup sets the group of the registry, as in Dubbo's zookeeper://host:2181?group=abc, for
// consumers with the same group. All nodes of the application are below /abc. group must be one
// element of a path.
func WithGroup(group string) Option {
	return func(c *config) error {
		if group == "" || strings.Contains(group, "/") {
			return fmt.Errorf("%w: invalid group %q", framework.ErrBadArgument, group)
		}
		c.base, c.root = "/"+group, "/"+group
		return framework.ValidatePath(c.base)
	}
}

// The metadata have the form of this version of Dubbo.
const (
	protocol = "tri"
	version  = "2.0.2" // the version of Dubbo's protocol
	release  = "3.3.5"
)

// metadata describes the services of an application. Dubbo calls it MetadataInfo.
type metadata struct {
	App      string                 `json:"app"`
	Revision string                 `json:"revision"`
	Services map[string]serviceInfo `json:"services"`
}

type serviceInfo struct {
	Name     string            `json:"name"`
	Params   map[string]string `json:"params"`
	Path     string            `json:"path"`
	Port     int               `json:"port"`
	Protocol string            `json:"protocol"`
}

// metadataOf returns the metadata of an application, with the revision.
func metadataOf(app Application) metadata {
	m := metadata{App: app.Name, Services: make(map[string]serviceInfo)}
	for _, s := range app.Services {
		m.Services[s.Name+":"+protocol] = serviceInfo{
			Name: s.Name, Path: s.Name, Port: app.Port, Protocol: protocol,
			Params: map[string]string{
				"application": app.Name, "dubbo": version, "interface": s.Name, "release": release, "side": "provider",
				"methods": strings.Join(slices.Sorted(slices.Values(s.Methods)), ","),
			},
		}
	}
	m.Revision = m.hash()
	return m
}

func (m metadata) encode() []byte {
	data, _ := json.Marshal(m) // every string can be encoded
	return data
}

// isOurs reports whether this package has written the metadata: the revision is its hash of them.
func (m metadata) isOurs() bool {
	bare := m
	bare.Revision = ""
	return m.Revision == bare.hash()
}

func (m metadata) hash() string {
	sum := sha256.Sum256(m.encode())
	return hex.EncodeToString(sum[:16])
}

// nothing is the revision of an instance that offers nothing. Consumers ignore the instance.
const nothing = "0"

// forDubboGo returns the metadata for dubbo-go, which reads them where consumers with the group of
// the root have their instances. They are also an instance, which consumers ignore: on a node that
// is no instance, consumers in Java fail.
func (m metadata) forDubboGo(app Application) []byte {
	type payload struct {
		Class string `json:"@class"`
		discovery.Metadata
	}
	i := discovery.Dubbo(app.Name, "0.0.0.0", app.Port, map[string]string{revisionKey: nothing})
	i.Payload.ID = m.Revision
	data, _ := json.Marshal(struct {
		Name             string  `json:"name"`
		ID               string  `json:"id"`
		Address          string  `json:"address"`
		Port             int     `json:"port"`
		SSLPort          *int    `json:"sslPort"`
		Payload          payload `json:"payload"`
		RegistrationTime int64   `json:"registrationTimeUTC"` // none: all processes write the same
		Type             string  `json:"serviceType"`
		URISpec          *int    `json:"uriSpec"`
		metadata
	}{Name: i.Name, ID: m.Revision, Address: i.Address, Port: i.Port, Type: string(discovery.Permanent),
		Payload: payload{i.PayloadClass, i.Payload}, metadata: m})
	return data
}

// reserved lists the names of Dubbo's nodes that are siblings of the nodes of applications.
var reserved = []string{"config", "mapping", "metadata"}

// check refuses an application that consumers could not call.
func (app Application) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{framework.ErrBadArgument}, args...)...)
	}
	switch {
	case app.Name == "" || strings.ContainsAny(app.Name, ",/") || slices.Contains(reserved, app.Name):
		return bad("invalid application name %q", app.Name) // the mapping is a list with commas
	case app.Host == "" || app.Port <= 0 || app.Port > 65535:
		return bad("host %q and port %d", app.Host, app.Port)
	case len(app.Services) == 0:
		return bad("no services")
	}
	seen := map[string]bool{}
	for _, s := range app.Services {
		if s.Name == "" || strings.Contains(s.Name, "/") || seen[s.Name] {
			return bad("invalid service name %q", s.Name)
		}
		if len(s.Methods) == 0 || slices.ContainsFunc(s.Methods, func(m string) bool { return m == "" || strings.ContainsAny(m, ",/") }) {
			return bad("methods %q of service %q", s.Methods, s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// Registration is an application registered by [Register]. All methods are safe for concurrent use.
type Registration struct {
	client    *framework.Client
	cfg       config
	app       Application
	revision  string
	d         *discovery.Discovery[discovery.Metadata]
	instance  *discovery.Registration[discovery.Metadata]
	nodes     []node
	stop      context.CancelFunc
	keepers   sync.WaitGroup
	closeOnce func() error

	mu      sync.Mutex // guards problem
	problem map[string]error
}

// node is a kept persistent node. ensure writes it, and returns a channel that is closed when it
// may have changed.
type node struct {
	path   string
	ensure func(ctx context.Context, client *framework.Client) (<-chan struct{}, error)
}

// Register registers an application, and returns when consumers can find it. ctx limits only this
// wait. The nodes are kept until [Registration.Close].
//
// If Register fails, it deletes its nodes, and its error names the nodes that may remain.
//
// Errors are
//   - framework.ErrBadArgument if client is nil, an option is invalid, or consumers could not call
//     the application: a name, the host, the port or a method is invalid, or there are no services;
//   - framework.ErrBadPath if a name is not valid in a path;
//   - framework.ErrTooLong if the services are too long for a node;
//   - discovery.ErrOtherProfile if the application's name has an instance of another profile;
//   - discovery.ErrNested if another service lies below the application's name;
//   - the error of ctx if ctx is done first, wrapped with the reason of the wait, such as
//     zk.ErrNoServer;
//   - zk.ErrNoServer if no server was reached, zk.ErrConnectionClosed if a reply was lost, or
//     zk.ErrSessionExpired if the session expired, and no retry of the check of other instances
//     succeeded;
//   - retry.ErrExhausted, which wraps that error, if the check was retried;
//   - framework.ErrClosed if the client is closed, or shuts down;
//   - framework.ErrSessionLost if the client is a view of a lost session: see framework.Client.In;
//   - the server's errors, such as zk.ErrNoAuth.
func Register(ctx context.Context, client *framework.Client, app Application, opts ...Option) (_ *Registration, err error) {
	cfg := config{base: "/services", root: "/dubbo"}
	defer func() { err = operr.New("register", framework.Join(cfg.base, app.Name), err) }()
	if client == nil {
		return nil, fmt.Errorf("%w: nil client", framework.ErrBadArgument)
	}
	for _, option := range opts {
		if option == nil {
			return nil, fmt.Errorf("%w: nil option", framework.ErrBadArgument)
		}
		if err := option(&cfg); err != nil {
			return nil, err
		}
	}
	if err := app.check(); err != nil {
		return nil, err
	}
	client = engine.Uncompressed(client) // Dubbo reads no compressed nodes
	m := metadataOf(app)
	r := &Registration{client: client, cfg: cfg, app: app, revision: m.Revision, problem: make(map[string]error)}
	if r.d, err = discovery.New[discovery.Metadata](client, cfg.base); err != nil {
		return nil, err
	}
	for n, path := range r.metadataPaths(m.Revision) {
		data := [][]byte{m.encode(), m.forDubboGo(app)}[n]
		r.nodes = append(r.nodes, node{path, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			return ensureData(ctx, in, path, data)
		}})
	}
	for _, s := range app.Services {
		path := framework.Join(cfg.root, "mapping/"+s.Name)
		r.nodes = append(r.nodes, node{path, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			return ensureMapped(ctx, in, path, app.Name)
		}})
	}
	r.closeOnce = sync.OnceValue(r.close)
	registered := false
	defer func() { // even if an observer panics
		if !registered {
			err = operr.Join(err, r.closeOnce())
		}
	}()
	for _, n := range r.nodes {
		if err := framework.ValidatePath(n.path); err != nil {
			return nil, err
		}
		// Follow waits for a server.
		err := client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			_, err := n.ensure(ctx, in)
			return nil, err
		})
		if err != nil {
			return nil, err
		}
	}
	if r.instance, err = r.d.Register(ctx, instanceOf(app, m.Revision)); err != nil {
		return nil, err
	}
	keeping, stop := context.WithCancel(context.Background())
	r.stop = stop
	for _, n := range r.nodes {
		r.keepers.Go(func() { r.keep(keeping, n) }) // ends with Close or the client
	}
	r.keepers.Go(func() { _ = r.sweep(keeping) }) // the next process tries again
	registered = true
	return r, nil
}

// Keys of the metadata of an instance.
const (
	revisionKey = "dubbo.metadata.revision"
	storageKey  = "dubbo.metadata.storage-type"
)

// instanceOf returns the instance of an application.
func instanceOf(app Application, revision string) discovery.Instance[discovery.Metadata] {
	endpoints, _ := json.Marshal([]map[string]any{{"port": app.Port, "protocol": protocol}})
	return discovery.Dubbo(app.Name, app.Host, app.Port, map[string]string{
		"dubbo.endpoints": string(endpoints),
		revisionKey:       revision,
		storageKey:        "remote",
		"timestamp":       strconv.FormatInt(time.Now().UnixMilli(), 10),
	})
}

// metadataPaths returns the nodes of a revision: for Java, and for dubbo-go.
func (r *Registration) metadataPaths(revision string) []string {
	return []string{
		framework.Join(r.cfg.root, "metadata/"+r.app.Name+"/"+revision),
		framework.Join(r.cfg.root, r.app.Name+"/"+revision),
	}
}

// keepPause is the pause after a permanent error, such as a missing permission.
const keepPause = 5 * time.Second

// keep keeps a node until ctx ends.
func (r *Registration) keep(ctx context.Context, n node) {
	for {
		err := r.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
			changed, err := n.ensure(ctx, in)
			r.report(n.path, err)
			return changed, err
		})
		if ctx.Err() != nil {
			return
		}
		r.report(n.path, err)
		if errors.Is(err, framework.ErrClosed) || wait.Sleep(ctx, keepPause) != nil {
			return
		}
	}
}

func (r *Registration) report(path string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem[path] = err
}

// ensureData creates or writes a node, unless it has the data.
func ensureData(ctx context.Context, client *framework.Client, path string, want []byte) (<-chan struct{}, error) {
	for {
		data, stat, watch, err := client.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			_, err = client.Create(ctx, path, want, framework.PersistentParents())
			if errors.Is(err, zk.ErrNoNode) { // no parent can be created
				return nil, err
			}
		case err == nil && bytes.Equal(data, want):
			return watch.Done(), nil
		case err == nil:
			_, err = client.Set(ctx, path, want, framework.IfVersion(stat.Version))
		}
		if err != nil && !overtaken(err) {
			return nil, err
		}
	}
}

// ensureMapped adds an application to the mapping of an interface, unless the mapping has it.
func ensureMapped(ctx context.Context, client *framework.Client, path, app string) (<-chan struct{}, error) {
	for {
		data, stat, watch, err := client.GetW(ctx, path)
		apps := split(data)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			_, err = client.Create(ctx, path, []byte(app), framework.PersistentParents())
			if errors.Is(err, zk.ErrNoNode) { // no parent can be created
				return nil, err
			}
		case err == nil && slices.Contains(apps, app):
			return watch.Done(), nil
		case err == nil:
			_, err = client.Set(ctx, path, []byte(strings.Join(append(apps, app), ",")), framework.IfVersion(stat.Version))
		}
		if err != nil && !overtaken(err) {
			return nil, err
		}
	}
}

// unmap removes an application from the mapping of an interface, and the mapping if it was the
// last.
func unmap(ctx context.Context, client *framework.Client, path, app string) error {
	for {
		data, stat, err := client.Get(ctx, path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		apps := split(data)
		if err != nil || !slices.Contains(apps, app) {
			return err
		}
		if left := slices.DeleteFunc(apps, func(a string) bool { return a == app }); len(left) > 0 {
			_, err = client.Set(ctx, path, []byte(strings.Join(left, ",")), framework.IfVersion(stat.Version))
		} else {
			err = client.Delete(ctx, path, framework.IfVersion(stat.Version))
		}
		if !overtaken(err) {
			return err
		}
	}
}

// overtaken reports whether another client was faster.
func overtaken(err error) bool {
	return errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode)
}

// split returns the applications of a mapping.
func split(data []byte) (apps []string) {
	for app := range strings.SplitSeq(string(data), ",") {
		if app = strings.TrimSpace(app); app != "" {
			apps = append(apps, app)
		}
	}
	return apps
}

// Revision returns the revision of the application, a hash of its services.
func (r *Registration) Revision() string { return r.revision }

// Path returns the path of the instance's node.
func (r *Registration) Path() string { return r.instance.Path() }

// Problem returns nil while all nodes exist with the registered data, and otherwise the reason.
func (r *Registration) Problem() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if err := r.problem[n.path]; err != nil {
			return err
		}
	}
	return r.instance.Problem()
}

// Err returns nil while the registration is kept. Then its error wraps framework.ErrEnded after
// Close, framework.ErrClosed after the client was closed, and framework.ErrSessionLost if the
// client is a view of a lost session (see framework.Client.In).
func (r *Registration) Err() error { return r.instance.Err() }

// Drain unregisters the instance, waits for d or until ctx is done, and then deletes the nodes that
// no other instance of the application uses. Call it before the server stops.
//
// Drain joins its errors. Errors are
//   - the error of ctx if ctx is done before d has passed: the instance is unregistered;
//   - context.DeadlineExceeded if a deletion is not confirmed after 5 s. It also wraps
//     zk.ErrNoServer if no server can be reached;
//   - the server's error if it refuses a deletion, such as zk.ErrNoAuth;
//   - framework.ErrClosed if the client was closed first.
//
// The error names the nodes that may remain. The client deletes the instance's node in the
// background; the others are harmless, and a later process of the application deletes them.
func (r *Registration) Drain(ctx context.Context, d time.Duration) error {
	return operr.New("drain", r.Path(), operr.Join(operr.Bare(r.instance.Drain(ctx, d)), r.closeOnce()))
}

// Close unregisters the instance, and deletes the nodes that no other instance of the application
// uses. It returns when the servers have confirmed the deletions, or after 5 s. Later calls return
// the same error.
//
// Errors are
//   - context.DeadlineExceeded if a deletion is not confirmed after 5 s. It also wraps
//     zk.ErrNoServer if no server can be reached;
//   - the server's error if it refuses a deletion, such as zk.ErrNoAuth;
//   - framework.ErrClosed if the client was closed first.
//
// The error names the nodes that may remain. The client deletes the instance's node in the
// background; the others are harmless, and a later process of the application deletes them.
func (r *Registration) Close() error { return operr.New("close", r.Path(), r.closeOnce()) }

// closeTimeout limits Close. It equals the limit of node.Node.Close.
const closeTimeout = 5 * time.Second

func (r *Registration) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if r.instance != nil {
		err = r.instance.Close()
	} else {
		err = r.withdrawn(ctx)
	}
	if r.stop != nil {
		r.stop()
	}
	r.keepers.Wait()
	return operr.Join(operr.Bare(err), r.clean(ctx))
}

// withdrawn waits until this session has no instance. A Register that has failed deletes its node
// in the background, and the instance uses the revision as long as the node exists.
func (r *Registration) withdrawn(ctx context.Context) error {
	path := framework.Join(framework.Join(r.cfg.base, r.app.Name), instanceOf(r.app, r.revision).ID)
	return r.client.Follow(ctx, func(ctx context.Context, in *framework.Client) (<-chan struct{}, error) {
		found, stat, watch, err := in.ExistsW(ctx, path)
		if err != nil || !found {
			return nil, err
		}
		if session, err := in.Session(ctx); err != nil || stat.EphemeralOwner != session.ID() {
			return nil, err
		}
		return watch.Done(), nil
	})
}

// clean deletes the nodes that no instance uses any more. Its error names each node that may
// remain.
func (r *Registration) clean(ctx context.Context) error {
	var err error
	var remain []string
	failed := func(path string, reason error) {
		if reason != nil {
			err, remain = reason, append(remain, path)
		}
	}
	r.deleteUnused(ctx, failed)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s may remain: %w", strings.Join(remain, ", "), operr.Bare(err))
}

// deleteUnused calls failed with the result for each node that it should delete.
func (r *Registration) deleteUnused(ctx context.Context, failed func(path string, err error)) {
	left, err := r.d.Lookup(ctx, r.app.Name)
	if err != nil {
		for _, n := range r.nodes {
			failed(n.path, err)
		}
		return
	}
	revisions := revisionsOf(left)
	offered, known := map[string]bool{}, true // interfaces of the instances that are left
	for revision := range revisions {
		data, _, err := r.client.Get(ctx, r.metadataPaths(revision)[0])
		var m metadata
		if err != nil || json.Unmarshal(data, &m) != nil {
			known = false // its metadata are in its own process
			continue
		}
		for _, s := range m.Services {
			offered[s.Name] = true
		}
	}
	for _, s := range r.app.Services {
		if known && !offered[s.Name] {
			path := framework.Join(r.cfg.root, "mapping/"+s.Name)
			failed(path, unmap(ctx, r.client, path, r.app.Name))
		}
	}
	if revisions[r.revision] {
		return
	}
	for _, path := range r.metadataPaths(r.revision) {
		dir, _ := framework.Split(path)
		failed(path, r.delete(ctx, path))
		failed(dir, r.delete(ctx, dir)) // if it is empty
	}
}

// delete deletes a node unless it has children. A missing node is not an error.
func (r *Registration) delete(ctx context.Context, path string) error {
	err := r.client.Delete(ctx, path)
	if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}

// revisionsOf returns the revisions of instances that offer a service.
func revisionsOf(list []discovery.Instance[discovery.Metadata]) map[string]bool {
	revisions := map[string]bool{}
	for _, i := range list {
		if revision := i.Payload.Metadata[revisionKey]; revision != "" && revision != nothing {
			revisions[revision] = true
		}
	}
	return revisions
}

// sweepAge is the age of an unused revision from which it is deleted. A younger one may be of a
// process that is about to register.
const sweepAge = time.Minute

// sweep deletes the revisions of crashed processes: a process on a random port has a revision of
// its own. The clock is the server's. A revision that is used after all is created again by its
// process.
func (r *Registration) sweep(ctx context.Context) error {
	_, now, err := r.client.Get(ctx, r.Path())
	if err != nil {
		return err
	}
	list, err := r.d.Lookup(ctx, r.app.Name)
	if err != nil {
		return err
	}
	used := revisionsOf(list)
	dir, _ := framework.Split(r.metadataPaths(r.revision)[0])
	all, _, err := r.client.Children(ctx, dir)
	if err != nil {
		return err
	}
	for _, revision := range all {
		if used[revision] {
			continue
		}
		paths := r.metadataPaths(revision)
		data, stat, err := r.client.Get(ctx, paths[0])
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		var m metadata
		if json.Unmarshal(data, &m) != nil || m.Revision != revision || !m.isOurs() || now.Mtime-stat.Mtime < sweepAge.Milliseconds() {
			continue
		}
		for _, path := range slices.Backward(paths) { // the first one leads to the other
			if err := r.delete(ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}
