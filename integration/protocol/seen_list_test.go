package protocol_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEverySeenRuleIsListed prints which test proves which rule.
func TestEverySeenRuleIsListed(t *testing.T) {
	t.Parallel()
	const rules = 62 // taking one off is a decision, not an accident
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			test, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(test.Name.Name, "TestSeen_") {
				continue
			}
			text := ruleOf(test)
			if text == "" {
				t.Errorf("%s proves no rule", test.Name.Name)
			}
			t.Logf("%s:\n\t%s", test.Name.Name, text)
			listed++
		}
	}
	if listed != rules {
		t.Errorf("%d rules are proven, want %d", listed, rules)
	}
}

// ruleOf is the text of the rule that a test proves.
func ruleOf(test *ast.FuncDecl) (text string) {
	ast.Inspect(test, func(n ast.Node) bool {
		field, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		name, isName := field.Key.(*ast.Ident)
		literal, isText := field.Value.(*ast.BasicLit)
		if isName && isText && name.Name == "must" {
			text, _ = strconv.Unquote(literal.Value)
		}
		return true
	})
	return text
}
