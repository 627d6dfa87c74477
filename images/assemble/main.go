// Assemble writes an image of one or several platforms: an OCI layout with an index, and an archive for each platform.
//
//	assemble SPECIFICATION.json
//
// The same specification and files give the same bytes. Layers are compressed once: CACHE keeps them by their content.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Specification is what scripts/images.ts writes.
type Specification struct {
	// Reference is the full name of the image, with its tag.
	Reference string `json:"reference"`
	// Layout is the folder of the OCI layout.
	Layout string `json:"layout"`
	// Cache is the folder of compressed layers.
	Cache string `json:"cache"`
	// Annotations are those of the index and of every image.
	Annotations map[string]string `json:"annotations"`
	Platforms   []PlatformImage   `json:"platforms"`
}

// PlatformImage is the image of one platform.
type PlatformImage struct {
	Architecture string `json:"architecture"`
	// Archive is the path of the archive.
	Archive string `json:"archive"`
	// Created is in seconds since 1970.
	Created int64      `json:"created"`
	Config  v1.Config  `json:"config"`
	Layers  []LayerSet `json:"layers"`
}

// LayerSet is the content of one layer.
type LayerSet struct {
	Comment string `json:"comment"`
	// Time of every file, in seconds since 1970.
	Time    int64   `json:"time"`
	Entries []Entry `json:"entries"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "assemble:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: assemble SPECIFICATION.json")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var spec Specification
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range spec.Platforms {
		image, err := build(platform, spec)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", spec.Reference, platform.Architecture, err)
		}
		if err := writeArchive(image, spec.Reference, platform.Archive); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: platform.Architecture}},
		})
	}
	annotated := mutate.Annotations(index, spec.Annotations).(v1.ImageIndex)
	draft := spec.Layout + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	path, err := layout.Write(draft, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(annotated, layout.WithAnnotations(names(spec.Reference))); err != nil {
		return err
	}
	if err := os.RemoveAll(spec.Layout); err != nil {
		return err
	}
	if err := os.Rename(draft, spec.Layout); err != nil {
		return err
	}
	digest, err := annotated.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func build(platform PlatformImage, spec Specification) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: time.Unix(platform.Created, 0).UTC()}
	for _, set := range platform.Layers {
		layer, err := compress(set, spec.Cache)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer:     layer,
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: time.Unix(set.Time, 0).UTC()}, CreatedBy: "netplug", Comment: set.Comment},
		})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = platform.Architecture
	config.Created = created
	config.Config = platform.Config
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, spec.Annotations).(v1.Image), nil
}

// names returns the annotations by which runtimes find the name of an image in an archive or a layout.
func names(reference string) map[string]string {
	return map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": reference,
	}
}

// writeArchive writes an OCI layout with one image as a tar archive, which containerd, podman and skopeo read; with
// manifest.json, which older releases of docker read.
func writeArchive(image v1.Image, reference, target string) error {
	folder, err := os.MkdirTemp(filepath.Dir(target), ".archive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendImage(image, layout.WithAnnotations(names(reference))); err != nil {
		return err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	legacy := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{blob(manifest.Config.Digest), []string{reference}, nil}
	for _, layer := range manifest.Layers {
		legacy.Layers = append(legacy.Layers, blob(layer.Digest))
	}
	text, err := json.Marshal([]any{legacy})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o644); err != nil {
		return err
	}
	return archive(folder, target)
}
