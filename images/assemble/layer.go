package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// Entry is a file, folder or link of a layer.
type Entry struct {
	// Path has no leading slash.
	Path string `json:"path"`
	Mode int64  `json:"mode"`
	// Source is the file with the content.
	Source string `json:"source,omitempty"`
	// Text is the content of a file that has no source.
	Text *string `json:"text,omitempty"`
	// Symlink is the target of a symbolic link.
	Symlink string `json:"symlink,omitempty"`
	// Hardlink is the path of another file of the layer.
	Hardlink string `json:"hardlink,omitempty"`
}

// Compression is fast, and within a few percent of the smallest. A library of a pinned release, rather than Go's own, gives
// the same bytes whatever Go compiles it.
const compression = 6

// compressed is a layer in the cache.
type compressed struct {
	path   string
	diffID v1.Hash
	digest v1.Hash
	size   int64
}

func (l compressed) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l compressed) DiffID() (v1.Hash, error)            { return l.diffID, nil }
func (l compressed) Size() (int64, error)                { return l.size, nil }
func (l compressed) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (l compressed) Compressed() (io.ReadCloser, error)  { return os.Open(l.path) }
func (l compressed) Uncompressed() (io.ReadCloser, error) {
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{reader, file}, nil
}

// compress returns the layer; it compresses only content that the cache does not have.
func compress(set LayerSet, cache string) (v1.Layer, error) {
	hash := sha256.New()
	if err := writeEntries(hash, set); err != nil {
		return nil, err
	}
	diffID := hex.EncodeToString(hash.Sum(nil))
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(cache, fmt.Sprintf("%s-%d.tar.gz", diffID, compression))
	if _, err := os.Stat(path); err != nil {
		if err := writeCompressed(path, set); err != nil {
			return nil, err
		}
	}
	// Layers that are in use are kept.
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash.Reset()
	size, err := io.Copy(hash, file)
	if err != nil {
		return nil, err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	return compressed{
		path:   path,
		diffID: v1.Hash{Algorithm: "sha256", Hex: diffID},
		digest: v1.Hash{Algorithm: "sha256", Hex: digest},
		size:   size,
	}, nil
}

func writeCompressed(path string, set LayerSet) (err error) {
	draft, err := os.CreateTemp(filepath.Dir(path), ".layer-")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	zipped, err := gzip.NewWriterLevel(draft, compression)
	if err != nil {
		return err
	}
	if err := writeEntries(zipped, set); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	if err := draft.Close(); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}

// writeEntries writes a tar archive of the layer, ordered by path, everything owned by root.
func writeEntries(to io.Writer, set LayerSet) error {
	entries := append([]Entry(nil), set.Entries...)
	sort.Slice(entries, func(i, j int) bool { return entries[i].Path < entries[j].Path })
	// A hard link follows the file that it leads to.
	sort.SliceStable(entries, func(i, j int) bool { return entries[i].Hardlink == "" && entries[j].Hardlink != "" })
	archive := tar.NewWriter(to)
	for _, entry := range entries {
		if err := writeEntry(archive, entry, time.Unix(set.Time, 0).UTC()); err != nil {
			return fmt.Errorf("%s: %w", entry.Path, err)
		}
	}
	return archive.Close()
}

func writeEntry(archive *tar.Writer, entry Entry, at time.Time) error {
	header := &tar.Header{Name: entry.Path, Mode: entry.Mode, ModTime: at, Format: tar.FormatPAX}
	switch {
	case entry.Symlink != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, entry.Symlink, 0o777
		return archive.WriteHeader(header)
	case entry.Hardlink != "":
		header.Typeflag, header.Linkname = tar.TypeLink, entry.Hardlink
		return archive.WriteHeader(header)
	case entry.Text != nil:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(*entry.Text))
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(archive, *entry.Text)
		return err
	case entry.Source != "":
		return writeFile(archive, header, entry.Source)
	default:
		header.Typeflag, header.Name = tar.TypeDir, entry.Path+"/"
		return archive.WriteHeader(header)
	}
}

func writeFile(archive *tar.Writer, header *tar.Header, source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// archive writes the folder as a tar archive with neither times nor owners.
func archive(folder, target string) (err error) {
	draft, err := os.CreateTemp(filepath.Dir(target), ".archive-")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	defer draft.Close()
	set := LayerSet{}
	err = filepath.WalkDir(folder, func(path string, item fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if item.IsDir() {
			set.Entries = append(set.Entries, Entry{Path: name, Mode: 0o755})
		} else {
			set.Entries = append(set.Entries, Entry{Path: name, Mode: 0o644, Source: path})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := writeEntries(draft, set); err != nil {
		return err
	}
	if err := draft.Chmod(0o644); err != nil {
		return err
	}
	if err := draft.Close(); err != nil {
		return err
	}
	return os.Rename(draft.Name(), target)
}
