//go:build generate

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// operation is a method, or several that do the same, of a path.
type operation struct {
	methods []string
	path    string
	item    node
	node
}

func write(page *bytes.Buffer, text []byte) error {
	var parsed yaml.Node
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return err
	}
	root := node{parsed.Content[0], parsed.Content[0]}
	title := root.get("info").get("title").text()
	title = strings.TrimPrefix(title, "AgentCube ")
	fmt.Fprintf(page, "\n## The %s\n\n%s\n", title, root.get("info").get("description").text())
	operations := operationsOf(root)
	written := map[*yaml.Node]string{}
	for _, tag := range root.get("tags").items() {
		name := tag.get("name").text()
		fmt.Fprintf(page, "\n### %s\n\n%s\n", heading(title, name), tag.get("description").line())
		for _, o := range operations {
			if slices.ContainsFunc(o.get("tags").items(), func(t node) bool { return t.text() == name }) {
				o.write(page, root, written)
			}
		}
	}
	writeSchemas(page, root, title)
	return nil
}

func heading(title, name string) string {
	return strings.ToUpper(title[:1]) + title[1:] + ": " + name
}

// operationsOf a document, in its order.
func operationsOf(root node) []operation {
	var all []operation
	for _, path := range root.get("paths").members() {
		known := map[*yaml.Node]int{}
		for _, m := range path.members() {
			if !slices.Contains([]string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}, m.name) {
				continue
			}
			at := m.resolved().at
			if i, same := known[at]; same {
				all[i].methods = append(all[i].methods, strings.ToUpper(m.name))
				continue
			}
			known[at] = len(all)
			all = append(all, operation{[]string{strings.ToUpper(m.name)}, path.name, path.node, m.resolved()})
		}
	}
	return all
}

// write writes an operation. What has the answers of an earlier one, by an alias,
// is told by its name only.
func (o operation) write(page *bytes.Buffer, root node, written map[*yaml.Node]string) {
	fmt.Fprintf(page, "\n#### %s\n\n", o.get("summary").text())
	fmt.Fprintf(page, "`%s %s`\n", strings.Join(o.methods, "`, `"), o.path)
	for _, description := range []string{o.get("description").text(), o.item.get("description").text()} {
		if description != "" {
			fmt.Fprintf(page, "\n%s\n", description)
		}
	}
	answers := o.get("responses").at
	if earlier := written[answers]; earlier != "" {
		fmt.Fprintf(page, "\nParameters, body and answers are those of `%s`.\n", earlier)
		return
	}
	written[answers] = o.methods[0] + " " + o.path
	parameters := append(o.item.get("parameters").items(), o.get("parameters").items()...)
	if len(parameters) > 0 {
		page.WriteString("\n| parameter | in | |\n|---|---|---|\n")
		for _, p := range parameters {
			p = p.resolved()
			row(page, "`"+p.get("name").text()+"`", p.get("in").text(), p.get("description").line()+limits(p.get("schema")))
		}
	}
	if body := o.get("requestBody"); body.at != nil {
		schema := body.get("content").get("application/json").get("schema")
		writeFields(page, "field of the body", schema)
	}
	o.writeAnswers(page)
	o.writeExample(page, root)
}

func (o operation) writeAnswers(page *bytes.Buffer) {
	common := map[string]bool{"X-Request-Id": true}
	page.WriteString("\n| status | code | |\n|---|---|---|\n")
	for _, answer := range o.get("responses").members() {
		media := answer.get("content").get("application/json")
		meaning := answer.get("description").line()
		if name := media.get("schema"); media.at != nil && media.own("schema").refers() != "" && name.at != nil {
			meaning += " Body: " + link(media.own("schema").refers()) + "."
		}
		var headers []string
		for _, h := range answer.get("headers").members() {
			if !common[h.name] {
				headers = append(headers, "`"+h.name+"`")
			}
			common[h.name] = common[h.name] || answer.name == "default" // and said once
		}
		if len(headers) > 0 {
			meaning += " Headers: " + strings.Join(headers, ", ") + "."
		}
		status := answer.name
		if status == "default" {
			status = "any"
		}
		row(page, status, strings.Join(codes(media.get("schema")), ", "), meaning)
	}
}

// codes that the schema of an error allows.
func codes(schema node) []string {
	var all []string
	for _, part := range schema.get("allOf").items() {
		for _, code := range part.get("properties").get("code").get("enum").items() {
			all = append(all, "`"+code.text()+"`")
		}
	}
	return all
}

