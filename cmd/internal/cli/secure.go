package cli

import (
	"encoding/base64"
	"os"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/sasl"
)

// parseAuth parses a value of --auth: "scheme:credentials", or "@file" with such lines. The scheme
// sasl is DIGEST-MD5. Errors do not show the credentials.
func parseAuth(text string) ([]framework.Option, error) {
	lines, where := []string{text}, "--auth"
	if file, ok := strings.CutPrefix(text, "@"); ok {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, UsageError("--auth: %w", err)
		}
		lines, where = strings.Split(string(content), "\n"), "--auth @"+file
	}
	var opts []framework.Option
	for _, line := range lines {
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			continue
		}
		scheme, credentials, _ := strings.Cut(line, ":")
		if scheme == "" || credentials == "" || (scheme == "digest" || scheme == saslScheme) && !strings.Contains(credentials, ":") {
			return nil, UsageError("%s: credentials must look like digest:user:password", where)
		}
		if scheme == saslScheme {
			user, password, _ := strings.Cut(credentials, ":")
			opts = append(opts, framework.WithSASL(sasl.DigestMD5(user, password)))
			continue
		}
		opts = append(opts, framework.WithAuth(scheme, []byte(credentials)))
	}
	if len(opts) == 0 {
		return nil, UsageError("%s: no credentials", where)
	}
	return opts, nil
}

// saslScheme is the scheme of users of SASL in --auth and in ACLs.
const saslScheme = "sasl"

// tlsFiles are files in PEM.
type tlsFiles struct{ authorities, cert, key string }

// option returns the option of a client that reads the files again for each connection.
func (f tlsFiles) option() (framework.Option, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, UsageError("--cert and --key require each other")
	}
	return framework.WithTLSFiles(f.authorities, f.cert, f.key), nil
}

// creator is short for all rights for the creator of a node.
const creator = "creator"

// permissions maps the letters that zkCli uses in ACLs to permissions.
var permissions = map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}

// parseACL parses a list as in zkCli, "scheme:id:permissions,...". "creator" is short for
// "auth::cdrwa". Errors do not show the entries: one may have a password in the place of its hash.
func parseACL(text string) ([]zk.ACL, error) {
	var list []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		if entry == creator {
			entry = "auth::cdrwa"
		}
		refuse := func(reason string) error { return UsageError("--acl: entry %d: %s", len(list)+1, reason) }
		first, last := strings.Index(entry, ":"), strings.LastIndex(entry, ":")
		if first <= 0 || first == last {
			return nil, refuse("must look like world:anyone:cdrwa")
		}
		a := zk.ACL{Scheme: entry[:first], ID: entry[first+1 : last]}
		for _, letter := range entry[last+1:] {
			if permissions[letter] == 0 {
				return nil, refuse("the permissions at its end must be letters of cdrwa")
			}
			a.Perms |= permissions[letter]
		}
		switch {
		case a.Perms == 0:
			return nil, refuse("missing permissions at its end")
		case a.Scheme == "world" && a.ID != "anyone":
			return nil, refuse("the only id of world is anyone")
		case a.Scheme == "digest" && !isDigest(a.ID):
			return nil, refuse("an id of digest must be user:base64(SHA-1 of user:password)")
		}
		list = append(list, a)
	}
	return list, nil
}

// isDigest reports whether an id ends with a hash. No client could use a node with a password in
// its ACL.
func isDigest(id string) bool {
	_, hash, _ := strings.Cut(id, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return err == nil && len(sum) == 20
}
