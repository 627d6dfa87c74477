// One image for some architectures: layers from packages of Debian and from netplug's executables, assembled by images/assemble.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { VERSION } from '../../src/base/version.ts';
import { program, type ProgramName } from '../../test/support/components.ts';
import { DEBIAN_NAMES, executablesFolder, type Architecture } from '../platform.ts';
import { bundledSoftware } from './bundled-software.ts';
import { type DebianLayer, DebianFileSet } from './debian-files.ts';
import { type DebianArchitecture, readLock, unpackLocked } from './debian-packages.ts';
import { CNI_PLUGINS, DEBIAN_RELEASE, EXECUTABLES, type ImageName, IMAGES, type LayerName } from './declared.ts';
import { describeElf } from './elf.ts';
import { type Entry, withFolders } from './entry.ts';
import { cniPluginLicenses, netplugLicenses, sourceOffer } from './licenses.ts';

export interface BuildOptions {
  readonly architectures: readonly Architecture[];
  /** What the name of the image starts with. */
  readonly registry: string;
  /** Folder of archives and layouts. */
  readonly output: string;
  /** Time of netplug's own files, in seconds since 1970. */
  readonly time: number;
  /** Commit that the image is built from, when nothing differs from it. */
  readonly revision: string | undefined;
}

export interface BuiltImage {
  readonly reference: string;
  /** Digest of the index. */
  readonly digest: string;
  readonly layout: string;
  readonly archives: readonly string[];
}

interface Layer {
  readonly comment: string;
  readonly time: number;
  readonly entries: readonly Entry[];
}

const ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin', SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt' };

