// What every machine has and a test node may lack: an address that other nodes reach it by.
import type { TestNode } from './node.ts';

/** Addresses are of a range for measurements, and one datastore never sees one twice. */
let count = 0;

/** Gives the node a link with an address unless it has one; the link leads nowhere. */
export async function ensureUplink(node: Pick<TestNode, 'run'>): Promise<void> {
  const run = async (...command: string[]): Promise<string> => {
    const { status, stdout, stderr } = await node.run(command);
    if (status !== 0) throw new Error(`${command.join(' ')} ended with ${String(status)}: ${stderr}`);
    return stdout;
  };
  // Those of tunnels and pods do not count.
  const addresses = await run('ip', '-br', 'address', 'show', 'up', 'scope', 'global');
  if (addresses.split('\n').some((line) => /^(?!lo |npl|\S*netplug)\S+ .*[.:]/.test(line))) return;
  count += 1;
  const [ipv4, ipv6] = [`198.18.0.${String(count)}/15`, `2001:db8:18::${String(count)}/64`];
  await run('ip', 'link', 'add', 'name', 'up0', 'type', 'veth', 'peer', 'name', 'up0-nowhere');
  await run('ip', 'address', 'add', ipv4, 'dev', 'up0');
  await run('ip', 'address', 'add', ipv6, 'dev', 'up0', 'nodad');
  for (const link of ['up0', 'up0-nowhere']) await run('ip', 'link', 'set', 'dev', link, 'up');
}
