package e2e

import "fmt"

// runtimeTemplate is an AgentRuntime whose pods bear the annotations.
func runtimeTemplate(name string, annotations ...string) string {
	return fmt.Sprintf(`
apiVersion: runtime.agentcube.volcano.sh/v1alpha1
kind: AgentRuntime
metadata:
  name: %s
  namespace: NAMESPACE
spec:
  targetPort:
  - pathPrefix: /
    port: 8080
  podTemplate:
    annotations: {%s}
    spec:
      containers:
      - name: echo
        image: echo
        ports:
        - containerPort: 8080
`, name, pairs(annotations))
}

// interpreterTemplate is a CodeInterpreter without authentication; size 0 has
// no warm pool.
func interpreterTemplate(name string, size int, annotations ...string) string {
	return fmt.Sprintf(`
apiVersion: runtime.agentcube.volcano.sh/v1alpha1
kind: CodeInterpreter
metadata:
  name: %s
  namespace: NAMESPACE
spec:
  authMode: none
  warmPoolSize: %d
  template:
    annotations: {%s}
    image: echo
`, name, size, pairs(annotations))
}

// pairs are key, value, key, value as a YAML flow mapping.
func pairs(annotations []string) string {
	text := ""
	for i := 0; i+1 < len(annotations); i += 2 {
		text += fmt.Sprintf("%q: %q, ", annotations[i], annotations[i+1])
	}
	return text
}
