package workloadmanager

import "github.com/go-chi/chi/v5"

// Walk visits every route.
func (s *Server) Walk(visit chi.WalkFunc) error { return chi.Walk(s.router, visit) }
