package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// targets is an element of what Prometheus' http_sd reads.
type targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// http serves all enabled instances at /, and those of one service at /name, until ctx ends.
func (t *tool) http(ctx context.Context, args []string) error {
	fs := newFlags("zkdiscover http", "[-listen address]", t.stderr)
	listen := fs.String("listen", "127.0.0.1:8080", "`address` to listen on")
	if err := parse(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return usageError("unexpected argument %q", fs.Arg(0))
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "serving http_sd at http://%s\n", l.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{name...}", func(w http.ResponseWriter, r *http.Request) {
		list, err := t.targets(r.Context(), r.PathValue("name"))
		if err != nil { // Prometheus keeps its last list
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list) // else the client is gone
	})
	s := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends requests that wait
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Close
	select {
	case <-ctx.Done():
		err = s.Close()
		<-ended
	case err = <-ended:
	}
	return err
}

// targets lists the instances of a service, or of all if name is empty.
func (t *tool) targets(ctx context.Context, name string) ([]targets, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	names, every := []string{name}, name == ""
	if every {
		var err error
		if names, err = t.d.Names(ctx); err != nil {
			return nil, err
		}
	}
	all := []targets{}
	for _, name := range names {
		list, err := t.d.Lookup(ctx, name)
		if every && errors.Is(err, zk.ErrNoAuth) { // it is no reason to hide the others
			fmt.Fprintf(t.stderr, "zkdiscover: %v\n", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			if i.Disabled || i.Address == "" || i.Port == 0 && i.SSLPort == 0 {
				continue
			}
			labels := map[string]string{"__meta_curator_service": name, "__meta_curator_id": i.ID}
			fields := metadata(i)
			for _, key := range slices.Sorted(maps.Keys(fields)) { // in order, so that of two keys with one label the same one wins
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

// metadata is that of Spring's and Dubbo's payloads, or the text fields of another one.
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

// label replaces what the name of a label cannot have.
func label(name string) string {
	text := []byte(name)
	for n, c := range text {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			text[n] = '_'
		}
	}
	return string(text)
}
