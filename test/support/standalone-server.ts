// A node whose agent is down, with a list of all starts of netplug-standalone.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ignoreMissing } from '../../src/base/missing-file.ts';
import { type CniAnswer, type Json, startNode, type TestNode } from './node.ts';
import { BUILT } from './built.ts';

export interface AgentlessNode extends AsyncDisposable {
  readonly node: TestNode;
  /** Folder of the sockets. */
  readonly folder: string;
  /** For NETPLUG_SOCKET. */
  readonly socket: string;
  add(containerId: string, options?: CallOptions): Promise<CniAnswer>;
  del(containerId: string, options?: CallOptions): Promise<CniAnswer>;
  /** Starts of netplug-standalone since the last question: of servers, and for one call each. */
  starts(): Promise<{ readonly servers: number; readonly alone: number }>;
  /** Process id, inside, of the server that runs; undefined without one. */
  serverPid(): Promise<number | undefined>;
}

export interface CallOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly plugin?: string;
  readonly conf?: Record<string, Json>;
}

export async function startAgentlessNode(): Promise<AgentlessNode> {
  await using scope = new AsyncDisposableStack();
  const node = scope.use(await startNode({ mode: 'standalone' }));
  await node.seedPool('v4', '10.65.0.0/16');
  const folder = join(node.dir, 'run');
  await mkdir(folder, { mode: 0o755 });
  const socket = join(folder, 'cni.sock');
  const list = join(node.dir, 'starts');
  await recordStarts(node, list);
  const pods = new Map<string, string>();
  const call = async (command: string, containerId: string, { env, plugin, conf }: CallOptions): Promise<CniAnswer> => {
    const netns = pods.get(containerId) ?? (await node.pod()).path;
    pods.set(containerId, netns);
    return node.cni(command, {
      containerId,
      netns,
      conf: conf ?? node.netconf(),
      env: { NETPLUG_SOCKET: socket, ...env },
      ...(plugin === undefined ? {} : { plugin }),
    });
  };
  const kept = scope.move();
  return {
    node,
    folder,
    socket,
    add: async (containerId, options = {}) => call('ADD', containerId, options),
    del: async (containerId, options = {}) => call('DEL', containerId, options),
    starts: async () => {
      const lines = (await readFile(list, 'utf8')).split('\n').filter((line) => line !== '');
      await writeFile(list, '');
      return {
        servers: lines.filter((line) => line === 'serve').length,
        alone: lines.filter((line) => line !== 'serve').length,
      };
    },
    serverPid: async () => {
      const text = await readFile(join(folder, 'standalone.lock'), 'utf8').catch(ignoreMissing);
      const isAlive = text !== undefined && (await node.run(['kill', '-0', text.trim()])).status === 0;
      return isAlive ? Number(text) : undefined;
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

/** Puts a script in place of the program, which notes each start and becomes the program. */
async function recordStarts(node: Pick<TestNode, 'dir' | 'exec'>, list: string): Promise<void> {
  const script = join(node.dir, 'netplug-standalone');
  await writeFile(list, '');
  // A script does not see under which name it was started.
  const text = `#!/bin/bash\necho "\${1:-alone}" >> ${list}\nexec -a netplug ${BUILT}/netplug-standalone "$@"\n`;
  await writeFile(script, text, { mode: 0o755 });
  await replaceProgram(node, script);
}

/** Replaces netplug-standalone by a copy of the file, as an upgrade does. */
export async function replaceProgram(node: Pick<TestNode, 'exec'>, file: string): Promise<void> {
  const program = '/opt/cni/bin/netplug-standalone';
  await node.exec('sh', '-c', `cp "$0" ${program}.new && mv -f ${program}.new ${program}`, file);
}
