// The archive that netplugctl diags writes on a real node, and its failure on a full disk.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Agent, startAgent } from '../support/agent.ts';
import { type RunResult, startNode, type TestNode } from '../support/node.ts';
import { NETPLUGCTL } from '../support/built.ts';

const SECRET = 'correct-horse-battery';

let node: TestNode;
let agent: Agent;
beforeAll(async () => {
  node = await startNode({ mode: 'standalone' });
  await node.seedPool('v4', '10.65.0.0/24');
  const { name, cniVersion, ...netplug } = node.netconf({ kv_endpoints: `http://root:${SECRET}@127.0.0.1:2379` });
  const conflist = JSON.stringify({ name, cniVersion, plugins: [netplug] });
  await node.run(['tee', '/etc/cni/net.d/10-netplug.conflist'], { stdin: conflist });
  agent = await startAgent(node, { socket: node.socket });
  const call = { containerId: 'c1', netns: (await node.pod()).path, conf: node.netconf() };
  const { status, stderr } = await node.cni('ADD', call);
  if (status !== 0) throw new Error(stderr);
  await agent.settled();
  await node.exec(
    'nft',
    'table ip foreign { set ranges { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }; }',
  );
});
afterAll(async () => {
  await agent?.stop();
  await node[Symbol.asyncDispose]();
});

async function diags(output: string): Promise<RunResult> {
  const where = ['--socket', node.socket, '--health', '127.0.0.1:9199', '--output', output];
  const env = { KV_ENDPOINTS: 'http://127.0.0.1:2379', NETPLUG_RUN_DIR: `${node.dir}/agent` };
  return node.run([NETPLUGCTL, 'diags', ...where], { env });
}

const fileIn = async (archive: string, path: string): Promise<string> =>
  node.exec('tar', '--extract', '--to-stdout', '--wildcards', '--file', archive, `*/${path}`);

describe('netplugctl diags on a node', () => {
  it('packs the state of agent and kernel, records and findings, without secrets', async () => {
    const archive = `${node.dir}/report.tar.gz`;
    expect(await diags(archive)).toMatchObject({ status: 0 });
    expect((await node.exec('stat', '-c', '%a %U', archive)).trim()).toBe('600 root');
    const { failed } = JSON.parse(await fileIn(archive, 'manifest.json')) as { failed: { path: string }[] };
    // netplugctl did not install anything.
    expect(failed.map(({ path }) => path)).toEqual(['state/install.json']);
    // The node has no NAT, no tunnel and no policies.
    expect(JSON.parse(await fileIn(archive, 'kernel/nftables.json'))).toMatchObject([
      {
        family: 'inet',
        name: 'netplug-pods',
        chains: [
          {
            name: 'prerouting',
            rules: expect.arrayContaining([
              { comment: expect.stringMatching(/^foreign-source /), expressions: expect.anything() },
            ]),
          },
          {
            name: 'forward',
            rules: expect.arrayContaining([
              { comment: expect.stringMatching(/^own-source /), expressions: expect.anything() },
            ]),
          },
        ],
      },
      {
        family: 'ip',
        name: 'foreign',
        sets: [{ name: 'ranges', elements: 'not read' }],
      },
    ]);
    expect(JSON.parse(await fileIn(archive, 'agent/calls.json')).calls).toMatchObject([{ command: 'ADD' }]);
    expect(await fileIn(archive, 'agent/metrics.txt')).toContain('netplug_calls_total');
    expect(JSON.parse(await fileIn(archive, 'kernel/links.json'))).toContainEqual(
      expect.objectContaining({ ifname: expect.stringMatching(/^npl/) }),
    );
    expect(JSON.parse(await fileIn(archive, 'resources/blocks.json')).blocks).toHaveLength(1);
    expect(JSON.parse(await fileIn(archive, 'doctor.json'))).toHaveProperty('findings');
    expect(await fileIn(archive, '10-netplug.conflist')).toContain('http://[redacted]@127.0.0.1:2379');
    const everything = await node.exec('tar', '--extract', '--to-stdout', '--file', archive);
    expect(everything).not.toContain(SECRET);
  });

  it('fails on a full disk, and leaves no partial archive', async () => {
    await node.exec('mkdir', '/opt/small');
    await node.exec('mount', '-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', '/opt/small');
    expect(await diags('/opt/small/report.tar.gz')).toMatchObject({
      status: 74,
      stdout: '',
      stderr: expect.stringContaining('Cannot write "/opt/small/report.tar.gz": no space left on device\n'),
    });
    expect(await node.exec('ls', '-A', '/opt/small')).toBe('');
  });
});
