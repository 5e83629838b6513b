// Command bundle writes the bundle of the Operator Lifecycle Manager, and the entry of a file-based catalog for it. Everything comes from
// config/: CRDs, rights, the Deployment, samples; the descriptors come from the schemas of the CRDs.
//
//	go run ./hack/bundle v0.1.0 quay.io/quorate/quorate:v0.1.0 dist/olm
//
// The layout is that of registry+v1 (https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/): bundle/manifests, bundle/metadata and
// bundle.Dockerfile, and catalog/quorate/catalog.yaml.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	packageName = "quorate"
	channel     = "candidate-v0"
	// bundleImage is what the release workflow makes of the bundle.
	bundleImage = "quay.io/quorate/quorate-bundle"
)

type object = map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bundle VERSION IMG DIR, in the root of the repository")
	}
	version, image, dir := strings.TrimPrefix(args[0], "v"), args[1], args[2]
	crds, err := readCRDs()
	if err != nil {
		return err
	}
	csv, err := serviceVersion(version, image, crds)
	if err != nil {
		return err
	}
	files := map[string]any{
		"bundle/manifests/quorate.clusterserviceversion.yaml": csv,
		"bundle/metadata/annotations.yaml":                    object{"annotations": annotations()},
	}
	for _, crd := range crds {
		files["bundle/manifests/"+crd.Name+".crd.yaml"] = crd.raw
	}
	for path, content := range files {
		if err := write(filepath.Join(dir, path), content); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(dir, "catalog/quorate/catalog.yaml"), catalog(version, csv, crds)...); err != nil {
		return err
	}
	return writeText(filepath.Join(dir, "bundle.Dockerfile"), dockerfile())
}

// definition is a CRD, and as it was written: the type adds an empty status.
type definition struct {
	apiextensionsv1.CustomResourceDefinition
	raw object
}

// readCRDs reads config/crd/bases, in the order of their names.
func readCRDs() ([]definition, error) {
	paths, err := filepath.Glob("config/crd/bases/*.yaml")
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(err, errors.New("there are no CRDs in config/crd/bases: run this in the root of the repository"))
	}
	var all []definition
	for _, path := range paths {
		var crd definition
		if err := errors.Join(read(path, &crd.CustomResourceDefinition), read(path, &crd.raw)); err != nil {
			return nil, err
		}
		all = append(all, crd)
	}
	return all, nil
}

// read reads the first document of a file.
func read(path string, into any) error {
	docs, err := documents(path)
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(docs[0]), into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// documents are the YAML documents of a file, the first of which may begin with a separator.
func documents(path string) ([]string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // Paths are those of the repository.
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return strings.Split(strings.TrimPrefix(string(text), "---\n"), "\n---\n"), nil
}

// write writes documents into one file.
func write(path string, docs ...any) error {
	var text strings.Builder
	for _, doc := range docs {
		raw, err := yaml.Marshal(doc)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		text.WriteString("---\n")
		text.Write(raw)
	}
	return writeText(path, text.String())
}

// writeText writes a file. Its directory is where whoever runs this wants the bundle. Everybody may read it: the image of the bundle keeps
// the mode, and is read by users of any name.
func writeText(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // See above.
		return fmt.Errorf("make the directory: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // See above.
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// annotations tell what the bundle is.
func annotations() map[string]string {
	const prefix = "operators.operatorframework.io.bundle."
	return map[string]string{
		prefix + "mediatype.v1":       "registry+v1",
		prefix + "manifests.v1":       "manifests/",
		prefix + "metadata.v1":        "metadata/",
		prefix + "package.v1":         packageName,
		prefix + "channels.v1":        channel,
		prefix + "channel.default.v1": channel,
	}
}

// dockerfile makes the image of the bundle, which holds nothing else.
func dockerfile() string {
	var b strings.Builder
	b.WriteString("FROM scratch\n")
	all := annotations()
	for _, name := range []string{"mediatype.v1", "manifests.v1", "metadata.v1", "package.v1", "channels.v1", "channel.default.v1"} {
		key := "operators.operatorframework.io.bundle." + name
		fmt.Fprintf(&b, "LABEL %s=%s\n", key, all[key])
	}
	b.WriteString("COPY bundle/manifests /manifests/\nCOPY bundle/metadata /metadata/\n")
	return b.String()
}

// catalog is the entry of a file-based catalog: the package, its one channel, and this version in it.
func catalog(version string, csv object, crds []definition) []any {
	name := packageName + ".v" + version
	properties := []any{object{"type": "olm.package", "value": object{"packageName": packageName, "version": version}}}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			properties = append(properties, object{
				"type": "olm.gvk", "value": object{"group": crd.Spec.Group, "kind": crd.Spec.Names.Kind, "version": v.Name},
			})
		}
	}
	spec, meta := csv["spec"].(object), csv["metadata"].(object)
	properties = append(properties, object{"type": "olm.csv.metadata", "value": object{
		"annotations": meta["annotations"], "customResourceDefinitions": spec["customresourcedefinitions"], "displayName": spec["displayName"],
		"description": spec["description"], "installModes": spec["installModes"], "keywords": spec["keywords"], "links": spec["links"],
		"maintainers": spec["maintainers"], "maturity": spec["maturity"], "minKubeVersion": spec["minKubeVersion"], "provider": spec["provider"],
	}})
	return []any{
		object{"schema": "olm.package", "name": packageName, "defaultChannel": channel, "description": spec["description"]},
		object{"schema": "olm.channel", "package": packageName, "name": channel, "entries": []any{object{"name": name}}},
		object{
			"schema": "olm.bundle", "package": packageName, "name": name, "image": bundleImage + ":v" + version,
			"properties": properties, "relatedImages": spec["relatedImages"],
		},
	}
}
