package gssapi_test

import (
	"context"
	"fmt"
	"net"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/sasl/gssapi"
)

func Example() {
	mechanism := gssapi.Keytab("orders/host7.example.com@EXAMPLE.COM", "/etc/orders.keytab")
	client, err := framework.New([]string{"zk1.example.com:2181", "zk2.example.com:2181"}, framework.WithSASL(mechanism))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	// The client logs in on each connection.
}

// The list of servers has addresses. The principal of each server has the name that DNS knows for
// the address.
func ExampleWithHost() {
	name := func(ctx context.Context, address string) (string, error) {
		names, err := net.DefaultResolver.LookupAddr(ctx, address)
		if err != nil {
			return "", err
		}
		return names[0], nil
	}
	mechanism := gssapi.Keytab("orders/host7.example.com@EXAMPLE.COM", "/etc/orders.keytab", gssapi.WithHost(name))
	client, err := framework.New([]string{"10.0.0.1:2181", "10.0.0.2:2181"}, framework.WithSASL(mechanism))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}

// A program with a separate krb5.conf, which may differ from the machine's.
func ExampleWithConfig() {
	mechanism := gssapi.Keytab("orders@EXAMPLE.COM", "/etc/orders.keytab", gssapi.WithConfig("/etc/orders/krb5.conf"))
	client, err := framework.New([]string{"zk1.example.com:2181"}, framework.WithSASL(mechanism))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
}