// writeExample writes a line that a reader can try, and its answer.
func (o operation) writeExample(page *bytes.Buffer, root node) {
	service := "$WORKLOAD_MANAGER"
	if strings.Contains(root.get("info").get("title").text(), "router") {
		service = "$ROUTER"
	}
	path := strings.NewReplacer("{id}", "$ID", "{namespace}", "default", "{name}", "python", "{path}", "hello").Replace(o.path)
	line := "curl"
	if o.methods[0] != "GET" {
		line += " -X " + o.methods[0]
	}
	var query []string
	for _, p := range append(o.item.get("parameters").items(), o.get("parameters").items()...) {
		p = p.resolved()
		example := p.get("example").text()
		switch {
		case p.get("in").text() == "query" && example != "":
			query = append(query, p.get("name").text()+"="+example)
		case p.get("in").text() == "header" && example != "":
			line += fmt.Sprintf(" -H '%s: %s'", p.get("name").text(), example)
		case p.get("name").text() == "x-agentcube-session-id" && p.get("in").text() == "header":
			line += fmt.Sprintf(` -H "x-agentcube-session-id: $ID"`)
		}
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	if body := compact(o.get("requestBody").get("content").get("application/json").get("example")); body != "" {
		line += " -d '" + body + "'"
	}
	fmt.Fprintf(page, "\n```sh\n%s \"%s%s\"\n```\n", line, service, path)
	for _, answer := range o.get("responses").members() {
		if example := answer.get("content").get("application/json").get("example"); example.at != nil && strings.HasPrefix(answer.name, "2") {
			fmt.Fprintf(page, "\n```json\n%s\n```\n", indented(example))
			return
		}
	}
}

func writeSchemas(page *bytes.Buffer, root node, title string) {
	fmt.Fprintf(page, "\n### %s\n", heading(title, "bodies"))
	for _, schema := range root.get("components").get("schemas").members() {
		if schema.get("properties").at == nil || schema.name == "CreateRequest" || schema.name == "PatchRequest" {
			continue
		}
		fmt.Fprintf(page, "\n#### %s\n", schema.name)
		if description := schema.described(); description != "" {
			fmt.Fprintf(page, "\n%s\n", description)
		}
		writeFields(page, "field", schema.node)
	}
	fmt.Fprintf(page, "\n### %s\n\n| code | |\n|---|---|\n", heading(title, "error codes"))
	for _, code := range root.get("components").get("schemas").get("ErrorCode").get("oneOf").items() {
		row(page, "`"+code.get("const").text()+"`", code.get("description").line())
	}
}

// writeFields writes a table of an object's fields.
func writeFields(page *bytes.Buffer, title string, schema node) {
	required := map[string]bool{}
	for _, name := range schema.get("required").items() {
		required[name.text()] = true
	}
	fmt.Fprintf(page, "\n| %s | type | |\n|---|---|---|\n", title)
	for _, field := range schema.get("properties").members() {
		presence := ""
		if required[field.name] {
			presence = ", always"
			if strings.Contains(title, "body") {
				presence = ", required"
			}
		}
		row(page, "`"+field.name+"`", typeOf(field.node)+presence, field.described()+limits(field.resolved()))
	}
}

// typeOf a field, in a word or two.
func typeOf(field node) string {
	schema := field.resolved()
	if schema.get("properties").at != nil {
		if name := field.refers(); name != "" {
			return link(name)
		}
		var names []string
		for _, m := range schema.get("properties").members() {
			names = append(names, "`"+m.name+"`")
		}
		return "object of " + strings.Join(names, ", ")
	}
	if items := schema.own("items"); items.at != nil {
		return "list of " + typeOf(items)
	}
	var types []string
	for _, t := range schema.get("type").items() {
		types = append(types, t.text())
	}
	if len(types) == 0 {
		types = []string{schema.get("type").text()}
	}
	kind := strings.Join(types, " or ")
	if schema.get("format").text() == "date-time" {
		kind = "time (RFC 3339)"
	}
	if kind == "" {
		kind = "anything"
	}
	return kind
}

// limits of a value, as a sentence.
func limits(schema node) string {
	var said []string
	var values []string
	for _, value := range schema.get("enum").items() {
		values = append(values, "`"+value.text()+"`")
	}
	if len(values) > 0 {
		said = append(said, "One of "+strings.Join(values, ", ")+".")
	}
	low, high := schema.get("minimum").text(), schema.get("maximum").text()
	if high != "" {
		said = append(said, fmt.Sprintf("From %s to %s.", low, high))
	}
	if value := schema.get("default").text(); value != "" {
		said = append(said, "Default "+value+".")
	}
	if len(said) == 0 {
		return ""
	}
	return " " + strings.Join(said, " ")
}

func link(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

func row(page *bytes.Buffer, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, "|", `\|`))
	}
	page.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// compact and indented are JSON in the order of the document.
func compact(n node) string {
	if n.at == nil {
		return ""
	}
	return ordered(n)
}

func indented(n node) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(ordered(n)), "", "  "); err != nil {
		panic(err)
	}
	return b.String()
}

func ordered(n node) string {
	n = n.resolved()
	var parts []string
	switch n.at.Kind {
	case yaml.MappingNode:
		for _, m := range n.members() {
			parts = append(parts, quoted(m.name)+":"+ordered(m.node))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case yaml.SequenceNode:
		for _, item := range n.items() {
			parts = append(parts, ordered(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	default:
		if n.at.Tag == "!!str" {
			return quoted(n.at.Value)
		}
		return n.at.Value
	}
}

func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}
