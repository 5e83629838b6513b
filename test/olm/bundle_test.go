// Package olm looks at the bundle for the Operator Lifecycle Manager with that project's own eyes.
package olm

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	"sigs.k8s.io/yaml"
)

// bundle writes the bundle of this tree and reads it as OLM does.
func bundle(t *testing.T) (*manifests.Bundle, string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `umask 022 && exec go run ./hack/bundle v0.1.0 quay.io/quorate/quorate:v0.1.0 "$0"`, dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := manifests.GetBundleFromDir(filepath.Join(dir, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return b, dir
}

func TestTheBundleIsValid(t *testing.T) {
	b, _ := bundle(t)
	if len(b.V1CRDs) == 0 || b.CSV == nil {
		t.Fatalf("%d CRDs, CSV %v", len(b.V1CRDs), b.CSV)
	}
	// All but the one that pulls the image, which is not there before the release.
	all := interfaces.Validators{
		validation.ClusterServiceVersionValidator, validation.CustomResourceDefinitionValidator, validation.BundleValidator,
		validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator,
		validation.ObjectValidator, validation.OperatorGroupValidator,
		validation.CommunityOperatorValidator, validation.AlphaDeprecatedAPIsValidator, validation.GoodPracticesValidator,
	}
	results := all.Validate(b.ObjectsToValidate()...)
	for _, r := range results {
		for _, e := range r.Errors {
			t.Errorf("%s: %v", r.Name, e)
		}
		for _, w := range r.Warnings {
			t.Errorf("%s: %v", r.Name, w)
		}
	}
	if len(results) < 2 {
		t.Errorf("only %d validators had something to look at", len(results))
	}
}

func TestEveryFieldOfASpecificationIsDescribed(t *testing.T) {
	b, _ := bundle(t)
	described := map[string][]v1alpha1.SpecDescriptor{}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		described[owned.Name] = owned.SpecDescriptors
	}
	for _, crd := range b.V1CRDs {
		for field := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
			i := slices.IndexFunc(described[crd.Name], func(d v1alpha1.SpecDescriptor) bool { return d.Path == field })
			if i < 0 || described[crd.Name][i].DisplayName == "" || described[crd.Name][i].Description == "" {
				t.Errorf("%s: spec.%s is not described", crd.Name, field)
			}
		}
	}
}

func TestTheCatalogNamesThisVersion(t *testing.T) {
	b, dir := bundle(t)
	text, err := os.ReadFile(filepath.Join(dir, "catalog/quorate/catalog.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names, image := map[string]string{}, ""
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		var entry struct{ Schema, Name, DefaultChannel, Image string }
		if err := yaml.Unmarshal([]byte(doc), &entry); err != nil {
			t.Fatal(err)
		}
		names[entry.Schema] = entry.Name
		image += entry.Image
	}
	if names["olm.package"] != "quorate" || names["olm.bundle"] != b.CSV.Name || names["olm.channel"] == "" {
		t.Errorf("%v, and the version is %s", names, b.CSV.Name)
	}
	text, err = os.ReadFile("../../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct{ Env map[string]string }
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	if want := release.Env["BUNDLE"] + ":v0.1.0"; image != want {
		t.Errorf("it names the image %s, and the release makes %s", image, want)
	}
}

func TestEverybodyMayReadTheBundle(t *testing.T) {
	_, dir := bundle(t)
	err := filepath.WalkDir(filepath.Join(dir, "bundle"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		want := fs.FileMode(0o644)
		if e.IsDir() {
			want = 0o755
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %o, want %o", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
