package router

import "github.com/go-chi/chi/v5"

// WalkFixed visits every route but invocations.
func (rt *Router) WalkFixed(visit chi.WalkFunc) error { return chi.Walk(rt.fixedRoutes(), visit) }
