package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	typeJSON     = "application/json"
	typeProtobuf = "application/vnd.kubernetes.protobuf"
)

// asMetadata reports whether the client wants metadata only.
func asMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// asProtobuf reports whether the client's first choice is protobuf, which only
// metadata has: the objects are custom resources.
func asProtobuf(r *http.Request) bool {
	return asMetadata(r) && strings.HasPrefix(r.Header.Get("Accept"), typeProtobuf)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", typeJSON)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		writeError(w, err)
		return
	}
	writeBody(w, status, body)
}

func writeError(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	if told := apierrors.APIStatus(nil); errors.As(err, &told) {
		status = told.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	writeJSON(w, int(status.Code), status)
}