/** Builds the image; returns where it is. */
export async function buildImage(name: ImageName, options: BuildOptions): Promise<BuiltImage> {
  const { architectures, registry, output, time, revision } = options;
  const { title, command, user, env } = IMAGES[name];
  const variables = Object.entries({ ...ENVIRONMENT, ...env }).map(([key, value]) => `${key}=${value}`);
  const reference = `${registry}/${name}:${VERSION}`;
  mkdirSync(output, { recursive: true });
  const bundled = await bundledSoftware();
  const platforms = architectures.map((architecture) => ({
    architecture: DEBIAN_NAMES[architecture],
    archive: archivePath(output, name, architecture),
    created: time,
    config: { Cmd: command, Env: variables, User: user, WorkingDir: '/', Labels: {} },
    layers: layersOf(name, architecture, { time, bundled }),
  }));
  const specification = {
    reference,
    layout: join(output, name),
    cache: resolve('build/layers'),
    annotations: {
      'org.opencontainers.image.title': title,
      'org.opencontainers.image.version': VERSION,
      'org.opencontainers.image.created': new Date(time * 1000).toISOString().replace('.000Z', 'Z'),
      'org.opencontainers.image.licenses':
        'Apache-2.0 AND GPL-2.0-or-later AND LGPL-2.0-or-later AND LGPL-2.1-or-later',
      ...(revision === undefined ? {} : { 'org.opencontainers.image.revision': revision }),
    },
    platforms,
  };
  const dir = mkdtempSync(join(tmpdir(), 'netplug-image-'));
  try {
    const file = join(dir, 'image.json');
    writeFileSync(file, JSON.stringify(specification));
    const digest = execFileSync(program('assemble'), [file], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const archives = platforms.map(({ archive }) => archive);
    return { reference, digest: digest.trim(), layout: specification.layout, archives };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Returns the path of the archive of an image. */
export function archivePath(output: string, name: ImageName, architecture: Architecture): string {
  return join(output, `${name}-${DEBIAN_NAMES[architecture]}.tar`);
}

function layersOf(
  name: ImageName,
  architecture: Architecture,
  { time, bundled }: { readonly time: number; readonly bundled: Entry },
): readonly Layer[] {
  const debian = DEBIAN_NAMES[architecture];
  const lock = readLock();
  const files = new DebianFileSet(unpackLocked(debian), debian);
  const libraries = files.layer('libraries');
  const offer = (layer: string, of: DebianLayer): Entry =>
    sourceOffer(
      layer,
      lock.packages[debian].filter((one) => of.packages.includes(one.name)),
    );
  const make: Readonly<Record<LayerName, () => Layer>> = {
    libraries: () => ({
      comment: `libraries of Debian ${DEBIAN_RELEASE}`,
      time: lock.time,
      entries: [...frame(debian), ...libraries.entries, offer('libraries', libraries)],
    }),
    executable: () => ({
      comment: 'netplug',
      time,
      entries: [...executables('executable', architecture), ...netplugLicenses(), bundled],
    }),
    sidecar: () => ({
      comment: 'sidecar of netplug',
      time,
      entries: [...executables('sidecar', architecture), ...netplugLicenses(), bundled],
    }),
    tools: () => {
      const tools = files.layer('tools', libraries);
      return {
        comment: 'BIRD and tools of Debian, standard CNI plugins',
        time: lock.time,
        entries: [...tools.entries, offer('tools', tools), ...cniPlugins(architecture), cniPluginLicenses()],
      };
    },
    probe: () => ({ comment: 'probe of netplug', time, entries: executables('probe', architecture) }),
    plugin: () => ({
      comment: 'plugin and starter of BIRD of netplug',
      time,
      entries: executables('plugin', architecture),
    }),
  };
  const layers = IMAGES[name].layers.map((layer) => make[layer]());
  checkPrograms(layers, architecture);
  return layers.map((layer) => ({ ...layer, entries: withFolders(layer.entries) }));
}

/** What every image has beside files of packages. */
function frame(architecture: DebianArchitecture): readonly Entry[] {
  const links = {
    bin: 'usr/bin',
    sbin: 'usr/sbin',
    lib: 'usr/lib',
    'etc/os-release': '../usr/lib/os-release',
    'var/run': '/run',
  };
  // Where the loader of this architecture is.
  const loader = architecture === 'amd64' ? { lib64: 'usr/lib64' } : {};
  return [
    ...Object.entries({ ...links, ...loader }).map(([path, symlink]) => ({ path, mode: 0o777, symlink })),
    { path: 'etc/group', mode: 0o644, text: 'root:x:0:\nnonroot:x:65532:\n' },
    { path: 'etc/nsswitch.conf', mode: 0o644, text: 'passwd: files\ngroup: files\nhosts: files dns\n' },
    {
      path: 'etc/passwd',
      mode: 0o644,
      text: 'root:x:0:0:root:/root:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/usr/sbin/nologin\n',
    },
    { path: 'root', mode: 0o700 },
    { path: 'run', mode: 0o755 },
    { path: 'tmp', mode: 0o1777 },
    { path: 'var/tmp', mode: 0o1777 },
  ];
}

function executables(layer: keyof typeof EXECUTABLES, architecture: Architecture): readonly Entry[] {
  return EXECUTABLES[layer].flatMap(([file = '', ...links]) => [
    { path: `usr/bin/${file}`, mode: 0o755, source: resolve(executablesFolder(architecture), file) },
    ...links.map((link) => ({ path: `usr/bin/${link}`, mode: 0o755, hardlink: `usr/bin/${file}` })),
  ]);
}

function cniPlugins(architecture: Architecture): readonly Entry[] {
  return CNI_PLUGINS.map((name) => {
    const built: ProgramName =
      DEBIAN_NAMES[architecture] === 'arm64' && process.arch !== 'arm64' ? `${name}-arm64` : name;
    return { path: `usr/lib/cni/${name}`, mode: 0o755, source: program(built) };
  });
}

/** Refuses an image with a program of another architecture, or without a library that one of its programs needs. */
function checkPrograms(layers: readonly Layer[], architecture: Architecture): void {
  const entries = layers.flatMap((layer) => layer.entries);
  const names = new Set(entries.map(({ path }) => basename(path)));
  for (const { path, source } of entries) {
    const elf = source === undefined ? undefined : describeElf(source);
    if (elf === undefined) continue;
    if (elf.architecture !== DEBIAN_NAMES[architecture]) throw new Error(`${path} is not for ${architecture}`);
    for (const library of elf.needed) {
      if (!names.has(library)) throw new Error(`${path} needs ${library}, which the image does not contain`);
    }
  }
}
