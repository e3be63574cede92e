package gssapi

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// ticket is a client's ticket for a service.
type ticket struct {
	client types.PrincipalName
	realm  string // the realm of the client
	ticket messages.Ticket
	key    types.EncryptionKey
	end    time.Time
}

// login returns a client of the KDC and its ticket-granting ticket.
type login func(conf *config.Config) (*client.Client, *ticket, error)

func withKeytab(principal, file string) login {
	return func(conf *config.Config) (*client.Client, *ticket, error) {
		keys, err := keytab.Load(file)
		if err != nil {
			return nil, nil, fmt.Errorf("keytab %s: %w", file, err)
		}
		name, realm := split(principal, conf)
		return logIn(client.NewWithKeytab(name, realm, keys, conf, client.DisablePAFXFAST(true)))
	}
}

func withPassword(principal, password string) login {
	return func(conf *config.Config) (*client.Client, *ticket, error) {
		name, realm := split(principal, conf)
		return logIn(client.NewWithPassword(name, realm, password, conf, client.DisablePAFXFAST(true)))
	}
}

func withCache(file string) login {
	return func(conf *config.Config) (*client.Client, *ticket, error) {
		cache, err := credentials.LoadCCache(file)
		if err != nil {
			return nil, nil, fmt.Errorf("credentials cache %s: %w", file, err)
		}
		cl, err := client.NewFromCCache(cache, conf)
		if err != nil {
			return nil, nil, fmt.Errorf("credentials cache %s: %w", file, err)
		}
		entry, _ := cache.GetEntry(granting(cache.GetClientRealm())) // NewFromCCache has found it
		if time.Now().After(entry.EndTime) {
			return nil, nil, fmt.Errorf("credentials cache %s: the ticket expired at %s", file, entry.EndTime.Format(time.RFC3339))
		}
		tgt := &ticket{key: entry.Key, end: entry.EndTime}
		if err := tgt.ticket.Unmarshal(entry.Ticket); err != nil {
			return nil, nil, fmt.Errorf("credentials cache %s: %w", file, err)
		}
		return cl, tgt, nil
	}
}

// split returns the name and the realm of a principal.
func split(principal string, conf *config.Config) (name, realm string) {
	if at := strings.LastIndexByte(principal, '@'); at >= 0 {
		return principal[:at], principal[at+1:]
	}
	return principal, conf.LibDefaults.DefaultRealm
}

// granting is the principal of the tickets that a realm's KDC grants tickets for.
func granting(realm string) types.PrincipalName {
	return types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: []string{"krbtgt", realm}}
}

// logIn asks for a ticket-granting ticket. The client's Login would do so too, and start a
// goroutine that renews the ticket.
func logIn(cl *client.Client) (*client.Client, *ticket, error) {
	realm := cl.Credentials.Domain()
	request, err := messages.NewASReqForTGT(realm, cl.Config, cl.Credentials.CName())
	if err != nil {
		return nil, nil, err
	}
	reply, err := cl.ASExchange(realm, request, 0)
	if err != nil {
		return nil, nil, err
	}
	return cl, &ticket{ticket: reply.Ticket, key: reply.DecryptedEncPart.Key, end: reply.DecryptedEncPart.EndTime}, nil
}

// errRefused is returned when a KDC has refused a request.
var errRefused = errors.New("the KDC refused the request")

// askKDC returns a new ticket for a service.
//
// Errors are
//   - the error of a file that cannot be read;
//   - errRefused if a KDC has refused the request;
//   - zk.ErrNoServer if no KDC has answered.
func askKDC(file string, login login, service, host string) (t *ticket, err error) {
	defer func() {
		// The library does not check the lengths in files and messages.
		if p := recover(); p != nil {
			err = fmt.Errorf("bad message or file: %v", p)
		}
	}()
	conf, err := config.Load(file)
	if unsupported := (config.UnsupportedDirective{}); err != nil && !errors.As(err, &unsupported) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	cl, tgt, err := login(conf)
	if err != nil {
		return nil, judge(err)
	}
	defer cl.Destroy() // a referral to another realm has started a goroutine that renews
	name := types.PrincipalName{NameType: nametype.KRB_NT_SRV_HST, NameString: []string{service, host}}
	realm := cl.Credentials.Domain()
	if other := conf.ResolveRealm(host); other != "" && other != realm {
		if tgt, err = grant(cl, realm, tgt, granting(other)); err != nil {
			return nil, judge(err)
		}
		realm = other
	}
	if t, err = grant(cl, realm, tgt, name); err != nil {
		return nil, judge(err)
	}
	t.client, t.realm = cl.Credentials.CName(), cl.Credentials.Domain()
	return t, nil
}

// grant asks the KDC of a realm for a ticket.
func grant(cl *client.Client, realm string, tgt *ticket, service types.PrincipalName) (*ticket, error) {
	_, reply, err := cl.TGSREQGenerateAndExchange(service, realm, tgt.ticket, tgt.key, false)
	if err != nil {
		return nil, err
	}
	return &ticket{ticket: reply.Ticket, key: reply.DecryptedEncPart.Key, end: reply.DecryptedEncPart.EndTime}, nil
}

// judge adds errRefused or zk.ErrNoServer to an error of package gokrb5.
func judge(err error) error {
	var e krberror.Krberror
	switch {
	case !errors.As(err, &e):
		return err
	case e.RootCause == krberror.KDCError:
		return fmt.Errorf("%w: %w", errRefused, err)
	case e.RootCause == krberror.NetworkingError:
		return fmt.Errorf("%w: %w", zk.ErrNoServer, err)
	}
	return err
}
