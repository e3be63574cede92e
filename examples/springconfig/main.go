// Springconfig reads the configuration tree of Spring Cloud ZooKeeper with a cache, and prints it
// after each change.
//
// Spring reads four kinds of nodes, called contexts. In this list, a later context overrides an
// earlier one. Of two profiles, the last wins. Without a profile, Spring's profile is "default".
//
//	/config/application
//	/config/application,<profile>
//	/config/<application>
//	/config/<application>,<profile>
//
// The path below a context is the key, with a dot for each slash: db/url and db.url are one key.
// If one context has both nodes, the order of Spring's reads decides. A node with data is
// a property, even if it has children. A node without data is an empty string if it has no
// children, and no property otherwise.
//
// Spring also resolves placeholders such as ${db.user}, and finds camelCase by the key camel-case.
// This program does neither. Spring's command line and environment override the tree.
//
// The test expects what Spring Cloud ZooKeeper Config 5.0.1 with Spring Boot 4.0.7 returned for the
// same nodes on ZooKeeper 3.9.5, on 28 November 2026.
//
//	go run ./examples/springconfig -servers host:port,... -app orders -profiles prod,eu
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gocurator/curator/examples/internal/demo"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

const root = "/config" // spring.cloud.zookeeper.config.root

func main() {
	servers := demo.Servers()
	app, profiles := flag.String("app", "orders", "spring.application.name"), flag.String("profiles", "default", "spring.profiles.active")
	flag.Parse()
	demo.Main(func(ctx context.Context) error {
		list, stop, err := demo.Connect(ctx, os.Stdout, *servers)
		if err != nil {
			return err
		}
		defer stop()
		return run(ctx, list, contexts(*app, *profiles), func(now map[string]string) bool { fmt.Println(now); return true })
	})
}

// contexts returns the nodes that Spring reads. Later ones override earlier ones.
func contexts(app, profiles string) (list []string) {
	for _, name := range []string{"application", app} {
		for _, profile := range strings.Split(","+profiles, ",") { // the first is empty: no profile
			list = append(list, strings.TrimSuffix(root+"/"+name+","+profile, ","))
		}
	}
	return list
}

// run calls show with the properties, and again after each change, until show returns false.
func run(ctx context.Context, servers, contexts []string, show func(map[string]string) bool) error {
	client, err := framework.New(servers)
	if err != nil {
		return err
	}
	defer client.Close()
	c, err := cache.New(client, root, cache.WithFilter(func(path string) bool { // leaves out other applications
		return slices.ContainsFunc(contexts, func(context string) bool { return strings.HasPrefix(path+"/", context+"/") })
	}))
	if err != nil {
		return err
	}
	defer c.Close()
	loaded := false
	for change, err := range c.Changes(ctx) {
		loaded = loaded || change.Kind == cache.Loaded
		if err != nil || loaded && !show(properties(c, contexts)) {
			return err
		}
	}
	return nil
}

// properties returns the properties in the contexts.
func properties(c *cache.Cache, contexts []string) map[string]string {
	all := map[string]string{}
	for _, context := range contexts {
		add(all, c, context, len(context)+1)
	}
	return all
}

// add adds the properties below path and reports whether it has children. A key begins at n.
func add(to map[string]string, c *cache.Cache, path string, n int) (parent bool) {
	for child := range c.Children(path) {
		if !add(to, c, child.Path, n) || len(child.Data) > 0 {
			to[strings.ReplaceAll(child.Path[n:], "/", ".")] = string(child.Data)
		}
		parent = true
	}
	return parent
}
