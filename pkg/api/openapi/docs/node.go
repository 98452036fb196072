//go:build generate

package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a part of a document. The zero node is what is not there, and has
// nothing.
type node struct {
	at   *yaml.Node
	root *yaml.Node
}

// member is one of a mapping.
type member struct {
	name string
	node
}

// resolved follows aliases and references.
func (n node) resolved() node {
	for n.at != nil && n.at.Kind == yaml.AliasNode {
		n.at = n.at.Alias
	}
	if ref := n.own("$ref"); ref.at != nil {
		target := node{n.root, n.root}
		for _, name := range strings.Split(strings.TrimPrefix(ref.at.Value, "#/"), "/") {
			target = target.own(name)
		}
		if target.at == nil {
			panic(fmt.Errorf("line %d: %s leads nowhere", ref.at.Line, ref.at.Value))
		}
		return target.resolved()
	}
	return n
}

// own is a member that stands in the mapping itself.
func (n node) own(name string) node {
	for n.at != nil && n.at.Kind == yaml.AliasNode {
		n.at = n.at.Alias
	}
	if n.at == nil || n.at.Kind != yaml.MappingNode {
		return node{root: n.root}
	}
	for i := 0; i < len(n.at.Content); i += 2 {
		if n.at.Content[i].Value == name {
			return node{n.at.Content[i+1], n.root}
		}
	}
	return node{root: n.root}
}

// get is a member, or what it refers to.
func (n node) get(name string) node { return n.resolved().own(name).resolved() }

// text of a scalar, in one line.
func (n node) text() string {
	n = n.resolved()
	if n.at == nil {
		return ""
	}
	return strings.TrimSpace(n.at.Value)
}

// line is the text without line breaks.
func (n node) line() string { return strings.Join(strings.Fields(n.text()), " ") }

// described is the description that stands beside a reference, or else that of
// its target.
func (n node) described() string {
	if own := n.own("description"); own.at != nil {
		return own.line()
	}
	return n.get("description").line()
}

// members of a mapping, in their order, with those that are merged in.
func (n node) members() []member {
	n = n.resolved()
	if n.at == nil || n.at.Kind != yaml.MappingNode {
		return nil
	}
	var all []member
	for i := 0; i < len(n.at.Content); i += 2 {
		value := node{n.at.Content[i+1], n.root}
		if n.at.Content[i].Value == "<<" {
			all = append(all, value.members()...)
			continue
		}
		all = append(all, member{n.at.Content[i].Value, value})
	}
	return all
}

// items of a sequence.
func (n node) items() []node {
	n = n.resolved()
	if n.at == nil || n.at.Kind != yaml.SequenceNode {
		return nil
	}
	var all []node
	for _, item := range n.at.Content {
		all = append(all, node{item, n.root})
	}
	return all
}

// refers is the name of what a reference leads to. Empty: it is none.
func (n node) refers() string {
	ref := n.own("$ref")
	if ref.at == nil {
		return ""
	}
	return ref.at.Value[strings.LastIndex(ref.at.Value, "/")+1:]
}
