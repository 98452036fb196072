package openapi

//go:generate go run -tags generate ./docs ../../../docs/api.md workload-manager.yaml router.yaml
