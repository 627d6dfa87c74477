import { NetplugError, reasonOf } from '../../base/errors.ts';
import type { HostLink, Kernel, LinkOwner } from '../../dataplane/kernel.ts';
import type { HostPorts } from './host-ports.ts';
import { counted } from '../../base/counted.ts';
import { slicesOf } from '../../base/slices.ts';
import type { Left, Part } from './part.ts';

/** Concurrent deletions: the kernel deletes a group in the time of one, and each pending deletion holds a socket. */
const LINKS_AT_ONCE = 64;
const NAMED = 3;

/** Interfaces of pods, with their routes. An interface without an alias of netplug stays. */
export function podLinksPart({ openKernel }: Pick<HostPorts, 'openKernel'>): Part {
  const kernel = openKernel();
  return {
    kind: 'interface',
    find: async () => Promise.resolve(kernel.listHostLinks().map(({ name }) => name)),
    remove: async (subjects, signal) => {
      const links = kernel.listHostLinks().filter(({ name }) => subjects.includes(name));
      const left: Left[] = [];
      for (const round of slicesOf(links, LINKS_AT_ONCE)) {
        signal.throwIfAborted();
        const stays = await Promise.all(round.map(async (link) => removeLink(kernel, link)));
        left.push(...stays.filter((each) => each !== undefined));
      }
      return left;
    },
  };
}

/** Returns the error that refuses a purge while interfaces of pods exist. `podOf` returns a pod as `namespace/name`, if it knows it. */
export function findPods(
  { openKernel }: Pick<HostPorts, 'openKernel'>,
  podOf: (owner: LinkOwner) => string | undefined,
): NetplugError | undefined {
  const pods = openKernel()
    .listHostLinks()
    .flatMap(({ name, owner }) => (owner === undefined ? [] : [podOf(owner) ?? name]));
  if (pods.length === 0) return undefined;
  const names = pods.slice(0, NAMED).map((name) => `"${name}"`);
  const all = pods.length > NAMED ? `${names.join(', ')}, …` : names.join(', ');
  return new NetplugError(
    'resource/in-use',
    `Cannot purge this node: ${counted(pods.length, 'interface')} of pods still exist (${all})`,
    { hint: 'Drain the node first, or use --force to cut its pods off' },
  );
}

/** Removes an interface if its owner is unchanged; one without an owner only while it has none. */
async function removeLink(kernel: Kernel, { name, owner }: HostLink): Promise<Left | undefined> {
  try {
    if (await kernel.remove(name, owner ?? { containerId: '', ifName: '' })) return undefined;
  } catch (cause) {
    return { subject: name, reason: reasonOf(cause) };
  }
  const isThere = kernel.listHostLinks().some((link) => link.name === name);
  return isThere ? { subject: name, reason: 'its alias is not one of netplug' } : undefined;
}
