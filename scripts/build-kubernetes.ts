// Builds the programs of Kubernetes that tests and `make cluster` run, from Debian's source package, into a folder
// outside the repository. Arguments name programs; without any, it is all but e2e.test and agnhost.
// What is there is not built again, and neither is what a variable such as KUBE_APISERVER names. Needs dpkg-dev and
// golang-go.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  KUBERNETES_PROGRAMS,
  KUBERNETES_VERSION,
  type KubernetesProgram,
  kubernetesFolder,
  kubernetesPath,
} from '../test/support/kubernetes.ts';

const MIRROR = 'http://deb.debian.org/debian';
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
/** Says to this script that nobody else is building. */
const LOCKED = '--locked';
/** Folders with the types that the API server serves, and so describes in its OpenAPI document. */
const DESCRIBED = [
  'pkg',
  ...['api', 'apiextensions-apiserver', 'apimachinery', 'apiserver', 'client-go', 'kube-aggregator', 'metrics'].map(
    (name) => `staging/src/k8s.io/${name}`,
  ),
];
/** Files that e2e.test carries inside. */
const EMBEDDED = ['conformance/testdata', 'e2e/testing-manifests', 'e2e_node/testing-manifests', 'images', 'fixtures'];

/** What is built only when it is named: the tests of Kubernetes, and the program that most of their pods run. */
const ON_DEMAND: readonly KubernetesProgram[] = ['e2e.test', 'agnhost'];

const target = kubernetesFolder();
const work = join(target, '.build');
const goPath = join(work, 'go');
const source = join(goPath, 'src/k8s.io/kubernetes');
const goEnv = { GOPATH: goPath, GOCACHE: join(work, 'go-cache'), GO111MODULE: 'off', CGO_ENABLED: '0', GOFLAGS: '' };

const all = Object.keys(KUBERNETES_PROGRAMS) as KubernetesProgram[];
const isLocked = process.argv.includes(LOCKED);
const named = process.argv.slice(2).filter((argument) => argument !== LOCKED);
const unknown = named.filter((name) => !all.some((program) => program === name));
const chosen = all.filter((program) => (named.length === 0 ? !ON_DEMAND.includes(program) : named.includes(program)));

try {
  main();
} catch (cause) {
  say(cause instanceof Error ? cause.message : String(cause));
  process.exitCode = 1;
}

