// Package openapitest holds answers of the services against their descriptions
// (pkg/api/openapi). An answer that is not described is a defect of one of both.
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	problems "github.com/pb33f/libopenapi-validator/errors"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/agentcube/agentcube/pkg/api"
	"github.com/agentcube/agentcube/pkg/api/openapi"
)

// The services. They are read when the program starts, as a test in a bubble of
// synctest may not share what another bubble made.
var (
	WorkloadManager = mustRead(openapi.WorkloadManager())
	Router          = mustRead(openapi.Router())
)

// Service is one that is described.
type Service struct {
	document  *v3.Document
	validator validator.Validator
	paths     []path
}

// path is one of the document.
type path struct {
	template string
	pattern  *regexp.Regexp
	item     *v3.PathItem
}

func mustRead(document []byte) *Service {
	s, err := read(document)
	if err != nil {
		panic(err)
	}
	return s
}

func read(document []byte) (*Service, error) {
	parsed, err := libopenapi.NewDocument(document)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	checker, errs := validator.NewValidator(parsed,
		config.WithFormatAssertions(),
		config.WithStrictMode(),
		// Objects of the caller's, and maps.
		config.WithStrictIgnorePaths("$.body.metadata.**", "$.body.items[*].metadata.**", "$.body.details.*",
			"$.body.openapi", "$.body.info", "$.body.paths", "$.body.components", "$.body.tags", "$.body.servers", "$.body.security"),
		// Of net/http, or explained in words.
		config.WithStrictIgnoredHeadersExtra("Date", "Content-Length", "Vary", "Location", "Content-Encoding"),
	)
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	model, err := parsed.BuildV3Model()
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	s := &Service{document: &model.Model, validator: checker}
	for template, item := range model.Model.Paths.PathItems.FromOldest() {
		s.paths = append(s.paths, path{template: template, pattern: patternOf(template), item: item})
	}
	return s, nil
}

// patternOf a template. A parameter is a segment, but for the last one of the
// router, which is the rest.
func patternOf(template string) *regexp.Regexp {
	expression := regexp.QuoteMeta(template)
	expression = strings.ReplaceAll(expression, `\{path\}`, `.*`)
	expression = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(expression, `[^/]+`)
	return regexp.MustCompile(`^` + expression + `$`)
}

// Validate holds the document itself against the specification.
func (s *Service) Validate() error {
	_, errs := s.validator.ValidateDocument()
	return joined(errs)
}

// Request returns what is wrong with a request, whose body is read and put back.
func (s *Service) Request(r *http.Request) error {
	found := s.find(r)
	if found == nil {
		return fmt.Errorf("no such path: %s", r.URL.Path)
	}
	_, errs := s.validator.ValidateHttpRequestSyncWithPathItem(r, found.item, found.template)
	return joined(errs)
}

// Answer is one to be checked.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Answer returns in what an answer differs from the description.
func (s *Service) Answer(r *http.Request, a Answer) error {
	err := s.answer(r, a)
	if err != nil {
		return fmt.Errorf("%s %s is answered %d %.2000s, which is not as described: %w", r.Method, r.URL.Path, a.Status, a.Body, err)
	}
	return nil
}

func (s *Service) answer(r *http.Request, a Answer) error {
	found := s.find(r)
	if found == nil {
		return s.outside(a, http.StatusNotFound, api.CodeNotFound)
	}
	method := r.Method
	if method == http.MethodHead && found.item.Head == nil {
		method = http.MethodGet // and the answer has no body
	}
	if !found.describes(method) && s == Router && strings.Contains(found.template, "/invocations") {
		method = http.MethodPost // any method is taken, and a document cannot name them all
	}
	if !found.describes(method) {
		return s.outside(a, http.StatusMethodNotAllowed, api.CodeMethodNotAllowed)
	}
	if s == Router && found.isInvocation() && !s.own(a) {
		return nil // the sandbox's
	}
	isJSON := strings.HasPrefix(a.Header.Get("Content-Type"), "application/json")
	if isJSON && len(a.Body) == 0 && r.Method != http.MethodHead {
		return errors.New("there is no body")
	}
	request := *r
	request.Method = method
	response := &http.Response{StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body)), Request: &request}
	_, errs := s.validator.GetResponseBodyValidator().ValidateResponseBodyWithPathItem(&request, response, found.item, found.template)
	return joined(errs)
}

// find returns the path of a request, or nil. The path is taken as it was sent,
// as both services do.
func (s *Service) find(r *http.Request) *path {
	sent := r.URL.EscapedPath()
	for i := range s.paths {
		if s.paths[i].pattern.MatchString(sent) {
			return &s.paths[i]
		}
	}
	return nil
}

func (p *path) describes(method string) bool {
	_, described := p.item.GetOperations().Get(strings.ToLower(method))
	return described
}

func (p *path) isInvocation() bool { return strings.HasSuffix(p.template, "/{path}") }

// own reports whether an answer is the router's own error.
func (s *Service) own(a Answer) bool {
	var e api.RouterError
	return json.Unmarshal(a.Body, &e) == nil && e.Code != "" && e.RequestID != "" && a.Status >= http.StatusBadRequest
}

// outside checks the answer of a route or method that is not described.
func (s *Service) outside(a Answer, status int, code string) error {
	if len(a.Body) == 0 && a.Status == status {
		return nil // of a HEAD
	}
	decoder := json.NewDecoder(bytes.NewReader(a.Body))
	decoder.DisallowUnknownFields()
	var told api.Error
	var err error
	if s == Router {
		var e api.RouterError
		err = decoder.Decode(&e)
		told = api.Error{Message: e.Error, Code: e.Code, RequestID: e.RequestID}
	} else {
		err = decoder.Decode(&told)
	}
	switch {
	case a.Status != status:
		return fmt.Errorf("there is no such route or method: want %d", status)
	case err != nil:
		return err
	case told.Code != code, told.Message == "", told.RequestID == "", told.RequestID != a.Header.Get(api.HeaderRequestID):
		return fmt.Errorf("want the code %s, a message and the id of the request", code)
	}
	return nil
}

func joined(errs []*problems.ValidationError) error {
	var all []error
	for _, e := range errs {
		text := e.Message + ": " + e.Reason
		for _, detail := range e.SchemaValidationErrors {
			text += "; " + detail.FieldPath + " " + detail.Reason
		}
		all = append(all, errors.New(text))
	}
	return errors.Join(all...)
}
