package openapitest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// Described is an answer that an operation may give.
type Described struct {
	Method, Path string
	Status       string
	// Code of the error. Empty: it is none.
	Code string
}

// Operations lists all, as "GET /v1/sessions", sorted.
func (s *Service) Operations() []string {
	var all []string
	for _, p := range s.paths {
		for method := range p.item.GetOperations().FromOldest() {
			all = append(all, strings.ToUpper(method)+" "+p.template)
		}
	}
	slices.Sort(all)
	return all
}

// Answers lists every status, and every code of an error, of every operation.
func (s *Service) Answers() []Described {
	var all []Described
	for _, p := range s.paths {
		for method, operation := range p.item.GetOperations().FromOldest() {
			for status, response := range operation.Responses.Codes.FromOldest() {
				d := Described{Method: strings.ToUpper(method), Path: p.template, Status: status}
				codes := codesOf(response)
				if len(codes) == 0 {
					all = append(all, d)
				}
				for _, d.Code = range codes {
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// Codes lists all error codes that are explained.
func (s *Service) Codes() []string {
	schema, _ := s.document.Components.Schemas.Get("ErrorCode")
	var codes []string
	for _, one := range schema.Schema().OneOf {
		codes = append(codes, one.Schema().Const.Value)
	}
	return codes
}

// codesOf an error: the second part of its schema narrows the code.
func codesOf(response *v3.Response) []string {
	media := jsonOf(response)
	if media == nil || media.Schema == nil || len(media.Schema.Schema().AllOf) == 0 {
		return nil
	}
	var codes []string
	for _, part := range media.Schema.Schema().AllOf {
		if code := property(part.Schema(), "code"); code != nil {
			for _, node := range code.Enum {
				codes = append(codes, node.Value)
			}
		}
	}
	return codes
}

// jsonOf is the JSON that an answer has, or nil.
func jsonOf(response *v3.Response) *v3.MediaType {
	if response.Content == nil {
		return nil
	}
	return response.Content.GetOrZero("application/json")
}

func property(schema *base.Schema, name string) *base.Schema {
	if schema.Properties == nil {
		return nil
	}
	found := schema.Properties.GetOrZero(name)
	if found == nil {
		return nil
	}
	return found.Schema()
}

// IsError reports whether it is one of the service's errors.
func (d Described) IsError() bool { return d.Code != "" }

// String is how a test is called.
func (d Described) String() string {
	return strings.TrimSpace(d.Method + " " + d.Path + " " + d.Status + " " + d.Code)
}

// Examples returns the examples of answers and what they are to be held against.
func (s *Service) Examples() []Example {
	var all []Example
	for _, p := range s.paths {
		for method, operation := range p.item.GetOperations().FromOldest() {
			for status, response := range operation.Responses.Codes.FromOldest() {
				media := jsonOf(response)
				if media == nil || media.Example == nil {
					continue
				}
				var value any
				err := media.Example.Decode(&value)
				all = append(all, Example{Method: strings.ToUpper(method), Path: p.template, Status: status, Value: value, Err: err, headers: response})
			}
		}
	}
	return all
}

// Example of an answer.
type Example struct {
	Method, Path, Status string
	Value                any
	Err                  error
	headers              *v3.Response
}

// Header is one that has what the answer must have.
func (e Example) Header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for name, header := range e.headers.Headers.FromOldest() {
		if header.Required {
			h.Set(name, map[string]string{"Retry-After": "2", "Preference-Applied": "respond-async"}[name])
			if h.Get(name) == "" {
				h.Set(name, "x")
			}
		}
	}
	return h
}
