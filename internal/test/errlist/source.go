package errlist

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/conn"
	"github.com/gocurator/curator/internal/proto"
)

// module is the path of the main module. The other modules of this repository are below it.
const module = "github.com/gocurator/curator"

// Function is an exported function or method with a list of errors.
type Function struct {
	Name   string // such as recipes/mutex.Mutex.Acquire
	folder string
	list   List
}

// Of returns the method of a value, or a function. The value's type may embed the one that declares
// the method. A function is given together with its name.
func Of(on any, name string) (Function, error) {
	t := reflect.TypeOf(on)
	if t.Kind() == reflect.Func {
		full := runtime.FuncForPC(reflect.ValueOf(on).Pointer()).Name()
		folder, _ := strings.CutPrefix(full, module+"/")
		slash := strings.LastIndex(folder, "/")
		dot := strings.Index(folder[slash+1:], ".")
		return function(folder[:slash+1+dot], name)
	}
	return method(t, name)
}

func method(t reflect.Type, name string) (Function, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	folder, _ := strings.CutPrefix(strings.TrimSuffix(t.PkgPath(), "_test"), module+"/")
	typ, _, _ := strings.Cut(t.Name(), "[") // the name of a generic type
	f, err := function(folder, typ+"."+name)
	if err == nil || t.Kind() != reflect.Struct {
		return f, err
	}
	for i := range t.NumField() {
		if field := t.Field(i); field.Anonymous {
			if _, has := field.Type.MethodByName(name); has {
				return method(field.Type, name)
			}
		}
	}
	return f, err
}

// function returns a function of a folder by its name, or a method by the names of its type and
// its own.
func function(folder, name string) (Function, error) {
	p, err := parsed(folder)
	if err != nil {
		return Function{}, err
	}
	f := Function{Name: folder + "." + name, folder: folder}
	text, found := p.functions[name]
	if !found {
		return f, fmt.Errorf("%s: no such function", f.Name)
	}
	if f.list, found = Parse(text); !found {
		return f, fmt.Errorf("%s has no list of errors", f.Name)
	}
	return f, nil
}

// value returns the text of an error value that the comment of f names, or "type " and the name of
// an error type.
func (f Function) value(name string) (string, error) {
	pkg, own, qualified := strings.Cut(name, ".")
	if !qualified {
		pkg, own = filepath.Base(f.folder), name
	}
	if !strings.HasPrefix(own, "Err") {
		return "type " + pkg + "." + own, nil
	}
	if pkg == "zk" {
		if err, found := zkErrors[own]; found {
			return err.Error(), nil
		}
		return "", fmt.Errorf("zk.%s is not known here", own)
	}
	folder := f.folder
	if qualified {
		var found bool
		if folder, found = tree().folders[pkg]; !found {
			return "", fmt.Errorf("no package %s", pkg)
		}
	}
	return text(folder, own)
}

// text returns the text of an error value of this module.
func text(folder, name string) (string, error) {
	if err, found := codes[filepath.Base(folder)+"."+name]; found {
		return err.Error(), nil
	}
	p, err := parsed(folder)
	if err != nil {
		return "", err
	}
	e, found := p.values[name]
	if !found {
		return "", fmt.Errorf("%s: no variable %s", folder, name)
	}
	return p.evaluate(folder, e)
}

// evaluate returns the text of an expression such as errors.New("text"),
// fmt.Errorf("%w: text", other.ErrName), &lossError{"text"} or other.ErrName.
func (p *pkg) evaluate(folder string, e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.Ident:
		return text(folder, e.Name)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && p.imports[x.Name] != "" {
			return text(p.imports[x.Name], e.Sel.Name)
		}
	case *ast.UnaryExpr:
		return p.evaluate(folder, e.X)
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.CompositeLit:
		if len(e.Elts) > 0 {
			return p.evaluate(folder, e.Elts[0])
		}
	case *ast.CallExpr:
		if len(e.Args) == 0 {
			break
		}
		format, err := p.evaluate(folder, e.Args[0])
		if err != nil {
			return "", err
		}
		for _, arg := range e.Args[1:] {
			if !strings.Contains(format, "%w") {
				break
			}
			wrapped, err := p.evaluate(folder, arg)
			if err != nil {
				return "", err
			}
			format = strings.Replace(format, "%w", wrapped, 1)
		}
		return format, nil
	}
	return "", fmt.Errorf("%s: the text of the error in an expression %T is not known here", folder, e)
}

// nameOf returns the name of an exported error value of this module, or "" for another error.
func nameOf(err error) string { return tree().names[err.Error()] }

// pkg is a parsed package.
type pkg struct {
	functions map[string]string   // comments by Name or Type.Name
	values    map[string]ast.Expr // package variables
	imports   map[string]string   // folders of this module by the name of the package
}

