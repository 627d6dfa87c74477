// The order in which the tool finds its datastore, with real files, a real etcd and a real API server.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCtl } from '../support/ctl-datastores.ts';
import { type Etcd, startEtcd } from '../support/etcd.ts';
import { type OrchApiServer, startOrchApiServer } from '../support/orch-datastore.ts';

const scope = new AsyncDisposableStack();
let etcd: Etcd;
let server: OrchApiServer;
let folder: string;
/** Each names the datastore in one way. */
let home: Record<string, string>;
let kubectl: Record<string, string>;
let node: Record<string, string>;
let variable: Record<string, string>;
let admin: string;

beforeAll(async () => {
  etcd = scope.use(await startEtcd());
  server = scope.use(await startOrchApiServer());
  folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
  scope.defer(async () => rm(folder, { recursive: true, force: true }));
  admin = await server.callerConfig('admin tool');
  await mkdir(join(folder, '.kube'));
  await writeFile(join(folder, '.kube/config'), await readFile(admin, 'utf8'));
  home = { HOME: folder };
  kubectl = { KUBECONFIG: `${join(folder, 'missing')}:${admin}` };
  node = await conflist('node', { kv_endpoints: etcd.url });
  variable = { KV_ENDPOINTS: etcd.url };
});
afterAll(async () => scope.disposeAsync());

/** Writes a network configuration of a node, and returns what makes the tool find it. */
async function conflist(name: string, datastore: object): Promise<Record<string, string>> {
  const confDir = join(folder, name);
  await mkdir(confDir);
  const plugin = { type: 'netplug', ipam: { type: 'netplug-ipam' }, ...datastore };
  const list = { cniVersion: '1.0.0', name: 'net', plugins: [plugin] };
  await writeFile(join(confDir, '10-netplug.conflist'), JSON.stringify(list));
  return { NETPLUG_CNI_CONF_DIR: confDir };
}

async function datastoreOf(env: Record<string, string>, ...flags: string[]): Promise<string> {
  const { stdout, stderr } = await runCtl([...flags, 'version'], { env });
  return /^datastore: (.*) reachable$/m.exec(stdout)?.[1] ?? stderr;
}

describe('netplugctl finds its datastore', () => {
  it('in ~/.kube/config when nothing else names it [ctl-env]', async () => {
    expect(await datastoreOf(home)).toBe('orch');
  });

  it('in the network configuration of its node rather than in ~/.kube/config', async () => {
    expect(await datastoreOf({ ...home, ...node })).toBe('kvv3');
    const { stdout } = await runCtl(['ipam', 'check'], { env: { ...home, ...node } });
    expect(stdout).toContain('nothing wrong is left');
  });

  it('in the files of KUBECONFIG that exist rather than in the network configuration of its node', async () => {
    expect(await datastoreOf({ ...home, ...node, ...kubectl })).toBe('orch');
  });

  it('in its own variables rather than in KUBECONFIG', async () => {
    expect(await datastoreOf({ ...home, ...kubectl, ...variable })).toBe('kvv3');
    expect(await datastoreOf({ ...home, ...node, ORCHCONFIG: admin })).toBe('orch');
  });

  it('by --kubeconfig, --context and --config rather than by its own variables', async () => {
    expect(await datastoreOf({ ...home, ...node, ...variable }, '--kubeconfig', admin)).toBe('orch');
    const config = join(folder, 'ctl.yaml');
    await writeFile(config, `kv_endpoints: ${etcd.url}\n`);
    expect(await datastoreOf({ ...home, ...kubectl }, '--config', config)).toBe('kvv3');
    expect(await datastoreOf({ ...home, ...variable }, '--context', 'nowhere')).toContain(
      `Using the default kubeconfig "${join(folder, '.kube/config')}", context "nowhere" (given on the command line): `,
    );
  });
});

describe('an error about the datastore of netplugctl', () => {
  it('begins with the source of the connection, and why it was used', async () => {
    const { status, stderr } = await runCtl(['get', 'pools'], { env: { KUBECONFIG: join(folder, 'missing') } });
    expect(status).toBe(78);
    expect(stderr).toMatch(
      /^Using KUBECONFIG "[^"]+" \(no flag and no variable of netplugctl names a datastore\): Cannot use the API /,
    );
    const refused = await runCtl(['get', 'pools'], { env: { KV_ENDPOINTS: 'http://127.0.0.1:1' } });
    expect(refused).toMatchObject({ status: 75, stderr: expect.stringMatching(/^Using KV_ENDPOINTS \(set in /) });
  });

  it('lists everything that was looked at when nothing names a datastore', async () => {
    const env = { HOME: join(folder, 'nobody'), NETPLUG_CNI_CONF_DIR: join(folder, 'nowhere') };
    const { status, stderr } = await runCtl(['get', 'pools'], { env });
    expect(status).toBe(78);
    expect(stderr).toBe(
      `Cannot find the datastore: no flag and no variable of netplugctl names a datastore, KUBECONFIG is not set, "${env.NETPLUG_CNI_CONF_DIR}" has no network configuration of netplug, no service account of a pod is mounted, and "${env.HOME}/.kube/config" does not exist\n  hint: Name a kubeconfig with --kubeconfig FILE or KUBECONFIG, or etcd with KV_ENDPOINTS\n  code: store/config-invalid\n`,
    );
  });

  it('names the credentials of an administrator for a write that the plugin of the node may not make', async () => {
    const plugin = await conflist('plugin', {
      datastore_type: 'orch',
      orch: { orchconfig: await server.callerConfig('plugin') },
    });
    expect(await datastoreOf({ ...home, ...plugin })).toBe('orch');
    const { status, stderr } = await runCtl(['apply', '-f', 'examples/ippools.yaml'], { env: { ...home, ...plugin } });
    expect(status).not.toBe(0);
    expect(stderr).toContain('Using the network configuration of this node "');
    expect(stderr).toContain(
      `Use those of an administrator: --kubeconfig ${join(folder, '.kube/config')}, or KUBECONFIG`,
    );
    expect(
      await runCtl(['apply', '-f', 'examples/ippools.yaml', '--kubeconfig', admin], { env: plugin }),
    ).toMatchObject({
      status: 0,
    });
  });
});
