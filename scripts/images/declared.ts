// What the images contain: declared once, for the lock, the build, the SBOM and docs/images.md.

/** Code name of the release of Debian that packages come from. */
export const DEBIAN_RELEASE = 'trixie';
/** Registry and repository that names of images start with, unless another is given. */
export const DEFAULT_REGISTRY = 'netplug.io';

export const IMAGE_NAMES = ['netplug-node', 'netplug', 'netplug-sidecar'] as const;
export type ImageName = (typeof IMAGE_NAMES)[number];
/** From the one that changes least often; images share those that they start with. */
export type LayerName = 'libraries' | 'executable' | 'sidecar' | 'probe' | 'tools' | 'plugin';

export interface DeclaredImage {
  readonly title: string;
  readonly layers: readonly LayerName[];
  /** What runs unless the pod says otherwise. */
  readonly command: readonly string[];
  readonly user: string;
  /** Variables that only this image has. */
  readonly env?: Readonly<Record<string, string>>;
}

/** One arena instead of one for each thread, and pages go back once they are free: a megabyte in each sidecar, 8 in an agent, 30 in a netplug-typha. */
export const MALLOC = { MALLOC_ARENA_MAX: '1', MALLOC_TOP_PAD_: '0', MALLOC_TRIM_THRESHOLD_: '65536' } as const;

export const IMAGES: Readonly<Record<ImageName, DeclaredImage>> = {
  'netplug-node': {
    title: 'netplug on every node: agent, plugin and BIRD',
    layers: ['libraries', 'executable', 'probe', 'tools', 'plugin'],
    command: ['netplug-agent'],
    user: '0:0',
    env: MALLOC,
  },
  netplug: {
    title: 'netplug in the cluster: controllers, operator, netplug-typha and netplugctl',
    layers: ['libraries', 'executable', 'probe'],
    command: ['netplug-orch-controllers'],
    user: '65532:65532',
    env: MALLOC,
  },
  'netplug-sidecar': {
    title: 'netplug beside the proxy of a pod: judges its requests',
    layers: ['libraries', 'sidecar', 'probe'],
    command: ['netplug-sidecar'],
    user: '65532:65532',
    env: MALLOC,
  },
};

/** Names of netplug's executables in /usr/bin, the first of each list being the file and the others hard links to it. */
export const EXECUTABLES: Readonly<
  Record<'executable' | 'sidecar' | 'probe' | 'plugin', readonly (readonly string[])[]>
> = {
  executable: [['netplugctl', 'netplug-agent', 'netplug-orch-controllers', 'netplug-operator', 'netplug-typha']],
  sidecar: [['netplug-sidecar']],
  probe: [['netplug-probe']],
  // What only nodes have.
  plugin: [['netplug-standalone'], ['netplug', 'netplug-ipam'], ['netplug-bird']],
};

/** Standard plugins that configurations of netplug name, in /usr/lib/cni, for hosts that lack them. */
export const CNI_PLUGINS = ['host-local', 'loopback', 'portmap', 'bandwidth'] as const;

/** Libraries that Node needs, whichever bundle is inside. Bun needs some of them. */
const NODE_LIBRARIES: readonly string[] = [
  'libc.so.6',
  'libdl.so.2',
  'libgcc_s.so.1',
  'libm.so.6',
  'libpthread.so.0',
  'libstdc++.so.6',
];

export interface DebianFiles {
  /** Paths by package; a folder with all it contains. Libraries that programs need are added. */
  readonly files: Readonly<Record<string, readonly string[]>>;
  readonly libraries: readonly string[];
}

export const DEBIAN_FILES: Readonly<Record<'libraries' | 'tools', DebianFiles>> = {
  libraries: {
    files: {
      'base-files': ['usr/lib/os-release', 'usr/share/common-licenses'],
      // Joined to one bundle.
      'ca-certificates': ['usr/share/ca-certificates/mozilla'],
      libc6: [],
      'libstdc++6': [],
      netbase: ['etc/protocols', 'etc/services'],
    },
    libraries: NODE_LIBRARIES,
  },
  tools: {
    files: {
      bird2: ['usr/sbin/bird', 'usr/sbin/birdcl'],
      iproute2: ['usr/bin/ip'],
      // For netplugctl diags, and kubectl cp.
      tar: ['usr/bin/tar'],
      // For netplugctl doctor, and for programs of the host.
      'util-linux': ['usr/bin/nsenter', 'usr/bin/unshare'],
    },
    libraries: [],
  },
};

/** Packages that are not in the images, but needed to build them. */
export const BUILD_PACKAGES = ['musl-dev'] as const;