function main(): void {
  if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}; known: ${all.join(', ')}`);
  const programs = missing();
  if (programs.length === 0) {
    say('nothing to build');
  } else if (isLocked) {
    build(programs);
  } else {
    mkdirSync(work, { recursive: true });
    // Only one at a time builds; the next finds everything there.
    const again = [process.execPath, import.meta.filename, LOCKED, ...named];
    process.exitCode = spawnSync('flock', [join(target, '.lock'), ...again], { stdio: 'inherit' }).status ?? 1;
  }
}

/** What is to be built. A program that the environment names has to be there already. */
function missing(): KubernetesProgram[] {
  return chosen.filter((program) => {
    const path = kubernetesPath(program);
    const isBuilt = path.startsWith(target);
    if (!isBuilt && !existsSync(path)) throw new Error(`${KUBERNETES_PROGRAMS[program]} names no file: ${path}`);
    return !existsSync(path);
  });
}

function build(programs: readonly KubernetesProgram[]): void {
  mkdirSync(work, { recursive: true });
  if (!existsSync(source)) fetchSource();
  for (const program of programs) {
    if (program === 'kube-apiserver') generateOpenApi();
    if (program === 'e2e.test') generateBindata();
    const started = Date.now();
    compile(program);
    const mb = Math.round(statSync(kubernetesPath(program)).size / 1e6);
    say(`${program}: ${String(mb)} MB in ${String(Math.round((Date.now() - started) / 1000))} s`);
  }
  // A tree of gigabytes that nobody needs any more.
  rmSync(work, { recursive: true, force: true });
  say(`in ${target}`);
}

/** Debian's source with its patches. Lists of packages are kept apart from the machine's, which may lack sources. */
function fetchSource(): void {
  const apt = join(work, 'apt');
  const debian = { Types: 'deb-src', URIs: MIRROR, Suites: 'bookworm', Components: 'main', 'Signed-By': KEYRING };
  mkdirSync(join(apt, 'lists/partial'), { recursive: true });
  mkdirSync(join(apt, 'cache/archives/partial'), { recursive: true });
  const fields = Object.entries(debian).map(([key, value]) => `${key}: ${value}\n`);
  writeFileSync(join(apt, 'debian.sources'), fields.join(''));
  const settings = {
    'Dir::Etc::SourceList': join(apt, 'debian.sources'),
    'Dir::Etc::SourceParts': '/dev/null',
    'Dir::State::Lists': join(apt, 'lists'),
    'Dir::Cache': join(apt, 'cache'),
    // Downloads land in a folder that only its owner may be able to enter.
    'APT::Sandbox::User': 'root',
  };
  const options = ['-q', ...Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])];

  say(`fetching the source of ${KUBERNETES_VERSION}`);
  run('apt-get', [...options, 'update'], work);
  run('apt-get', [...options, 'source', '--download-only', 'kubernetes'], work);
  const description = readdirSync(work).find((name) => name.endsWith('.dsc'));
  if (description?.includes(KUBERNETES_VERSION) !== true)
    throw new Error(`Debian has another version: ${String(description)}`);
  const unpacked = join(work, 'unpacked');
  rmSync(unpacked, { recursive: true, force: true });
  run('dpkg-source', ['--no-check', '-x', description, unpacked], work);
  mkdirSync(join(source, '..'), { recursive: true });
  renameSync(unpacked, source);
  repairIteration();
}

/**
 * The library that encodes custom resources reaches into the runtime of Go and expects the form that iterating a map had
 * before Go 1.18: with a newer compiler the API server crashes at the first custom resource with labels. This is the
 * repair that its next release made.
 */
function repairIteration(): void {
  const folder = join(source, 'vendor/github.com/modern-go/reflect2');
  replaceIn(join(folder, 'unsafe_link.go'), [
    ['m unsafe.Pointer) *hiter', 'm unsafe.Pointer, it *hiter)'],
    [
      '// rest fields are ignored',
      'maptype, hmap, buckets, bptr, overflow, oldoverflow unsafe.Pointer\n\tstartBucket uintptr\n' +
        '\toffset uint8\n\twrapped bool\n\tb, i uint8\n\tbucket, checkBucket uintptr',
    ],
  ]);
  replaceIn(join(folder, 'unsafe_map.go'), [
    [
      'return &UnsafeMapIterator{',
      'var it hiter\n\tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), &it)\n\treturn &UnsafeMapIterator{',
    ],
    ['mapiterinit(type2.rtype, *(*unsafe.Pointer)(obj)),', '&it,'],
  ]);
}

function replaceIn(file: string, changes: readonly (readonly [string, string])[]): void {
  let text = readFileSync(file, 'utf8');
  for (const [before, after] of changes) {
    if (text.split(before).length !== 2) throw new Error(`${file} does not hold "${before}" once`);
    text = text.replace(before, after);
  }
  writeFileSync(file, text);
}

/** The API server wants a description of its types that the package leaves out. */
function generateOpenApi(): void {
  const generated = join(source, 'pkg/generated/openapi/zz_generated.openapi.go');
  if (existsSync(generated)) return;
  say('describing the API');
  const generator = goBuild('vendor/k8s.io/kube-openapi/cmd/openapi-gen', 'openapi-gen');
  const tagged = capture('grep', ['-rlE', '--include=*.go', '^//\\s*\\+k8s:openapi-gen=', ...DESCRIBED]);
  const folders = new Set(tagged.map((file) => dirname(file).replace(/^staging\/src/, 'vendor')));
  const inputs = [...folders].sort().map((folder) => `k8s.io/kubernetes/${folder}`);
  const options = {
    'go-header-file': 'hack/boilerplate/boilerplate.generatego.txt',
    'input-dirs': inputs.join(','),
    'output-package': 'k8s.io/kubernetes/pkg/generated/openapi',
    'output-file-base': 'unfinished',
    'report-filename': join(work, 'violations'),
  };
  run(
    generator,
    Object.entries(options).map(([name, value]) => `--${name}=${value}`),
  );
  renameSync(join(generated, '../unfinished.go'), generated);
}

/** Files that the tests of Kubernetes carry inside. */
function generateBindata(): void {
  const generated = join(source, 'test/e2e/generated/bindata.go');
  if (existsSync(generated)) return;
  say('embedding the files of the tests');
  const generator = goBuild('vendor/github.com/go-bindata/go-bindata/go-bindata', 'go-bindata');
  const unfinished = join(work, 'bindata.go');
  const ignored = ['.jpg', '.png', '.md', 'BUILD(\\.bazel)?'].flatMap((pattern) => ['-ignore', pattern]);
  const folders = EMBEDDED.map((folder) => `test/${folder}/...`);
  run(generator, ['-nometadata', '-o', unfinished, '-pkg', 'generated', ...ignored, ...folders]);
  renameSync(unfinished, generated);
}

function compile(program: KubernetesProgram): void {
  const unfinished = join(work, program);
  const versions = ['component-base/version', 'client-go/pkg/version'].flatMap((folder) =>
    Object.entries({ gitVersion: `v${KUBERNETES_VERSION}`, gitMajor: '1', gitMinor: '20' }).map(
      ([name, value]) => `-X k8s.io/kubernetes/vendor/k8s.io/${folder}.${name}=${value}`,
    ),
  );
  const flags = ['-trimpath', '-ldflags', ['-s -w', ...versions].join(' '), '-o', unfinished];
  if (program === 'e2e.test') go('test', '-c', ...flags, './test/e2e');
  else go('build', ...flags, program === 'agnhost' ? './test/images/agnhost' : `./cmd/${program}`);
  renameSync(unfinished, kubernetesPath(program));
}

function goBuild(folder: string, name: string): string {
  const path = join(work, name);
  if (!existsSync(path)) go('build', '-o', path, `./${folder}`);
  return path;
}

function go(...args: string[]): void {
  // Whoever works on the machine meanwhile comes first.
  run('nice', ['go', ...args]);
}

/** Its output is shown only when it fails. */
function run(file: string, args: readonly string[], cwd = source): void {
  const log = join(work, 'log');
  const env = { ...process.env, ...goEnv };
  const script = 'exec "$@" > "$LOG" 2>&1 < /dev/null';
  const { status } = spawnSync('sh', ['-c', script, 'sh', file, ...args], { cwd, env: { ...env, LOG: log } });
  if (status === 0) return;
  throw new Error(`${file} ${args.join(' ')} ended with ${String(status)}:\n${readFileSync(log, 'utf8').slice(-4000)}`);
}

function capture(file: string, args: readonly string[]): string[] {
  const output = execFileSync(file, args, { cwd: source, encoding: 'utf8', maxBuffer: 1e8 });
  return output.split('\n').filter((line) => line !== '');
}

function say(text: string): void {
  process.stdout.write(`kubernetes: ${text}\n`);
}