var (
	cacheMu sync.Mutex
	cache   = map[string]*pkg{}
)

// parsed returns the package of a folder, relative to the root of the repository.
func parsed(folder string) (*pkg, error) {
	cacheMu.Lock()
	defer cacheMu.Unlock()
	if p := cache[folder]; p != nil {
		return p, nil
	}
	dir, err := root()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, folder, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &pkg{map[string]string{}, map[string]ast.Expr{}, map[string]string{}}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.add(file)
	}
	cache[folder] = p
	return p, nil
}

func (p *pkg) add(file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if folder, own := strings.CutPrefix(path, module+"/"); own {
			p.imports[filepath.Base(folder)] = folder
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = Receiver(d.Recv.List[0].Type) + "." + name
			}
			p.functions[name] = d.Doc.Text()
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && len(s.Values) == len(s.Names) {
					for i, name := range s.Names {
						p.values[name.Name] = s.Values[i]
					}
				}
			}
		}
	}
}

// Receiver returns the name of the type of a receiver.
func Receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return Receiver(e.X)
	case *ast.IndexExpr:
		return Receiver(e.X)
	case *ast.IndexListExpr:
		return Receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// index is what a look at all public packages has shown.
type index struct {
	folders map[string]string // folders of packages, by name
	names   map[string]string // names of error values, by text
}

var errorValue = regexp.MustCompile(`(?m)^(?:var|\t)\s*(Err[A-Z]\w*)(?: error)? *=`)

// tree looks at all public packages, once. It panics if they cannot be read.
var tree = sync.OnceValue(func() index {
	dir, err := root()
	if err != nil {
		panic(err)
	}
	i := index{map[string]string{}, map[string]string{}}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && Private(d.Name()), d.IsDir() && d.Name() == "zkconn": // go-zookeeper's values
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		i.folders[filepath.Base(folder)] = filepath.ToSlash(folder)
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range errorValue.FindAllSubmatch(source, -1) {
			name := string(bytes.TrimSpace(m[1]))
			value, err := text(filepath.ToSlash(folder), name)
			if err != nil {
				return err
			}
			if i.names[value] == "" {
				i.names[value] = filepath.Base(folder) + "." + name
			}
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return i
})

// Private reports whether no user can import the packages in a folder of this name.
func Private(folder string) bool {
	switch folder {
	case "internal", "testdata", "cmd", "test", "examples", "scripts", "docs", "bin", ".git", ".ci":
		return true
	}
	return false
}

// start is the folder of the test: go test begins there, and a test may change it.
var start, errStart = os.Getwd()

// root returns the root of the repository.
func root() (string, error) {
	if errStart != nil {
		return "", errStart
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.work above %s", start)
		}
	}
}

// codes are values whose text is not in their declaration.
var codes = map[string]error{
	"framework.ErrUnimplemented":    framework.ErrUnimplemented,
	"framework.ErrAuthRequired":     framework.ErrAuthRequired,
	"framework.ErrQuotaExceeded":    framework.ErrQuotaExceeded,
	"framework.ErrThrottled":        framework.ErrThrottled,
	"framework.ErrTooLarge":         framework.ErrTooLarge,
	"admin.ErrNewConfigNoQuorum":    conn.CodeError(proto.NewConfigNoQuorum),
	"admin.ErrReconfigInProgress":   conn.CodeError(proto.ReconfigInProgress),
	"framework.ErrWatchUnsupported": framework.ErrWatchUnsupported,
}

var zkErrors = map[string]error{
	"ErrAPIError":                zk.ErrAPIError,
	"ErrAuthFailed":              zk.ErrAuthFailed,
	"ErrBadArguments":            zk.ErrBadArguments,
	"ErrBadVersion":              zk.ErrBadVersion,
	"ErrClosing":                 zk.ErrClosing,
	"ErrConnectionClosed":        zk.ErrConnectionClosed,
	"ErrDeadlock":                zk.ErrDeadlock,
	"ErrInvalidACL":              zk.ErrInvalidACL,
	"ErrInvalidFlags":            zk.ErrInvalidFlags,
	"ErrInvalidPath":             zk.ErrInvalidPath,
	"ErrNoAuth":                  zk.ErrNoAuth,
	"ErrNoChildrenForEphemerals": zk.ErrNoChildrenForEphemerals,
	"ErrNoNode":                  zk.ErrNoNode,
	"ErrNoServer":                zk.ErrNoServer,
	"ErrNodeExists":              zk.ErrNodeExists,
	"ErrNotEmpty":                zk.ErrNotEmpty,
	"ErrNotLocked":               zk.ErrNotLocked,
	"ErrReconfigDisabled":        zk.ErrReconfigDisabled,
	"ErrSessionExpired":          zk.ErrSessionExpired,
	"ErrSessionMoved":            zk.ErrSessionMoved,
}
