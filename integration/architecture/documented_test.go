package architecture_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryFolderHasAPackageDoc(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		documented := false
		for _, path := range p.files() {
			documented = documented || parse(t, path).Doc != nil
		}
		if !documented {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			file := parse(t, path)
			missing := undocumented(file)
			if within(embedded, p.name()) {
				missing = append(missing, undocumentedFields(file)...)
			}
			for _, what := range missing {
				t.Errorf("%s/%s: %s has no comment", p.name(), name, what)
			}
		}
	}
}

func TestUndocumentedFindsWhatLacksAComment(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
		func F() {}
		type T struct{}
		func (T) M() {}
		func (hidden) Free() {}
		const (
			A = 1
			B = 2 // is fine
		)
		// Config is documented, not all of its fields.
		type Config struct {
			Plain int
			Fine  int // 0 is 1
			own   int
		}`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(append(undocumented(file), undocumentedFields(file)...), " ")
	if want := "F T M A Config.Plain"; got != want {
		t.Errorf("undocumented = %q, want %q", got, want)
	}
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// undocumented lists the exported names of a file that have no comment: their
// own, or that of the group they are declared in.
func undocumented(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Name.IsExported() && decl.Doc == nil && exportedReceiver(decl) {
				names = append(names, decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				names = append(names, undocumentedIn(spec, decl.Doc != nil)...)
			}
		}
	}
	return names
}

// exportedReceiver is true for functions, and for methods of exported types.
func exportedReceiver(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	receiver := decl.Recv.List[0].Type
	for {
		switch node := receiver.(type) {
		case *ast.StarExpr:
			receiver = node.X
		case *ast.IndexExpr:
			receiver = node.X
		case *ast.IndexListExpr:
			receiver = node.X
		case *ast.Ident:
			return node.IsExported()
		default:
			return false
		}
	}
}

func undocumentedIn(spec ast.Spec, group bool) []string {
	var names []string
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && spec.Doc == nil && !group {
			names = append(names, spec.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && spec.Doc == nil && spec.Comment == nil && !group {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// undocumentedFields lists the fields of a Config that do not say what they are
// for.
func undocumentedFields(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		config, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range config.Fields.List {
			for _, name := range field.Names {
				if name.IsExported() && field.Doc == nil && field.Comment == nil {
					names = append(names, "Config."+name.Name)
				}
			}
		}
		return false
	})
	return names
}
