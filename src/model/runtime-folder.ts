/** Folders that the pod of the agent has of its own, or mounts from the node. The runtime's are neither these nor inside of them. */
const CLOSED = [
  '/bin',
  '/sbin',
  '/usr/bin',
  '/usr/sbin',
  '/etc/ssl',
  '/etc/netplug',
  '/boot',
  '/dev',
  '/proc',
  '/sys',
  '/tmp',
  '/var/run',
  '/var/tmp',
  '/lib/modules',
  '/run/netns',
  '/run/netplug',
  '/var/lib/netplug',
  '/var/log/netplug',
];
/** Folders like these, which may have one of the runtime inside. */
const SHARED = ['/lib', '/lib64', '/usr/lib', '/usr/lib64', '/usr/share', '/var/lib/cni'];

/**
 * Returns what is wrong with a folder of the runtime; undefined when nothing is. It is mounted into the pod of the agent, where it hides
 * what the image has there. `path` is absolute and has no empty or relative parts. Pure.
 */
export function runtimeFolderFault(path: string): string | undefined {
  const hidden =
    CLOSED.find((each) => isInside(each, path) || isInside(path, each)) ?? SHARED.find((each) => isInside(each, path));
  if (hidden === undefined) return undefined;
  return `found "${path}", which would hide "${hidden}" in the pods of netplug; allowed is a folder for this alone, such as "/opt/cni/bin" or "/etc/cni/net.d"`;
}

function isInside(path: string, folder: string): boolean {
  return `${path}/`.startsWith(`${folder}/`);
}
