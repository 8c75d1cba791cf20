// Package deploy has no code: its tests hold what is deployed against the program.
package deploy

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// program builds the program of the deployments.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents")
	build := exec.Command("go", "build", "-o", path, "./examples/agents")
	build.Dir = "../temporal"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// knows fails unless the program takes the arguments and reads the variables.
func knows(t *testing.T, program string, args, variables []string) {
	t.Helper()
	help, err := exec.Command(program, append(slices.Clone(args), "--help")...).CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v\n%s", args, err, help)
	}
	for _, v := range variables {
		if !strings.Contains(string(help), v) {
			t.Errorf("the program reads no variable %s", v)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestTheManifestsFitTheProgramAndKubernetes(t *testing.T) {
	var d appsv1.Deployment
	var s corev1.Service
	var budget policyv1.PodDisruptionBudget
	parts := strings.Split(read(t, "kubernetes.yaml"), "\n---\n")
	into := []any{&d, &s, &budget}
	if len(parts) != len(into) {
		t.Fatalf("%d manifests, want %d", len(parts), len(into))
	}
	for i, o := range into { // a field that Kubernetes doesn't know is an error
		if err := yaml.UnmarshalStrict([]byte(parts[i]), o); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "the first kind", d.APIVersion+" "+d.Kind, "apps/v1 Deployment")
	equal(t, "the second kind", s.APIVersion+" "+s.Kind, "v1 Service")
	equal(t, "the third kind", budget.APIVersion+" "+budget.Kind, "policy/v1 PodDisruptionBudget")
	for name, selector := range map[string]map[string]string{"Deployment": d.Spec.Selector.MatchLabels, "Service": s.Spec.Selector, "PodDisruptionBudget": budget.Spec.Selector.MatchLabels} {
		for label, value := range selector {
			equal(t, "the label of what "+name+" selects", d.Spec.Template.Labels[label], value)
		}
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	equal(t, "the port of the service", s.Spec.Ports[0].TargetPort.StrVal, c.Ports[0].Name)
	equal(t, "the port", c.Ports[0].ContainerPort, 8123)
	var variables []string
	for _, v := range c.Env {
		if !slices.Contains(c.Args, "$("+v.Name+")") {
			variables = append(variables, v.Name)
		}
	}
	for _, arg := range c.Args {
		if name, is := strings.CutPrefix(arg, "$("); is && !slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name+")" == name }) {
			t.Errorf("%s is not set", arg)
		}
	}
	knows(t, program(t), c.Args, variables)
	routes := read(t, "../server/ready.go") + read(t, "../server/meta.go")
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		equal(t, "the port of a probe", probe.HTTPGet.Port.StrVal, c.Ports[0].Name)
		if !strings.Contains(routes, `"GET `+probe.HTTPGet.Path+`"`) {
			t.Errorf("the server has no %s", probe.HTTPGet.Path)
		}
	}
	if drain := c.Args[slices.Index(c.Args, "--drain")+1]; drain != "30s" || *pod.TerminationGracePeriodSeconds <= 30 {
		t.Errorf("a pod is killed after %d s, and drains for %s", *pod.TerminationGracePeriodSeconds, drain)
	}
}

func TestTheComposeFileFitsTheProgram(t *testing.T) {
	type service struct {
		Image       string
		Command     []string
		Environment map[string]string
		Ports       []string
		Volumes     []string
		Restart     string
		Build       *struct{ Context, Dockerfile string }
		Deploy      *struct{ Replicas int }
		Healthcheck *struct {
			Test     []string
			Interval string
			Retries  int
		}
		DependsOn map[string]struct{ Condition string } `json:"depends_on"`
		Grace     string                                `json:"stop_grace_period"`
	}
	var file struct {
		Name     string
		Services map[string]service
		Volumes  map[string]any
	}
	data, err := yaml.YAMLToJSONStrict([]byte(read(t, "compose.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		for on, how := range s.DependsOn {
			other, is := file.Services[on]
			if !is || how.Condition == "service_healthy" && other.Healthcheck == nil {
				t.Errorf("%s waits for %s to be %s, which is never", name, on, how.Condition)
			}
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, is := file.Volumes[volume]; !is {
				t.Errorf("%s has no volume %s", name, volume)
			}
		}
	}
	agents := file.Services["agents"]
	var variables []string
	for v := range agents.Environment {
		variables = append(variables, v)
	}
	knows(t, program(t), agents.Command, variables)
	equal(t, "the host of the database", strings.Contains(strings.Join(agents.Command, " "), "@postgres:5432/agents"), true)
	equal(t, "the grace period", agents.Grace, "45s")
	docker := read(t, filepath.Join(agents.Build.Context, agents.Build.Dockerfile))
	if !regexp.MustCompile(`(?m)^ENTRYPOINT \["/agents"\]$`).MatchString(docker) || !strings.Contains(docker, "./examples/agents") {
		t.Errorf("the image is not of the program:\n%s", docker)
	}
}
