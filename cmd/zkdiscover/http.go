package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/gocurator/curator/cmd/internal/cli"
)

// targets is an element of the list that Prometheus reads.
type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// server serves all enabled instances at /, and the instances of one service at /name.
type server struct {
	services
	listen string

	mu   sync.Mutex        // guards left
	left map[string]string // the target of each instance that was left out, by path
}

func (s *server) command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "http",
		Short: "Serve the instances to Prometheus (http_sd)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := cli.Interrupted(cmd.Context())
			defer stop()
			return s.run(ctx, a, cmd.OutOrStdout())
		},
	}
	s.flags(a, cmd.Flags())
	s.formatFlag(cmd.Flags())
	cmd.Flags().StringVar(&s.listen, "listen", "127.0.0.1:9999", "`address` to listen on")
	return cmd
}

// run serves until ctx ends: a signal is the normal end of a server.
func (s *server) run(ctx context.Context, a *cli.App, out io.Writer) error {
	client, err := s.New(a) // it serves errors while there is no server
	if err != nil {
		return err
	}
	t, err := s.tool(a, client.Client)
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "serving http_sd at http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{name...}", func(w http.ResponseWriter, r *http.Request) {
		list, err := s.targets(r.Context(), t, r.PathValue("name"))
		if err != nil { // Prometheus keeps its last list
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // fails only if the client has hung up
	})
	h := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends requests that wait
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }() // ends with Close
	select {
	case <-ctx.Done():
		err = h.Close()
		<-ended
	case err = <-ended:
	}
	return err
}

// targets lists the instances of a service, or of all if name is empty.
func (s *server) targets(ctx context.Context, t *tool, name string) ([]targets, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	names, every := []string{name}, name == ""
	if every {
		var err error
		if names, err = t.names(ctx); err != nil {
			return nil, err
		}
	}
	all := []targets{}
	for _, name := range names {
		list, err := t.d.Lookup(ctx, name)
		if every && errors.Is(err, zk.ErrNoAuth) { // it must not hide the others
			t.app.Say("%v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			if i.Disabled {
				continue
			}
			if !scrapable(i) {
				s.leaveOut(t, i)
				continue
			}
			labels := map[string]string{"__meta_curator_service": name, "__meta_curator_id": i.ID}
			fields := metadata(i)
			for _, key := range slices.Sorted(maps.Keys(fields)) { // in order, so that the same one of two keys with one label wins
				labels["__meta_curator_metadata_"+label(key)] = fields[key]
			}
			if i.Port == 0 {
				labels["__scheme__"] = "https"
			}
			all = append(all, targets{[]string{target(i)}, labels})
		}
	}
	return all, nil
}

// scrapable reports whether Prometheus accepts the instance's address and port as a target.
func scrapable(i instance) bool {
	host, _, err := net.SplitHostPort(target(i))
	if err != nil || host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == utf8.RuneError || strings.ContainsRune("/?#@[]\\", r)
	}) {
		return false
	}
	_, notIP := netip.ParseAddr(host)
	return notIP == nil || !strings.Contains(host, ":")
}

// leaveOut reports an instance that is not served, once for each of its targets.
func (s *server) leaveOut(t *tool, i instance) {
	address := fmt.Sprintf("address %q, port %d", i.Address, cmp.Or(i.Port, i.SSLPort))
	s.mu.Lock()
	known := s.left[i.Path()] == address
	if s.left == nil {
		s.left = make(map[string]string)
	}
	s.left[i.Path()] = address
	s.mu.Unlock()
	if !known {
		t.app.Say("%s is left out: Prometheus cannot scrape %s", i.Path(), address)
	}
}

// metadata returns the metadata of a payload of Spring or Dubbo, or the text fields of another
// payload.
func metadata(i instance) map[string]string {
	var fields map[string]any
	if json.Unmarshal(i.Payload, &fields) != nil {
		return nil
	}
	if inner, ok := fields["metadata"].(map[string]any); ok {
		fields = inner
	}
	texts := make(map[string]string)
	for key, value := range fields {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	}
	return texts
}

// label replaces the characters that the name of a label cannot have.
func label(name string) string {
	text := []byte(name)
	for n, c := range text {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			text[n] = '_'
		}
	}
	return string(text)
}
